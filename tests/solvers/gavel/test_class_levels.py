"""Max-min fairness over classes of equal jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.gavel.share_goal import max_min
from goodalloc.models.gavel.time_sharing import TimeSharing, share_violations
from goodalloc.solvers.gavel.class_levels import ClassLevels
from goodalloc.solvers.gavel.time_shares import best_shares

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats, Indices


@st.composite
def classes(draw: st.DrawFn) -> tuple[Floats, Indices, Indices, list[Indices]]:
    """Rates, GPUs, replicas of some classes, and numbers of jobs one after the other."""
    many, types = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rates = st.lists(st.floats(0.1, 9.0), min_size=types, max_size=types)
    numbers = st.lists(st.integers(0, 5), min_size=many, max_size=many)
    return (
        np.array(draw(st.lists(rates, min_size=many, max_size=many))),
        np.array(draw(st.lists(st.integers(2, 6), min_size=types, max_size=types))),
        np.array(draw(st.lists(st.integers(1, 2), min_size=many, max_size=many))),
        [np.array(one) for one in draw(st.lists(numbers, min_size=1, max_size=4))],
    )


@settings(max_examples=12, deadline=None)
@given(classes(), st.booleans())
def test_classes_reach_the_level_of_the_program_of_all_jobs(
    drawn: tuple[Floats, Indices, Indices, list[Indices]], interior: bool
) -> None:
    """However the numbers of jobs change, and every job's shares are feasible."""
    rate, gpus, replicas, numbers = drawn
    levels = ClassLevels(rate, gpus, replicas, interior)
    for counts in numbers:
        found = levels.solve(counts)
        if not counts.any():
            assert found.level == 0.0
            assert not found.shares.any()
            continue
        place = np.repeat(np.arange(counts.size), counts)
        names = [f"job {job}" for job in range(place.size)]
        sharing = TimeSharing(names, rate[place], gpus, replicas[place])
        goal, shares = max_min(sharing), found.shares[place]
        assert not share_violations(sharing, shares)
        assert goal.value(sharing, shares) == pytest.approx(found.level, rel=1e-9)
        whole = best_shares(sharing, goal)
        assert found.level == pytest.approx(whole.value, rel=2e-5)
        assert found.level <= whole.bound * (1.0 + 1e-6)


def test_time_that_the_level_leaves_goes_where_it_is_worth_most() -> None:
    """The level of two jobs is that of the one without a fast type; the other has all of it."""
    levels = ClassLevels(np.array([[1.0, 1.0], [4.0, 2.0]]), np.array([1, 1]), np.array([1, 1]))
    found = levels.solve(np.array([1, 1]))
    assert found.level == pytest.approx(1.0)
    assert found.shares == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]), abs=1e-6)


def test_a_class_that_runs_nowhere_is_refused() -> None:
    """As by time sharing."""
    with pytest.raises(ValueError, match="runs nowhere"):
        ClassLevels(np.array([[0.0]]), np.array([1]), np.array([1]))
