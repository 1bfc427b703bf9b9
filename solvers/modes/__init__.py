"""Exact for jobs with modes: choose, pack, cut until it packs."""
