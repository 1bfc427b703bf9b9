"""Solvers side by side on instances: the gap benchmark, comparisons, the demonstration."""
