"""Time shares: goals against other solvers, bounds against random shares, levels, and parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.gavel.share_goal import (
    Gain,
    Level,
    Total,
    Worst,
    completion_time,
    finish_time,
    makespan,
    max_min,
    throughput,
)
from goodalloc.models.gavel.time_sharing import (
    TimeSharing,
    equal_rates,
    isolated_shares,
    rates,
    share_violations,
)
from goodalloc.solvers.gavel import time_shares, water_filling
from goodalloc.solvers.gavel.bisection import makespan_by_bisection
from goodalloc.solvers.gavel.pop import solve_in_parts
from goodalloc.solvers.gavel.time_shares import (
    best_shares,
    best_shares_with_pairs,
)
from goodalloc.solvers.gavel.water_filling import Entity, fill_levels
from tests.support.policies.time_shares import ONE, by_linprog, drawn, goals, random_shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.gavel.water_filling import Within


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans())
def test_linear_goals_agree_with_another_solver(seed: int, jobs: int, pairs: bool) -> None:
    """Makespan is the inverse of a level, in units in which the other solver is exact enough."""
    sharing = drawn(seed, jobs, pairs=pairs)
    for name, goal in goals(sharing, seed).items():
        if name in ("finish-time", "completion"):
            continue
        found = best_shares(sharing, goal)
        assert found.status == "optimal", (name, found)
        unit = goal.work.max() if isinstance(goal, Worst) else 1.0
        linear = Level(np.zeros(jobs), goal.work / unit) if isinstance(goal, Worst) else goal
        assert isinstance(linear, Level | Gain)
        other = by_linprog(sharing, linear)
        other = unit / other if isinstance(goal, Worst) else other
        assert found.value == pytest.approx(other, rel=1e-5), name


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 8), st.booleans())
def test_no_shares_beat_a_bound_and_the_best_reach_it(seed: int, jobs: int, pairs: bool) -> None:
    """For every goal; what is returned passes the checker."""
    sharing, random = drawn(seed, jobs, pairs=pairs), np.random.default_rng(seed)
    for name, goal in goals(sharing, seed).items():
        found = best_shares(sharing, goal)
        assert found.shares is not None
        assert share_violations(sharing, found.shares) == ()
        assert found.value == goal.value(sharing, found.shares)
        assert found.gap <= 1e-4, (name, found)
        sign = 1.0 if goal.larger_is_better else -1.0
        for _ in range(20):
            shares = random_shares(sharing, random)
            assert share_violations(sharing, shares) == ()
            value = goal.value(sharing, shares)
            assert sign * value <= sign * found.bound * (1 + sign * 1e-9)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_promised_rates_are_kept_or_proved_impossible(seed: int, jobs: int) -> None:
    """By the other solver, too."""
    sharing, random = drawn(seed, jobs, pairs=seed % 2 > 0), np.random.default_rng(seed)
    goal = throughput(sharing, equal_rates(sharing))
    promised = rates(sharing, random_shares(sharing, random)) * random.choice([0.9, 0.99, 9.0])
    found, other = best_shares(sharing, goal, promised), by_linprog(sharing, goal, promised)
    if math.isfinite(other):
        assert found.value == pytest.approx(other, rel=1e-4)
        assert found.shares is not None
        assert (rates(sharing, found.shares) >= promised * (1 - 1e-5)).all()
    else:
        assert found.status == "infeasible"
        assert math.isnan(found.gap)
    priced = best_shares_with_pairs(sharing, goal, promised)
    assert priced.status == found.status


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_bisection_is_within_its_ratio_of_the_makespan_and_never_below(
    seed: int, jobs: int
) -> None:
    """As of the finish-time fairness."""
    sharing = drawn(seed, jobs)
    for name in ("makespan", "finish-time"):
        goal = goals(sharing, seed)[name]
        assert isinstance(goal, Worst)
        best, bisected = best_shares(sharing, goal), makespan_by_bisection(sharing, goal)
        assert bisected.shares is not None
        assert share_violations(sharing, bisected.shares) == ()
        assert best.value * (1 - 1e-6) <= bisected.value <= 1.05 * best.value * (1 + 1e-4), name
        assert bisected.bound <= best.value * (1 + 1e-9)
    with pytest.raises(ValueError, match=r"Bisection: ratio is 1.0; expected a finite number abov"):
        makespan_by_bisection(sharing, makespan(np.ones(jobs)), ratio=1.0)


def lexicographic(sharing: TimeSharing) -> Floats:
    """Levels of max-min fairness by trying every job alone, level after level."""
    jobs, due = sharing.num_jobs, max_min(sharing).step
    floor, rising = np.zeros(jobs), np.ones(jobs, dtype=bool)
    while rising.any():
        kept = floor * (1 - 1e-7)
        floor = floor + due * rising * max(by_linprog(sharing, Level(floor, due * rising), kept), 0)
        kept = floor * (1 - 1e-7)
        alone = np.diag(due)
        more = np.array([by_linprog(sharing, Level(floor, row), kept) for row in alone])
        still = rising & (more > 1e-4 * (floor / due).max())
        rising = still & (more > more[rising].min()) if (still == rising).all() else still
    levels: Floats = floor / due
    return levels


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_filling_gives_the_lexicographic_optimum_by_prices_and_by_a_program(
    seed: int, jobs: int
) -> None:
    """Nobody can have more without somebody lower having less."""
    sharing = drawn(seed, jobs)
    expected = np.sort(lexicographic(sharing))
    for way in ("prices", "program"):
        found = fill_levels(sharing, bottlenecks=way)
        assert found.shares is not None
        assert found.message == ""
        assert np.sort(found.levels) == pytest.approx(expected, rel=5e-3)
        assert found.gap <= 1e-4


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from(["fairness", "fifo"]))
def test_filling_in_closed_form_on_one_type_is_that_by_programs(
    seed: int, jobs: int, within: Within
) -> None:
    """For entities of any weights, also where a job has all its time."""
    random = np.random.default_rng(seed)
    sharing = TimeSharing(
        [f"job{i}" for i in range(jobs)],
        random.uniform(0.5, 2.0, (jobs, 1)),
        [int(random.integers(1, 2 * jobs + 1))],
        replicas=random.integers(1, 4, jobs),
        cluster_gpus=[2 * jobs + 4],
    )
    teams = [
        Entity(tuple(range(first, jobs, 2)), float(random.uniform(0.5, 2.0)), within)
        for first in range(min(jobs, 2))
    ]
    found, other = (fill_levels(sharing, teams, bottlenecks=way) for way in ("prices", "program"))
    assert found.shares is not None
    assert share_violations(sharing, found.shares) == ()
    assert found.levels == pytest.approx(other.levels, rel=5e-3, abs=1e-3)
    whole = found.shares[:, 0] >= 1 - 1e-9
    assert whole.all() or sharing.replicas @ found.shares[:, 0] == pytest.approx(sharing.gpus[0])


def test_entities_share_by_weight_and_their_jobs_as_they_say() -> None:
    """Six equal jobs on one GPU: a team of four with two thirds, in turn and equally."""
    sharing = TimeSharing([f"job{i}" for i in range(6)], np.ones((6, 1)), [1])
    teams = [Entity((0, 1, 2, 3), 2.0), Entity((4, 5), 1.0, "fifo")]
    found = fill_levels(sharing, teams)
    assert found.shares is not None
    assert found.shares[:, 0] == pytest.approx([1 / 6] * 4 + [1 / 3, 0.0], abs=1e-5)
    wide = TimeSharing([f"job{i}" for i in range(6)], np.ones((6, 1)), [3])
    found = fill_levels(wide, teams)
    assert found.shares is not None
    assert found.shares[:, 0] == pytest.approx([0.5] * 4 + [1.0, 0.0], abs=1e-5)


def test_filling_goes_on_where_rounding_promised_more_than_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then what jobs had is kept: here every level promises 0.02 % too much at first."""
    sharing = drawn(3, 8)
    teams = [Entity(tuple(range(first, 8, 2)), 1.0 + first, "fifo") for first in range(2)]
    exact = fill_levels(sharing, teams)
    monkeypatch.setattr(water_filling, "SLACKS", (-2e-4, 1e-6))
    found = fill_levels(sharing, teams)
    assert found.message == ""
    assert 0.0 <= found.gap <= 1e-4
    assert found.levels == pytest.approx(exact.levels, rel=5e-3, abs=1e-4)


@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_one_part_is_exact_and_more_are_feasible_and_no_better(seed: int) -> None:
    """POP's law; the same seed gives the same split."""
    sharing = drawn(seed, 24, pairs=True, crowded=2)

    def make(part: TimeSharing, _: Any) -> Level:
        return max_min(part)

    best = best_shares(sharing, max_min(sharing))
    whole = solve_in_parts(sharing, make, 1, seed)
    assert whole.result.value == best.value
    for parts in (2, 4):
        found = solve_in_parts(sharing, make, parts, seed)
        assert found.result.shares is not None
        assert len(found.seconds) == parts
        assert share_violations(sharing, found.result.shares) == ()
        assert found.result.value <= best.bound * (1 + 1e-9)
        assert solve_in_parts(sharing, make, parts, seed).result.value == found.result.value


@settings(max_examples=7)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_of_jobs_does_not_matter(seed: int, random: Any) -> None:
    """Values are the same."""
    sharing = drawn(seed, 6, pairs=True)
    order = list(range(6))
    random.shuffle(order)
    moved = sharing.of_jobs(order, sharing.gpus)
    for make in (max_min, lambda one: throughput(one, equal_rates(one))):
        values = [best_shares(one, make(one)).value for one in (sharing, moved)]
        assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_shares_and_goals_by_hand() -> None:
    """Job b only runs on the first type, job a is half as fast on the second."""
    shares = np.array([[0.25, 0.75], [0.75, 0.0]])
    assert rates(ONE, shares) == pytest.approx([1.25, 2.25])
    assert equal_rates(ONE) == pytest.approx([1.5, 3.0])
    assert isolated_shares(ONE) == pytest.approx(np.array([[0.5, 0.5], [0.5, 0.0]]))
    assert makespan([5.0, 9.0]).value(ONE, shares) == 4.0
    assert completion_time([5.0, 9.0], [1.0, 2.0]).value(ONE, shares) == 11.0
    assert finish_time([5.0, 9.0], [0.0, 1.0], [8.0, 5.0]).value(ONE, shares) == 1.0
    assert throughput(ONE, [1.0, 3.0]).value(ONE, shares) == pytest.approx(2.0)
    assert throughput(ONE, prices=[1.0, 0.5]).value(ONE, shares) == pytest.approx(0.5 + 1.5 + 2.25)
    assert max_min(ONE, [1.0, 2.0]).value(ONE, shares) == pytest.approx(0.375)
    assert best_shares(ONE, makespan([5.0, 9.0])).value == pytest.approx(4.0)
    nothing = best_shares(ONE, Gain(np.ones((2, 2))), np.array([9.0, 9.0]))
    assert (nothing.shares, nothing.status, nothing.bound) == (None, "infeasible", -math.inf)
    assert nothing.message == "at most 0.166667 of the promised rates can be kept"
    failed = best_shares(ONE, completion_time([5.0, 9.0]), solver="OSQP")
    assert (failed.status, failed.bound) == ("unknown", 0.0)
    assert failed.message == "solver: The solver OSQP cannot solve this problem."


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ([[0.5, 0.6], [0.5, 0.0]], "Job 'a' has 1.1 of its time; expected at most 1."),
        ([[0.5, 0.5], [0.6, 0.0]], "Type 0: 1.1 GPUs are taken; expected at most 1."),
        ([[-0.1, 0.5], [0.6, 0.0]], "Line 0 has -0.1 of its time on type 0"),
        ([[0.1, math.nan], [0.6, 0.0]], "Line 0 has nan of its time on type 1"),
        ([[0.1, math.inf], [0.6, 0.0]], "Line 0 has inf of its time"),
        ([[0.1, 0.2]], r"Shares have shape (1, 2); expected (2, 2)."),
    ],
)
def test_shares_that_break_a_limit_are_told(shares: Any, sentence: str) -> None:
    """A sentence each."""
    found = share_violations(ONE, np.array(shares))
    assert len(found) == 1
    assert found[0].startswith(sentence)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: TimeSharing((), np.zeros((0, 1)), [1]), "has 0 jobs and 1 types"),
        (lambda: TimeSharing(("a",), [[]], []), "has 1 jobs and 0 types"),
        (lambda: TimeSharing(("a", "a"), [[1.0], [1.0]], [1]), "Job 'a' is there twice"),
        (lambda: TimeSharing(("",), [[1.0]], [1]), "name is ''"),
        (lambda: TimeSharing(("a",), [[0.0]], [1]), "Job 'a' takes 1 GPUs and runs nowhere"),
        (lambda: TimeSharing(("a",), [[1.0]], [1], [2]), "Job 'a' takes 2 GPUs and runs nowhere"),
        (lambda: TimeSharing(("a",), [[-1.0]], [1]), "Rates are -1.0 somewhere"),
        (lambda: TimeSharing(("a",), [[math.nan]], [1]), "Rates are nan somewhere"),
        (lambda: TimeSharing(("a",), [[1.0, 2.0]], [1]), r"Rates have shape \(1, 2\); expected"),
        (lambda: TimeSharing(("a",), [[1.0]], [0]), "GPUs of a type are 0.0; expected whole"),
        (lambda: TimeSharing(("a",), [[1.0]], [1.5]), "GPUs of a type are 1.5; expected whole"),
        (lambda: TimeSharing(("a",), [[1.0]], [1], [0]), "GPUs of a job are 0.0"),
        (lambda: TimeSharing(("a",), [[1.0]], [1], [1], [(0, 0)], [[[1, 1]]]), "expected two jobs"),
        (lambda: TimeSharing(("a",), [[1.0]], [1], [1], [(0, 1)], [[[1, 1]]]), "two of 1 jobs"),
        (lambda: TimeSharing("ab", [[1.0]] * 2, [2], [1, 2], [(0, 1)], [[[1, 1]]]), "as many"),
        (
            lambda: TimeSharing("ab", [[1.0]] * 2, [2], None, [(0, 1), (1, 0)], np.ones((2, 1, 2))),
            "is there twice",
        ),
        (lambda: makespan([1.0, 0.0]), "Goal: steps has 0.0; expected finite numbers above 0"),
        (lambda: makespan([math.inf]), "Goal: steps has inf"),
        (lambda: completion_time([1.0], [-1.0]), "Goal: delay has -1.0"),
        (lambda: finish_time([1.0], [1.0], [0.0]), "Goal: alone has 0.0"),
        (lambda: max_min(ONE, [1.0, -1.0]), "Goal: weights has -1.0"),
        (lambda: throughput(ONE, prices=[0.0, 1.0]), "Goal: prices has 0.0"),
        (lambda: Total(np.zeros(2), np.zeros(3)), "Goal: shapes are"),
        (lambda: Level(np.zeros(1), np.array([math.nan])), "Goal: step has nan"),
        (
            lambda: fill_levels(ONE, [Entity((0,))]),
            "job 1 is in 0 of them; expected each of jobs 0",
        ),
        (lambda: fill_levels(ONE, [Entity((0, 1, 7))]), "job 7 is in 1 of them; expected each of"),
        (lambda: fill_levels(ONE, [Entity((0, 1)), Entity((1,))]), "job 1 is in 2 of them"),
        (lambda: fill_levels(ONE, [Entity(0)]), "Entity: jobs are 0; expected their places"),  # type: ignore[arg-type]
        (lambda: fill_levels(ONE, [(0, 1)]), r"Filling: \(0, 1\) is no Entity; expected Entity"),  # type: ignore[list-item]
        (lambda: fill_levels(ONE, bottlenecks="x"), "Filling: bottlenecks is 'x'; expected one of"),  # type: ignore[arg-type]
        (
            lambda: fill_levels(ONE, solver="x"),
            "Time shares: solver is 'x'; expected one of CLARAB",
        ),
        (lambda: fill_levels(ONE, [Entity((0, 1), 0.0)]), "Entity: weight is 0.0"),
        (lambda: fill_levels(ONE, [Entity((0, 1), 1.0, "x")]), "Entity: within is 'x'"),  # type: ignore[arg-type]
        (lambda: solve_in_parts(ONE, lambda s, _: max_min(s), 2, 0), "POP: parts is 2"),
        (lambda: solve_in_parts(ONE, lambda s, _: max_min(s), 0, 0), "POP: parts is 0"),
        (lambda: solve_in_parts(ONE, lambda s, _: max_min(s), 1, -1), "POP: seed is -1"),
        (lambda: solve_in_parts(ONE, lambda _, __: "x", 1, 0), "Goal is 'x'; expected a Worst"),  # type: ignore[arg-type, return-value]
        (
            lambda: TimeSharing("ab", [[1.0], [1.0, 2.0]], [1]),
            r"Rates are \[\[1.0\], .*expected an arr",
        ),
        (lambda: TimeSharing("ab", [[1.0], [1.0]], "x"), "GPUs of a type are 'x'; expected an arr"),
        (lambda: TimeSharing("ab", [[1.0]] * 2, [1], None, [0, 1, 1]), r"Pairs have shape \(3,\)"),
        (lambda: TimeSharing("ab", [[1.0]] * 2, [1], None, [(0, 0.5)]), "Pairs are 0.5 somewhere"),
        (lambda: TimeSharing("ab", [[1.0]] * 2, [1], None, [(0, math.inf)]), "Pairs are inf some"),
        (lambda: makespan("abc"), "Goal: values of steps are 'abc'; expected an array of numbers"),
        (lambda: makespan([[1.0], [1.0, 2.0]]), "Goal: values of steps are"),
        (lambda: max_min(ONE, [1.0, 2.0, 3.0]), r"values of weights have shape \(3,\); expected"),
        (lambda: throughput(ONE, [1.0, 2.0, 3.0]), r"values of unit have shape \(3,\)"),
        (lambda: throughput(ONE, prices=np.ones((2, 2))), r"values of prices have shape \(2, 2\)"),
        (lambda: completion_time([1.0, 2.0, 3.0], [1.0, 2.0]), r"elapsed have shape \(2,\); expec"),
        (lambda: finish_time([1.0, 2.0], [1.0] * 3, [1.0] * 2), r"elapsed have shape \(3,\)"),
        (lambda: finish_time([1.0, 2.0], 1.0, [1.0] * 3), r"alone have shape \(3,\)"),
        (lambda: Level(np.ones(2), np.zeros(2)), "Goal: step is 0 for everybody; expected a job"),
        (lambda: best_shares(ONE, "max-min"), "Goal is 'max-min'; expected a Worst, Total, Gain"),  # type: ignore[arg-type]
        (lambda: best_shares(ONE, max_min), "Goal is function; expected a Worst"),  # type: ignore[arg-type]
        (
            lambda: best_shares(ONE, makespan([1.0])),
            r"Goal: work has shape \(1,\); expected \(2,\)",
        ),
        (lambda: best_shares(ONE, Gain(np.ones(2))), r"worth has shape \(2,\); expected \(2, 2\)"),
        (lambda: best_shares(ONE, Level(np.zeros(3), np.ones(3))), r"step has shape \(3,\)"),
        (lambda: best_shares(ONE, max_min(ONE), np.ones(3)), r"Promised rates have shape \(3,\)"),
        (lambda: best_shares(ONE, max_min(ONE), np.array([1, -1])), "Promised rates are -1.0 some"),
        (lambda: best_shares(ONE, max_min(ONE), np.array([1, math.nan])), "Promised rates are nan"),
        (lambda: best_shares(ONE, max_min(ONE), solver="x"), "solver is 'x'; expected one of CLAR"),
        (
            lambda: best_shares(ONE, max_min(ONE), speed=3),
            "options are {'speed': 3}; expected sett",
        ),
        (
            lambda: best_shares_with_pairs(ONE, max_min(ONE), gap=-1),
            "Time shares: gap is -1; expec",
        ),
        (lambda: best_shares_with_pairs(ONE, max_min(ONE), gap=math.nan), "gap is nan; expected a"),
        (lambda: best_shares_with_pairs(ONE, makespan([1.0])), r"work has shape \(1,\)"),
        (lambda: best_shares_with_pairs(ONE, max_min(ONE), np.ones(1)), "Promised rates have"),
        (lambda: makespan_by_bisection(ONE, max_min(ONE)), "goal is Level; expected Worst"),  # type: ignore[arg-type]
        (lambda: makespan_by_bisection(ONE, makespan([1.0])), r"work has shape \(1,\)"),
        (lambda: makespan_by_bisection(ONE, makespan([1.0] * 2), ratio=math.nan), "ratio is nan"),
        (lambda: makespan_by_bisection(ONE, makespan([1.0] * 2), solver="x"), "solver is 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        make()


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 10))
def test_pairs_that_come_in_by_price_give_the_same_optimum(seed: int, jobs: int) -> None:
    """Of every goal, whatever pairs it began with; the bound is over all pairs."""
    sharing = drawn(seed, jobs, pairs=True)
    for name, goal in goals(sharing, seed).items():
        whole, priced = best_shares(sharing, goal), best_shares_with_pairs(sharing, goal)
        assert priced.shares is not None
        assert share_violations(sharing, priced.shares) == ()
        assert priced.value == pytest.approx(whole.value, rel=1e-4), name
        sign = 1.0 if goal.larger_is_better else -1.0
        assert sign * whole.value <= sign * priced.bound * (1 + sign * 1e-9), name
        assert priced.programs >= 1


def test_few_of_many_pairs_are_ever_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun with none, those come in that are worth it."""
    sharing = drawn(5, 24, pairs=True, crowded=8)
    goal = throughput(sharing, equal_rates(sharing))
    monkeypatch.setattr(time_shares, "FIRST_PAIRS", 0)
    monkeypatch.setattr(time_shares, "MORE_PAIRS", 1)
    found = best_shares_with_pairs(sharing, goal)
    assert found.programs > 1
    assert found.value == pytest.approx(best_shares(sharing, goal).value, rel=1e-4)
