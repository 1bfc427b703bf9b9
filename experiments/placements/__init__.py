"""Placements of replays: which job held which GPUs of every node."""
