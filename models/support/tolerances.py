"""Numerical tolerances that several parts share, each with its reason."""

#: Relative excess over what a node has, or over a GPU that is shared, that is rounding.
from __future__ import annotations

RESOURCE_TOLERANCE = 1e-9
