"""Studies that repeat and extend published results, by subject."""
