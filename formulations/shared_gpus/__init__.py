"""Matchings: which jobs share GPUs (Gandiva), which run beside which (AntMan)."""
