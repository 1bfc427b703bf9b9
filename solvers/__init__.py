"""Solvers of the formulations behind one interface."""
