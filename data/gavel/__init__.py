"""Gavel: published and fitted throughputs, seeded workloads, files of time shares."""
