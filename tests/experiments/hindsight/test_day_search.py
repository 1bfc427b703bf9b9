"""Limits of the searches of a day with hindsight."""

from __future__ import annotations

import time

import pytest

from goodalloc.experiments.hindsight import day_search
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH, DaySearch, limits
from goodalloc.solvers.interface.stop import Stop


def test_without_a_limit_only_steps_count() -> None:
    assert USUAL_SEARCH.until is None
    assert USUAL_SEARCH.stop(7, share=0.1) == Stop(iterations=7)
    assert USUAL_SEARCH.stop() == limits(None) == Stop()


def test_a_search_may_take_its_share_of_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted when it begins; a part of the limit is left to replays and files."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    search = DaySearch(steps=8).within(100.0)
    assert search == DaySearch(steps=8, until=1000.0 + 100.0 * day_search.SEARCHED)
    now = search.until - 40.0 if search.until else 0.0
    assert search.stop(3, share=0.25) == Stop(seconds=10.0, iterations=3)
    assert search.stop(3) == Stop(seconds=40.0, iterations=3)
    now += 50.0
    assert search.stop(3) == Stop(seconds=day_search.LEAST_SECONDS, iterations=3)


@pytest.mark.parametrize(("steps", "replayed"), [(1, 1), (4, 1), (5, 1), (1000, 200)])
def test_a_schedule_with_restarts_has_a_fifth_of_the_steps(steps: int, replayed: int) -> None:
    assert DaySearch(steps=steps).replayed_steps == replayed


@pytest.mark.parametrize("until", [float("nan"), float("inf"), "noon"])
def test_a_moment_that_is_no_number_is_refused(until: object) -> None:
    with pytest.raises(ValueError, match="Hindsight: until is"):
        DaySearch(until=until)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
