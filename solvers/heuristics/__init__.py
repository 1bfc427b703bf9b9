"""Greedy, local search, and the relaxations whose rounding certifies them."""
