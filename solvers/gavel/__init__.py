"""Gavel and POP: time shares, water filling, cost and deadlines, rounds."""
