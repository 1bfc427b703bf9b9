"""A short search of the prices of steady jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.solvers.steady_jobs import price_search

if TYPE_CHECKING:
    import pytest


def search_in_one_stage(monkeypatch: pytest.MonkeyPatch, *, coarseness: float) -> None:
    """Leave one stage of the search, since the bound is compiled anew for the intervals of each.

    Its intervals are so many times as long as those that are wanted.
    """
    monkeypatch.setattr(price_search, "STAGES", ((coarseness, (0.1, 0.01)),))
