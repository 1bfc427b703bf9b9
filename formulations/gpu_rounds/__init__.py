"""Rounds in which only GPUs count: choices, the pattern program, relaxations."""
