"""Studies of AITurbo and Optimus, and real parameter-server training."""
