"""Pollux's genetic algorithm in JAX."""
