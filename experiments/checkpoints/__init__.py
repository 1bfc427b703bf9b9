"""Checkpoints of replays, as data that cannot execute."""
