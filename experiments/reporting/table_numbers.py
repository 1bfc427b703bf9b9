"""Numbers as tables show them."""

from __future__ import annotations

HOUR = 3600.0


def rounded(value: float, digits: int = 5) -> float:
    """A number with the digits that a table needs."""
    return float(f"{value:.{digits}g}")
