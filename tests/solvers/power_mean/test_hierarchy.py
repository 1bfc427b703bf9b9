"""Every power by an oracle that only minimises sums: here one that looks at every allocation."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.power_mean.oracle import Reply
from tests.support.random_instances import random_instance

if TYPE_CHECKING:
    from goodalloc.solvers.exact.brute_force import Enumeration
    from goodalloc.solvers.power_mean.oracle import Outcome, Request

POWERS = (-100.0, -10.0, -2.0, -1.0, -0.01, 0.0, 1e-6, 0.5, 1.0, 2.0, 30.0, math.inf, -math.inf)


class EnumeratingOracle:
    """Minimises by looking at all allocations, and rounds costs as a solver's tolerance would."""

    def __init__(self, instance: Instance, tolerance: float = 0.0) -> None:
        self.found: Enumeration = enumerate_allocations(instance)
        self.tolerance = tolerance

    def __call__(self, request: Request) -> Reply:
        """The first allocation whose cost is within the tolerance of the least."""
        reached = self.found.utility
        allowed = ~request.forbidden(reached).any(axis=1)
        for row in request.limits:
            allowed &= np.count_nonzero(reached < row.below, axis=1) <= row.jobs
        if not allowed.any():
            return Reply(None, math.inf)
        costs = request.cost(reached)
        assert np.all(np.abs(costs[allowed]) < 1e8), "a cost is too large for a solver"
        total = np.where(allowed, costs.sum(axis=1), np.inf)
        least = float(total.min())
        index = int(np.argmax(total <= least + self.tolerance))
        return Reply(self.found.allocation(index), least)


def choices(oracle: EnumeratingOracle) -> tuple[np.ndarray, np.ndarray]:
    """All (job, utility) that turn up in any allocation."""
    pairs = [
        (job, value)
        for job in range(oracle.found.utility.shape[1])
        for value in np.unique(oracle.found.utility[:, job])
    ]
    job, utility = zip(*pairs, strict=True)
    return np.array(job), np.array(utility)


def decide(instance: Instance, oracle: EnumeratingOracle, **options: object) -> Outcome:
    """Maximise with the enumerating oracle."""
    job, utility = choices(oracle)
    return maximise_power_mean(oracle, instance, job, utility, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("power", POWERS)
def test_every_power_reaches_the_optimum(power: float) -> None:
    """With an exact oracle the result is the best of all allocations, and the bound is tight."""
    for seed in range(12):
        instance = random_instance(seed, power)
        oracle = EnumeratingOracle(instance)
        best = float(np.max(power_mean(oracle.found.utility, power)))
        outcome = decide(instance, oracle)
        assert outcome.allocation is not None
        assert fitness(instance, outcome.allocation) == pytest.approx(best, rel=1e-9)
        assert best * (1 - 1e-12) <= outcome.bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("power", [-20.0, -10.0, -2.0, 5.0])
def test_an_oracle_with_a_tolerance_does_no_harm(power: float) -> None:
    """Costs blurred by 1e-8, as a solver's are, still lead to the optimum whatever their range."""
    for seed in range(12):
        instance = random_instance(seed, power)
        oracle = EnumeratingOracle(instance, tolerance=1e-8)
        best = float(np.max(power_mean(oracle.found.utility, power)))
        outcome = decide(instance, oracle, gap=1e-6)
        assert outcome.allocation is not None
        assert fitness(instance, outcome.allocation) == pytest.approx(best, rel=1e-5)
        assert outcome.bound >= best * (1 - 1e-12)


def starving(power: float) -> Instance:
    """Six jobs for four GPUs: two starve, and the other four are worth looking after."""
    speedups = [(0.2, 0.3), (0.8, 1.5), (1.0, 1.1), (0.5, 1.9), (0.6, 0.7), (0.3, 0.31)]
    jobs = tuple(Job(f"job{i}", SpeedupTable(pair, ()), age=1e6) for i, pair in enumerate(speedups))
    return Instance(Cluster.uniform(2, 2), jobs, Rules(power=power, speedup_scale="job"))


def exact_sum(reached: np.ndarray, power: int) -> Decimal:
    """Sum of the terms to 80 digits."""
    with localcontext() as context:
        context.prec = 80
        return sum((Decimal(value) ** power for value in reached.tolist()), Decimal(0))


@pytest.mark.parametrize("power", [-5, -10, -30])
def test_what_starved_jobs_outweigh_is_optimised_too(power: int) -> None:
    """In float64 the starved jobs drown the others; to 80 digits the result is optimal too."""
    instance = starving(float(power))
    oracle = EnumeratingOracle(instance, tolerance=1e-9)
    outcome = decide(instance, oracle)
    assert outcome.allocation is not None
    reached = utilities(instance, outcome.allocation)
    least = min(exact_sum(row, power) for row in np.unique(oracle.found.utility, axis=0))
    starved = 2 * exact_sum(np.array([instance.rules.floor]), power)
    others = exact_sum(reached, power) - starved
    assert float((others - (least - starved)) / (least - starved)) < 1e-6


def test_leximin_raises_every_rank() -> None:
    """Sorted utilities are the lexicographically greatest of all allocations."""
    for seed in range(25):
        instance = random_instance(seed, -math.inf)
        oracle = EnumeratingOracle(instance)
        outcome = decide(instance, oracle, leximin=True)
        assert outcome.allocation is not None
        ranked = np.sort(oracle.found.utility, axis=1).tolist()
        assert np.sort(utilities(instance, outcome.allocation)).tolist() == max(ranked)


def test_leximin_is_refused_at_other_powers() -> None:
    """Leximin refines the minimum only."""
    instance = random_instance(0, -1.0)
    with pytest.raises(ValueError, match=r"leximin is true at power -1; expected power -inf"):
        decide(instance, EnumeratingOracle(instance), leximin=True)


@pytest.mark.parametrize("power", [-10.0, -1.0, 2.0, math.inf, -math.inf])
def test_an_oracle_that_finds_nothing_leaves_the_start(power: float) -> None:
    """Out of time at once: the start is returned with a bound that holds."""
    instance = random_instance(3, power)
    oracle = EnumeratingOracle(instance)
    best = float(np.max(power_mean(oracle.found.utility, power)))
    job, utility = choices(oracle)
    for start in (None, oracle.found.allocation(0)):
        outcome = maximise_power_mean(
            lambda request: Reply(None), instance, job, utility, start=start
        )
        assert outcome.allocation == start
        assert outcome.bound >= best
