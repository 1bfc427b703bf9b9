"""Checkpoints of replays: data that cannot execute."""
