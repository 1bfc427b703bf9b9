"""Numerical tolerances that several parts share, each with its reason."""

#: Relative excess over what a node has, or over a GPU that is shared, that is rounding.
RESOURCE_TOLERANCE = 1e-9
