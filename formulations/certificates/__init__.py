"""Prices that prove a bound on the fitness of every allocation (`CERTIFICATE.md`)."""
