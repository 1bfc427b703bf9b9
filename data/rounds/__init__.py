"""Seeded scheduling rounds and the benchmark set."""
