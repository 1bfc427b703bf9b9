"""Checks of arguments and arrays, shared tolerances, and loops that run on NumPy and JAX."""
