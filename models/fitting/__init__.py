"""Fitting throughput parameters to measured step times."""
