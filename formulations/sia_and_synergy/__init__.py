"""The programs of Sia and Synergy."""
