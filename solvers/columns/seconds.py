"""Seconds of the parts of a solution."""

from __future__ import annotations

import time


class SecondsOfParts:
    """Clock that is read at the end of every part.

    Attributes
    ----------
    found
        Seconds of every part so far, by name; those of equal names are added.

    Examples
    --------
    >>> from goodalloc.solvers.columns import SecondsOfParts
    >>> seconds = SecondsOfParts()
    >>> seconds.end("table")
    >>> [*seconds.found]
    ['table']
    """

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._begin = time.perf_counter()

    def end(self, part: str) -> None:
        """End a part."""
        now = time.perf_counter()
        self.found[part] = self.found.get(part, 0.0) + now - self._begin
        self._begin = now
