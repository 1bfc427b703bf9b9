"""Prices under which the bound is the optimum, and where no prices are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.experiments.hindsight.bound_file import (
    bound_document,
    problem_document,
    schedule_document,
)
from goodalloc.experiments.verification import verify_hindsight
from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.hindsight.price_bound import Multipliers, job_bound
from goodalloc.models.classical.hesrpt import least_flow_time
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.solvers.hindsight.best_prices import HindsightBound, Stage, hindsight_bound
from goodalloc.solvers.hindsight.priced_jobs import price_jobs
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer

#: Most seconds of all jobs together; every case has twice as many intervals.
MOST = 42


def staircase(sizes: list[int]) -> tuple[OfflineProblem, HindsightBound]:
    """One GPU, all jobs there from the start, and the prices that prove the shortest first.

    In the seconds of a job of size p they fall by 1 / p a second, to 0 behind all jobs. Multipliers
    are the prices, and one that is above them all by 1.
    """
    sizes = sorted(sizes)
    trainings = tuple(
        Training(f"kind {index}", np.array([float(size)]), np.ones(1), np.ones((1, 1, 1)))
        for index, size in enumerate(sizes)
    )
    jobs = tuple(
        OfflineJob(f"job {index}", training.name, 0.0, 0.0)
        for index, training in enumerate(trainings)
    )
    problem = OfflineProblem(trainings, jobs, Supply.constant({"gpu": 1.0}))
    falls = np.repeat(1.0 / np.array(sizes), sizes)
    prices = np.zeros(2 * MOST)
    prices[: falls.size] = np.cumsum(falls[::-1])[::-1]
    edges = np.arange(prices.size + 1.0)
    own = np.unique([0.0, *prices.tolist(), prices[0] + 1.0])
    rows = np.resize(own, MOST + 2)[:, None]
    multipliers = {one.name: Multipliers.of(one, rows, own) for one in trainings}
    values = [job_bound(job, multipliers[job.training], edges, prices[:, None]) for job in jobs]
    bound = HindsightBound(
        sum(values) - float(prices.sum()),
        edges,
        prices[:, None],
        np.array(values),
        multipliers,
        (0,) * len(jobs),
        np.cumsum(np.array(sizes, dtype=float)),
    )
    return problem, bound


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_prices_that_fall_by_one_over_the_size_prove_the_shortest_first(sizes: list[int]) -> None:
    """By the plain formula, with arrays, and by the stand-alone checker."""
    problem, bound = staircase(sizes)
    least = float(np.cumsum(sorted(sizes)).sum())
    assert bound.value == pytest.approx(least, rel=1e-9)
    found = [
        price_jobs([job], bound.multipliers[job.training], bound.edges, bound.prices, 1.0).bounds
        for job in problem.jobs
    ]
    assert np.concatenate(found) == pytest.approx(bound.job_bounds, rel=1e-9)
    claim = bound_document(problem, bound)
    verdict = verify_hindsight.verify(problem_document(problem), schedule_document(None), claim)
    assert verdict.verified
    assert verdict.proved == pytest.approx(least, rel=1e-9)


#: Seconds of a slot, parts of a GPU, and slots until a job may end last, of the mixtures.
SLOT, PARTS, LAST = 0.05, np.arange(1.0, 9.0) / 8.0, 36


def best_mixture(jobs: int) -> float:
    """Return the least mean total of equal jobs of 1 s that may mix schedules.

    A job ends behind slot e with probability w_e, in which schedule it is on each number of parts
    for a while z of each slot before; on the mean over all the jobs are on one GPU at most.
    """
    builder = ProgramBuilder()
    free = builder.add_rows("free", LAST, upper=1.0 / jobs)
    one = builder.add_rows("one", 1, lower=1.0, upper=1.0)
    for end in range(round(1.0 / SLOT), LAST + 1):
        chance = builder.add_columns(f"w_{end}", 1, cost=SLOT * end, upper=1.0, integer=False)
        used = builder.add_columns(f"z_{end}", end * PARTS.size, upper=1.0, integer=False)
        builder.add_entries(one, chance, 1.0)
        builder.add_entries(free[:end, None], used.reshape(end, -1), PARTS)
        time = builder.add_rows(f"time_{end}", end, upper=0.0)
        builder.add_entries(time, chance, -1.0)
        builder.add_entries(time[:, None], used.reshape(end, -1), 1.0)
        done = builder.add_rows(f"done_{end}", 1, lower=0.0)
        builder.add_entries(done, chance, -1.0)
        builder.add_entries(done[:, None], used.reshape(end, -1), SLOT * np.sqrt(PARTS))
    watch = Watch(Stop(seconds=60.0))
    return jobs * run_mixed_integer(builder.build(0.0), watch, gap=1e-7).objective


def test_with_a_power_law_no_prices_prove_hesrpt() -> None:
    """Two jobs that take 1 s on a GPU, of which k parts do sqrt(k): at least 2.732 s in all.

    Under any prices the bound is below mixtures of schedules, too, of which one has 2.728 s.
    """
    exact, mixture = least_flow_time([1.0, 1.0], 1.0, 0.5), best_mixture(2)
    assert exact == pytest.approx(1.0 + 3.0**0.5)
    assert mixture == pytest.approx(2.7277, abs=1e-3)
    assert mixture < exact * (1 - 1e-3)
    training = Training("root", np.ones(1), PARTS, np.sqrt(PARTS)[None, None])
    jobs = tuple(OfflineJob(name, "root", 0.0, 0.0) for name in "ab")
    problem = OfflineProblem((training,), jobs, Supply.constant({"gpu": 1.0}))
    found = hindsight_bound(problem, (Stage(SLOT, (0.1, 0.02, 0.005), 40),)).value
    assert 0.96 * mixture < found <= mixture * (1 + 1e-6)
