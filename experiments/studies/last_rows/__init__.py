"""Bounds on any schedule that end tables of studies in other rooms."""
