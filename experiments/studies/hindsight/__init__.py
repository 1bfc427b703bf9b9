"""Studies of bounds on whole traces."""
