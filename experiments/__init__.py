"""Experiments, benchmarks and the command line."""
