"""Numbers of tables."""

from __future__ import annotations

#: Seconds of an hour.
HOUR = 3600.0


def rounded(value: float, digits: int = 5) -> float:
    """Return `value` rounded to significant digits.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import rounded
    >>> rounded(3.14159265)
    3.1416
    """
    return float(f"{value:.{digits}g}")
