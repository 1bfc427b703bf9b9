"""Sharing units out: greedy, exact and bound against brute force, and the laws between them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.classical.unit_gains import UnitGains, one_each, total_gain, unit_violations
from goodalloc.models.parameter_servers.tabulated_service import ServiceTable
from goodalloc.solvers.classical.unit_shares import (
    gain_bound,
    gain_by_units,
    share_exactly,
    share_greedily,
)
from goodalloc.solvers.parameter_servers.marginal_gain import greedy_by_gain

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

seeds = st.integers(0, 1_000_000)


def random_problem(seed: int, jobs: int = 4, most: int = 4) -> UnitGains:
    """A few jobs; some gains fall, some numbers of units are impossible, many values tie."""
    random = np.random.default_rng(seed)
    shape = (int(random.integers(1, jobs + 1)), int(random.integers(1, most + 1)) + 1)
    gains = random.integers(-2, 7, shape) / (1.0 if random.random() < 0.5 else 7.0)
    gains[:, 0] = 0.0
    gains[random.random(shape) < 0.15] = -np.inf
    gains[~np.isfinite(gains).any(axis=1), 0] = 0.0
    least = int(np.argmax(np.isfinite(gains), axis=1).sum())
    return UnitGains(gains, least + int(random.integers(0, 8)))


def concave_problem(seed: int) -> UnitGains:
    """Gains that grow by less and less, and a unit for everybody as long as they last."""
    random = np.random.default_rng(seed)
    jobs, most = int(random.integers(1, 9)), int(random.integers(1, 12))
    steps = np.sort(random.exponential(1.0, (jobs, most)))[:, ::-1]
    gains = np.concatenate([np.zeros((jobs, 1)), np.cumsum(steps, axis=1)], axis=1)
    return one_each(gains, int(random.integers(0, 40)))


def best_by_enumeration(problem: UnitGains) -> float:
    """The greatest total of all allocations."""
    choices = [np.flatnonzero(np.isfinite(row)).tolist() for row in problem.gains]
    return max(
        float(sum(problem.gains[job, amount] for job, amount in enumerate(amounts)))
        for amounts in itertools.product(*choices)
        if sum(amounts) <= problem.units
    )


def test_the_exact_share_is_the_best_of_all_on_two_thousand_tiny_instances() -> None:
    """With choices left out and without; bounds hold; what is returned passes the checker."""
    for seed in range(2000):
        problem = random_problem(seed)
        best = best_by_enumeration(problem)
        greedy = share_greedily(problem)
        assert unit_violations(problem, greedy.amounts, greedy.total) == []
        assert greedy.total <= best + 1e-12
        assert gain_bound(problem) >= best - 1e-12
        for prune in (True, False):
            exact = share_exactly(problem, prune=prune)
            assert unit_violations(problem, exact.amounts, exact.total) == []
            assert exact.total == pytest.approx(best, abs=1e-12)
            assert exact.bound == pytest.approx(best, abs=1e-9)


@given(seeds)
@settings(max_examples=200, deadline=None)
def test_with_concave_gains_the_greedy_is_exact_and_attains_the_bound(seed: int) -> None:
    """Then the linear relaxation is whole."""
    problem = concave_problem(seed)
    greedy, exact = share_greedily(problem), share_exactly(problem, prune=False)
    assert greedy.total == pytest.approx(exact.total, rel=1e-12)
    assert gain_bound(problem) == pytest.approx(exact.total, rel=1e-9)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_leaving_choices_out_changes_no_total_on_larger_instances(seed: int) -> None:
    """Dips and steps, some hundred units."""
    random = np.random.default_rng(seed)
    units = np.arange(121.0)
    rate = units / (1.0 + random.random((12, 1)) * units)
    gains = random.random((12, 1)) * np.where(units > 30, 0.6, 1.0) * rate
    gains += 0.2 * random.random((12, 1)) * np.floor(units / 7)
    problem = one_each(gains, int(random.integers(12, 400)))
    plain, pruned = (share_exactly(problem, prune=prune) for prune in (False, True))
    assert pruned.total == pytest.approx(plain.total, rel=1e-12)
    assert pruned.total <= gain_bound(problem) * (1 + 1e-12)
    assert share_greedily(problem).total <= plain.total * (1 + 1e-12)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_permuting_the_jobs_permutes_the_answer(seed: int) -> None:
    """Where gains do not tie the same job gets the same."""
    random = np.random.default_rng(seed)
    gains = np.concatenate([np.zeros((5, 1)), np.cumsum(random.random((5, 6)), axis=1)], axis=1)
    order = random.permutation(5)
    for share in (share_greedily, share_exactly):
        here, there = share(UnitGains(gains, 12)), share(UnitGains(gains[order], 12))
        assert here.amounts[order].tolist() == there.amounts.tolist()
        assert here.total == pytest.approx(there.total, rel=1e-12)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_more_units_are_worth_no_less(seed: int) -> None:
    """The optimum by units rises to that of all of them; too few are worth minus infinity."""
    problem = random_problem(seed)
    worth = gain_by_units(problem)
    assert (worth[1:] >= worth[:-1]).all()
    assert worth[-1] == pytest.approx(share_exactly(problem).total)
    least = int(problem.least.sum())
    assert not np.isfinite(worth[:least]).any()
    assert np.isfinite(worth[least:]).all()


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_greedy_is_that_of_optimus_with_one_resource(seed: int) -> None:
    """The general one, on tables of remaining service, goes the same way."""
    random = np.random.default_rng(seed)
    gains = random.random((5, 7))
    gains[:, 0] = 0.0
    tables = [
        ServiceTable(f"job{job}", 1.0 - row, np.arange(7.0)[:, None])
        for job, row in enumerate(gains)
    ]
    units = int(random.integers(0, 30))
    cells = greedy_by_gain(tables, [(0,)] * 5, np.array([float(units)]), axes=(0,))
    greedy = share_greedily(UnitGains(gains, units))
    assert greedy.amounts.tolist() == [cell[0] for cell in cells]


def test_a_job_that_needs_two_units_at_once_gets_none_from_the_greedy() -> None:
    """The first is worth nothing alone; the exact share gives both."""
    problem = UnitGains(np.array([[0.0, 0.0, 5.0], [0.0, 1.0, 1.5]]), 3)
    assert share_greedily(problem).amounts.tolist() == [0, 2]
    exact = share_exactly(problem)
    assert exact.amounts.tolist() == [2, 1]
    assert exact.total == 6.0
    assert exact.gap == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(share_greedily(problem).gap)


def test_one_unit_each_goes_in_order_while_units_last() -> None:
    """The third job has none of two, whatever it would gain."""
    problem = one_each(np.array([[0.0, 1.0, 9.0]] * 3), 2)
    for share in (share_greedily, share_exactly):
        assert share(problem).amounts.tolist() == [1, 1, 0]
    assert one_each(np.zeros((2, 1)), 5).least.tolist() == [0, 0]
    assert one_each(np.array([[0.0, -np.inf], [0.0, 1.0]]), 5).least.tolist() == [0, 1]


def test_no_units_and_no_gains_are_worth_nothing() -> None:
    """And gains below 0 are left where they are."""
    for gains, units in ((np.array([[0.0, 1.0]]), 0), (np.array([[0.0, -1.0]]), 4)):
        for share in (share_greedily, share_exactly):
            found = share(UnitGains(gains, units))
            assert found.amounts.tolist() == [0]
            assert found.total == 0.0


def test_the_checker_finds_what_is_wrong() -> None:
    """Too many units, impossible ones, wrong shapes, wrong totals."""
    problem = UnitGains(np.array([[0.0, 1.0, -np.inf], [0.0, 2.0, 3.0]]), 2)
    assert unit_violations(problem, [1, 1], 3.0) == []
    for amounts, total, complaint in (
        ([2, 0], None, "Job 0 has 2 units"),
        ([0, 3], None, "Job 1 has 3 units"),
        ([-1, 0], None, "Job 0 has -1 units"),
        ([1, 2], None, "Units used: 3; there are 2"),
        ([1, 1], 3.1, "Total is said to be 3.1; it is 3"),
        ([1], None, "Units have shape"),
        ([1.0, 1.0], None, "whole number"),
    ):
        assert complaint in unit_violations(problem, amounts, total)[0]
    assert total_gain(problem, [2, 0]) == total_gain(problem, [5, 0]) == -np.inf


@pytest.mark.parametrize(
    ("gains", "units", "complaint"),
    [
        ([[0.0, 1.0]], -1, "Gains: units is -1"),
        ([[0.0, 1.0]], 1.5, "Gains: units is 1.5"),
        ([0.0, 1.0], 1, "table has shape"),
        ([[]], 1, "table has shape"),
        ([[0.0, np.nan]], 1, r"Gains\[0, 1\]: table is nan"),
        ([[0.0, np.inf]], 1, "table is inf"),
        ([[-np.inf, -np.inf]], 1, "a number of units that the job can have"),
        ([[-np.inf, 1.0], [-np.inf, 1.0]], 1, "must have 2 units; expected at most the 1"),
        ([["a", "b"]], 1, "Gains: table is"),
    ],
)
def test_gains_that_make_no_sense_are_refused(gains: Floats, units: int, complaint: str) -> None:
    """With the item, the value and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        UnitGains(gains, units)
