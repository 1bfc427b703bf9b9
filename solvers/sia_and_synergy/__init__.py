"""Solvers of Sia and Synergy."""
