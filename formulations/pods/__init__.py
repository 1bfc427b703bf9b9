"""Packing one-node jobs by patterns of nodes."""
