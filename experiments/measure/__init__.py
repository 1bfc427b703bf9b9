"""Measuring real training and fitting a model to it."""
