"""Benchmarks of run time and quality (`make bench`)."""
