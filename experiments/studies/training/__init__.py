"""Real training on this machine: digits, adaptive batches, elastic jobs."""
