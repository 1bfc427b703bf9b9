"""Conic solver of the convex programs."""

from __future__ import annotations

#: Conic solver that CVXPY runs where the caller names no other.
CONE_SOLVER = "CLARABEL"
