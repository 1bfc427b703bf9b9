"""Formulations of goodput-optimal allocation as optimisation problems."""
