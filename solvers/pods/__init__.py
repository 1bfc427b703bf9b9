"""Packing batches of one-node jobs."""
