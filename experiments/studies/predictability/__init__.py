"""Predictability of jobs: classifiers and their scores."""
