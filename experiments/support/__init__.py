"""Processes, locks, workers, records, optional extras, the version."""
