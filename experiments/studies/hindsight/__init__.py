"""Studies of whole traces with hindsight."""
