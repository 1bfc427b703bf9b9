"""Studies of Gandiva and AntMan."""
