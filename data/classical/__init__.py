"""Seeded inputs of the classical problems: auctions, losses, unrelated machines."""
