"""Policies beside the bound on any schedule of whole days, the whole family among them."""
