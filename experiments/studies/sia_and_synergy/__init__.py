"""Studies of Sia and Synergy."""
