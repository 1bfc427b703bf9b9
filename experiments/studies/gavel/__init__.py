"""Studies of Gavel and POP."""
