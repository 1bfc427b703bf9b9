"""Bounds in closed form: optimal where they claim it, and below every schedule everywhere."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.formulations.hindsight.closed_forms import best_closed_form
from goodalloc.formulations.hindsight.pooled_machine import (
    pooled_bound,
    shortest_remaining_first,
)
from goodalloc.formulations.hindsight.power_law import power_law_bound
from goodalloc.models.classical.hesrpt import least_flow_time
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from tests.support.few import few
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

cp: Any = cvxpy

#: Sizes and begins of jobs, in whole seconds.
MACHINES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=4)


def of_power(
    jobs: list[tuple[float, float]], gpus: int, power: float, supply: Supply | None = None
) -> OfflineProblem:
    """Jobs of given seconds on one GPU and begins, whose speed-up is a power law."""
    counts = np.arange(1.0, gpus + 1.0)
    rates = (counts**power)[None, None]
    trainings = [
        Training(f"kind {index}", np.array([float(size)]), counts, rates)
        for index, (size, _) in enumerate(jobs)
    ]
    own = [
        OfflineJob(f"job {index}", f"kind {index}", 0.0, float(begin))
        for index, (_, begin) in enumerate(jobs)
    ]
    there = Supply.constant({"gpu": float(gpus)}) if supply is None else supply
    return OfflineProblem(tuple(trainings), tuple(own), there)


def least_total(jobs: list[tuple[int, int]]) -> int:
    """Least total of completion times on one machine, by trying every job in every second."""
    begins = [begin for _, begin in jobs]

    @cache
    def after(now: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        there = [row for row, (one, begin) in enumerate(zip(left, begins, strict=True)) if one]
        there = [row for row in there if begins[row] <= now]
        if not there:
            return after(now + 1, left)
        found = []
        for row in there:
            rest = (*left[:row], left[row] - 1, *left[row + 1 :])
            found.append(after(now + 1, rest) + (0 if rest[row] else now + 1))
        return min(found)

    return after(0, tuple(size for size, _ in jobs))


@given(MACHINES)
def test_on_one_gpu_the_pooled_bound_is_the_optimum(jobs: list[tuple[int, int]]) -> None:
    """That of trying every preemptive schedule; the rule itself has it, too."""
    least = least_total(jobs)
    assert pooled_bound(of_power([*jobs], 1, 1.0)) == pytest.approx(least, rel=1e-9)
    size, begin = np.array(jobs, dtype=float).T
    assert shortest_remaining_first(begin, size).sum() == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_with_linear_speedups_it_is_the_optimum_of_the_program(gpus: int, seed: int) -> None:
    """On the grid of seconds, at whose edges all completions are."""
    random = np.random.default_rng([gpus, seed])
    jobs = [
        (gpus * float(random.integers(1, 4)), float(random.integers(0, 4)))
        for _ in range(random.integers(2, 5))
    ]
    problem = of_power(jobs, gpus, 1.0)
    last = 4.0 + sum(size for size, _ in jobs) / gpus
    found, proven = optimum(problem, np.arange(last + 1.0))
    assert pooled_bound(problem) == pytest.approx(found, rel=1e-6)
    assert pooled_bound(problem) == pytest.approx(proven, rel=1e-6)


@given(MACHINES, st.integers(1, 4))
def test_a_faster_machine_for_a_while_is_one_of_another_time(
    jobs: list[tuple[int, int]], pause: int
) -> None:
    """Two GPUs, then none for a while, then one, against unit jobs of half a second."""
    speed = Supply(("gpu",), np.array([0.0, 2.0, 2.0 + pause]), np.array([[2.0], [0.0], [1.0]]))
    problem = of_power([*jobs], 2, 1.0, speed)

    def moment(work: float) -> float:
        return work / 2 if work <= 4 else work - 2 + pause

    def work(moment: float) -> float:
        return min(2 * moment, 4.0) + max(moment - 2.0 - pause, 0.0)

    size, begin = np.array(jobs, dtype=float).T
    ends = shortest_remaining_first(np.array([work(one) for one in begin.tolist()]), size)
    alone = np.sort(begin + size / 2)
    least = np.maximum(np.sort([moment(one) for one in ends.tolist()]), alone).sum()
    assert pooled_bound(problem) == pytest.approx(least, rel=1e-9)


@settings(max_examples=30)
@given(
    st.lists(st.floats(0.5, 50.0), min_size=1, max_size=12),
    st.integers(1, 16),
    st.floats(0.05, 0.95),
)
def test_with_a_power_law_it_is_hesrpt(sizes: list[float], gpus: int, power: float) -> None:
    """At that power; the best of all powers is no less, and for one job what it takes alone."""
    problem = of_power([(size, 0.0) for size in sizes], gpus, power)
    exact = least_flow_time(sizes, gpus, power)
    assert power_law_bound(problem, power) == pytest.approx(exact, rel=1e-9)
    assert power_law_bound(problem) >= exact * (1 - 1e-2)
    alone = of_power([(sizes[0], 0.0)], gpus, power)
    assert power_law_bound(alone, power) == pytest.approx(sizes[0] / gpus**power, rel=1e-9)


def least_in_order(sizes: list[float], gpus: int, power: float) -> float:
    """Least total completion time of jobs that end in the order in which they are listed.

    A convex program: from the end of each job to that of the next, of length t, a job that has
    k / t of the GPUs on the mean does at most k^p t^(1 - p) of its work.
    """
    number = len(sizes)
    lengths = cp.Variable(number, nonneg=True)
    given = cp.Variable((number, number), nonneg=True)
    done = cp.Variable((number, number), nonneg=True)
    rows = [given.sum(axis=1) <= gpus * lengths, done.sum(axis=0) >= sizes]
    for part in range(number):
        times = lengths[part] * np.ones(number - part)
        rows.append(cp.PowCone3D(given[part, part:], times, done[part, part:], power))
        rows += [given[part, :part] == 0, done[part, :part] == 0] if part else []
    there = np.arange(number, 0, -1)
    program = cp.Problem(cp.Minimize(there @ lengths), rows)
    return float(program.solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("power", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(("jobs", "gpus"), [(1, 3), (2, 4), (3, 2), (3, 7)])
def test_with_a_power_law_it_is_the_optimum_of_convex_programs(
    jobs: int, gpus: int, power: float
) -> None:
    """The best order of the ends, without any closed form; to 1e-6."""
    sizes = np.random.default_rng([jobs, gpus]).uniform(1.0, 9.0, jobs).tolist()
    least = min(least_in_order([*order], gpus, power) for order in permutations(sizes))
    problem = of_power([(size, 0.0) for size in sizes], gpus, power)
    assert power_law_bound(problem, power) == pytest.approx(least, rel=1e-6)


def test_towards_linear_speedups_hesrpt_is_the_pooled_machine() -> None:
    """From below, as it should."""
    problem = of_power([(3.0, 0.0), (1.0, 0.0), (2.0, 0.0)], 4, 1.0)
    assert pooled_bound(problem) == pytest.approx(10.0 / 4.0)
    assert power_law_bound(problem) <= 2.5 * (1 + 1e-9)
    assert power_law_bound(problem, 0.99) == pytest.approx(2.5, rel=0.03)


def even(problem: OfflineProblem, *, together: bool, change: bool) -> OfflineProblem:
    """Return a problem with equal weights, all begins at once, and a GPU more from 20 s on."""
    jobs = [replace(job, weight=0.5) for job in problem.jobs]
    if together:
        jobs = [replace(job, begin=UNIT, release=min(job.release, UNIT)) for job in jobs]
    supply = problem.supply
    if change:
        gpus = np.concatenate([supply.gpus, supply.gpus + 1.0])
        supply = Supply(supply.types, np.array([0.0, 2 * UNIT]), gpus)
    return replace(problem, jobs=tuple(jobs), supply=supply)


@pytest.mark.parametrize("seed", few(range(12), 6))
@pytest.mark.parametrize("types", [1, 2])
def test_no_closed_form_is_above_the_optimum(types: int, seed: int) -> None:
    """Of tiny traces; phases, types of GPU, and a supply that changes."""
    problem = even(tiny_trace(seed, types=types), together=seed % 2 == 0, change=seed % 3 == 0)
    _, proven = optimum(problem)
    found = best_closed_form(problem)
    assert found is not None
    assert 0.3 * proven < found.value <= proven * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 2])
def test_no_closed_form_is_above_the_optimum_of_hundreds_of_traces(types: int) -> None:
    """No violation on 600."""
    for seed in range(200, 500):
        problem = even(tiny_trace(seed, types=types), together=seed % 2 == 0, change=seed % 3 == 0)
        found = best_closed_form(problem)
        assert found is not None
        assert found.value <= optimum(problem)[1] * (1 + 1e-6), seed


def test_the_greatest_of_them_is_told_by_its_name() -> None:
    """Linear speed-ups against a square root; none with unequal weights."""
    jobs = [(3.0, 0.0), (1.0, 0.0)]
    linear, root = (best_closed_form(of_power(jobs, 4, power)) for power in (1.0, 0.5))
    assert linear is not None
    assert root is not None
    assert (linear.name, root.name) == (
        "pooled shortest remaining processing time first",
        "heSRPT",
    )
    problem = of_power(jobs, 4, 0.5)
    other = replace(problem, jobs=(problem.jobs[0], replace(problem.jobs[1], weight=2.0)))
    assert best_closed_form(other) is None


def test_what_has_no_closed_form_is_refused() -> None:
    """In one sentence that names the job, the training or the types."""
    problem = of_power([(3.0, 0.0), (1.0, 2.0)], 4, 0.5)
    with pytest.raises(ValueError, match="Job 'job 1': it begins at 2 s; expected 0 s"):
        power_law_bound(problem)
    with pytest.raises(ValueError, match="the GPUs are of types type 0, type 1; expected one type"):
        power_law_bound(even(tiny_trace(0, types=2), together=True, change=False))
    other = replace(problem, jobs=(problem.jobs[0], replace(problem.jobs[1], weight=2.0)))
    for bound in (pooled_bound, power_law_bound):
        with pytest.raises(ValueError, match="Job 'job 1': weight is 2; expected 1"):
            bound(other)
    training = Training("wide", np.ones(1), np.array([8.0]), np.ones((1, 1, 1)))
    job = OfflineJob("a", "wide", 0.0, 0.0)
    for bound in (pooled_bound, power_law_bound):
        with pytest.raises(ValueError, match="Training 'wide': it cannot run on the GPUs"):
            bound(OfflineProblem((training,), (job,), Supply.constant({"gpu": 4.0})))
