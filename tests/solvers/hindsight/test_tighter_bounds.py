"""Tighter bounds of jobs at given prices: never smaller than before, never above a schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goodalloc.experiments.hindsight.bound_file import bound_document, problem_document
from goodalloc.experiments.verification import verify_hindsight
from goodalloc.formulations.hindsight.price_bound import Multipliers, job_bound
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.solvers.hindsight.best_prices import (
    HindsightBound,
    Stage,
    hindsight_bound,
    patterns_of,
)
from goodalloc.solvers.hindsight.free_multipliers import (
    _ascending,
    _by_phase,
    with_free_multipliers,
)
from goodalloc.solvers.hindsight.lone_schedules import lone_job_costs
from goodalloc.solvers.hindsight.order_of_phases import ordered_job_bounds
from goodalloc.solvers.hindsight.phase_windows import windowed_job_bounds
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

#: A search that takes a part of a second on a tiny trace.
QUICK = (Stage(UNIT, (20.0, 5.0, 1.0), 20),)


def all_job_bounds(problem: OfflineProblem, bound: HindsightBound) -> dict[str, np.ndarray]:
    """Return the bounds of the jobs by every way to tighten them."""
    free = with_free_multipliers(problem, bound)
    return {
        "free": free.job_bounds,
        "windows": windowed_job_bounds(problem, bound),
        "order": ordered_job_bounds(problem, bound, cell=UNIT / 20),
        "order, free": ordered_job_bounds(problem, free, cell=UNIT / 20),
    }


def check_order(seed: int, types: int) -> dict[str, float]:
    """Assert old bound <= tighter bound <= optimum on a tiny trace; return the relative gains."""
    problem = tiny_trace(seed, types=types)
    bound = hindsight_bound(problem, QUICK)
    _, proven = optimum(problem)
    lone = lone_job_costs(problem, bound)
    gains = {}
    for name, found in all_job_bounds(problem, bound).items():
        assert (found >= bound.job_bounds).all(), (name, seed)
        assert (found <= lone * (1 + 1e-9)).all(), (name, seed)
        value = bound.value + float((found - bound.job_bounds).sum())
        assert value <= proven * (1 + 1e-6), (name, seed)
        gains[name] = value / bound.value - 1.0
    return gains


@pytest.mark.parametrize("types", [1, 2])
def test_a_tighter_bound_is_between_the_old_one_and_the_optimum(types: int) -> None:
    """On tiny traces; free multipliers add something, and the order with them no less."""
    gains = [check_order(seed, types) for seed in range(4)]
    free, order = (np.array([gain[name] for gain in gains]) for name in ("free", "order, free"))
    assert free.max() > 1e-4
    assert (order >= free - 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 2])
def test_a_tighter_bound_is_below_the_optimum_on_hundreds_of_traces(types: int) -> None:
    """No violation on 400."""
    for seed in range(1000, 1200):
        check_order(seed, types)


def priced(seed: int) -> tuple[OfflineProblem, HindsightBound]:
    """Draw jobs of several phases and any prices, rising or falling, that were not searched."""
    random = np.random.default_rng(seed)
    types, phases = int(random.integers(1, 3)), int(random.integers(2, 7))
    gpus = np.array([1.0, 2.0, 4.0])
    power = random.uniform(0.1, 1.0, (types, phases, 1))
    rates = random.uniform(0.3, 2.0, (types, phases, 1)) * gpus**power
    training = Training("one", random.uniform(5.0, 40.0, phases), gpus, rates)
    jobs = tuple(
        OfflineJob(f"job {index}", "one", begin, begin + 3.0, random.uniform(0.5, 2.0))
        for index, begin in enumerate(random.uniform(0.0, 60.0, 3).tolist())
    )
    names = {f"type {row}": 4.0 for row in range(types)}
    problem = OfflineProblem((training,), jobs, Supply.constant(names))
    edges = UNIT * np.arange(61.0)
    prices = random.gamma(0.5, 1.0, (60, types)) * random.choice([0.1, 1.0])
    multipliers = Multipliers.of(training, patterns_of(training, 1.0), np.linspace(0.0, 20.0, 2001))
    found = np.array([job_bound(job, multipliers, edges, prices) for job in jobs])
    value = float(found.sum() - (prices * 4.0 * UNIT).sum())
    bound = HindsightBound(
        value,
        edges,
        prices,
        found,
        {"one": multipliers},
        (0,) * 3,
        np.array([job.begin + 2 * training.least_seconds for job in jobs]),
    )
    return problem, bound


@pytest.mark.parametrize("seed", range(40))
def test_under_any_prices_no_job_has_a_schedule_below_its_bound(seed: int) -> None:
    """Drawn ones, of jobs of up to six phases."""
    problem, bound = priced(seed)
    lone = lone_job_costs(problem, bound)
    free = lone_job_costs(problem, with_free_multipliers(problem, bound))
    for found in all_job_bounds(problem, bound).values():
        assert (found <= np.minimum(lone, free) * (1 + 1e-9)).all()


def test_under_drawn_prices_most_of_what_is_lost_comes_back() -> None:
    """Of the distance between the bounds of the jobs and their schedules."""
    shares: dict[str, list[float]] = {}
    for seed in range(4):
        problem, bound = priced(seed)
        lone = lone_job_costs(problem, with_free_multipliers(problem, bound))
        found = all_job_bounds(problem, bound) | {"none": bound.job_bounds}
        for name, values in found.items():
            shares.setdefault(name, []).extend((values / lone).tolist())
    mean = {name: float(np.mean(own)) for name, own in shares.items()}
    assert mean["none"] + 0.01 < mean["free"] <= mean["order, free"]
    assert mean["none"] + 0.01 < mean["windows"] < mean["order"] <= mean["order, free"]
    assert mean["order, free"] > 0.95


def test_schedules_that_may_do_less_are_no_cheaper() -> None:
    """Whole rounds, then restarts; to what the search of schedules leaves open."""
    costs = []
    for seed in range(10):
        problem, bound = priced(seed)
        costs.append(
            [
                float(lone_job_costs(problem, bound, clock=clock, delay=delay).sum())
                for clock, delay in ((0.0, 0.0), (UNIT, 0.0), (UNIT, 5.0))
            ]
        )
    free, rounds, restarts = np.mean(costs, axis=0)
    assert free <= rounds * (1 + 1e-3)
    assert rounds <= restarts * (1 + 1e-3)


def test_free_multipliers_are_a_certificate_for_the_same_checker() -> None:
    """Which proves the larger bound by them."""
    problem = tiny_trace(4)
    bound = hindsight_bound(problem, QUICK)
    free = with_free_multipliers(problem, bound)
    assert free.value >= bound.value
    claim = bound_document(problem, free)
    assert claim["bound"] == pytest.approx(free.value, rel=1e-9)
    nothing = {"format": "goodalloc-offline-schedule", "version": 1, "segments": None}
    assert verify_hindsight.verify(problem_document(problem), nothing, claim).verified


def test_the_order_of_two_phases_is_worth_what_it_must_be() -> None:
    """A job of 20 s on one GPU, then 20 s that two would halve; GPUs cost much in the second half.

    In order the second phase has the dear time only, if the job is not to wait; out of order it is
    done first, on two GPUs that cost nothing.
    """
    rates = np.array([[[1.0, 1.0 + 1e-9], [1.0, 2.0]]])
    training = Training("two", np.array([20.0, 20.0]), np.array([1.0, 2.0]), rates)
    job = OfflineJob("a", "two", 0.0, 0.0)
    problem = OfflineProblem((training,), (job,), Supply.constant({"gpu": 2.0}))
    edges = UNIT * np.arange(21.0)
    prices = np.where(np.arange(20) < 2, 0.0, 0.5)[:, None]
    multipliers = Multipliers.of(training, patterns_of(training, 1.0), np.linspace(0, 20, 4001))
    bound = HindsightBound(
        0.0, edges, prices, np.zeros(1), {"two": multipliers}, (0,), np.array([40.0])
    )
    bound = replace(bound, job_bounds=np.array([job_bound(job, multipliers, edges, prices)]))
    exact = 20.0 + 10.0 + 0.5 * 2.0 * 10.0  # the second phase on two GPUs
    (lone,) = lone_job_costs(problem, bound)
    assert lone == pytest.approx(exact, rel=1e-6)
    relaxed = with_free_multipliers(problem, bound).job_bounds[0]
    (ordered,) = ordered_job_bounds(problem, bound, cell=1.0)
    assert relaxed < 0.95 * exact
    assert 0.98 * exact <= ordered <= exact * (1 + 1e-9)


@pytest.mark.parametrize(
    "phases", [[0, 1, 2], [0, 0, 1, 3, 0, 2, 2, 3], [0, 0, 0], [1, 0, 1, 2, 2]]
)
def test_what_is_busy_is_added_up_by_phase(phases: list[int]) -> None:
    """Of one type of GPU and of several, in which phases are missing; of one phase."""
    phase = np.array(phases)
    busy = np.random.default_rng(0).random((5, phase.size))
    starts = np.flatnonzero(np.diff(phase, prepend=-1))
    found = _by_phase(busy, starts, _ascending(phase[starts]), 4)
    for own in range(4):
        assert np.allclose(found[:, own], busy[:, phase == own].sum(axis=1), rtol=1e-15)
