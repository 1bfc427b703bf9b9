"""Studies of whole days with hindsight."""
