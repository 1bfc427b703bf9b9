"""The concave relaxation: an envelope above all choices, a certified bound, a price."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost
from goodalloc.formulations.gpu_rounds.concave_relaxation import (
    concave_envelope,
    dual,
    solve_concave_relaxation,
)
from goodalloc.formulations.gpu_rounds.knapsack import best_utilities, knapsack_bound
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.heuristics.convex import solve_convex
from goodalloc.solvers.heuristics.sharing import whole_replicas
from tests.support.random_instances import random_instance

POWERS = (-10.0, -2.0, -1.0, -0.3, 0.0, 0.5, 1.0, -math.inf)


def test_envelopes_are_concave_and_above_every_choice() -> None:
    """Slopes fall, pieces join, no utility lies above, and vertices are attained."""
    for seed in range(60):
        utility = best_utilities(random_instance(seed))
        envelope = concave_envelope(utility)
        for job, row in enumerate(utility):
            pieces = np.flatnonzero(envelope.job == job)
            assert pieces.size >= 1
            slopes = envelope.slope[pieces]
            assert np.all(np.diff(slopes) < 1e-12)
            assert np.all(slopes >= 0)
            for one, other in pairwise(pieces):
                assert envelope.right[one] == envelope.left[other]
            allowed = np.flatnonzero(np.isfinite(row))
            left, right = envelope.left[pieces[0]], envelope.right[pieces[-1]]
            assert left == allowed[0]
            lines = envelope.utility[pieces] + slopes * (allowed[:, None] - envelope.left[pieces])
            inside = allowed <= right
            assert np.all(row[allowed[inside]] <= lines[inside].min(axis=1) + 1e-12)
            assert row[allowed].max() <= lines[inside].min(axis=1).max() + 1e-12
            attained = np.maximum.accumulate(row)
            assert np.all(np.isin(envelope.utility[pieces], attained))


@pytest.mark.parametrize("power", POWERS)
def test_bound_is_above_the_optimum_and_near_the_cone_solver(power: float) -> None:
    """The certificate holds, and gives away little of what the cone solver found."""
    for seed in range(12):
        instance = random_instance(seed, power)
        solution = solve_concave_relaxation(instance)
        assert solution.bound >= solve_brute_force(instance).bound
        assert solution.bound == pytest.approx(solution.value, rel=1e-4)
        assert solution.price >= 0


@pytest.mark.parametrize("power", [-1.0, 0.5, 1.0])
def test_any_price_gives_a_valid_bound(power: float) -> None:
    """However wrong the solver's price, the bound holds."""
    for seed in range(12):
        instance = random_instance(seed, power)
        optimum = solve_brute_force(instance).bound
        envelope = concave_envelope(best_utilities(instance))
        for price in (0.0, 1e-6, 1e-2, 1.0, 1e3):
            cost = dual(envelope, instance.cluster.num_gpus, power, price, optimum)
            assert fitness_from_cost(cost, instance.num_jobs, power, optimum) >= optimum


def test_at_power_one_it_is_the_linear_knapsack() -> None:
    """A sum of concave envelopes is what the knapsack's linear relaxation maximises."""
    for seed in range(12):
        instance = random_instance(seed, 1.0)
        bound = solve_concave_relaxation(instance).bound
        assert bound == pytest.approx(knapsack_bound(instance), rel=1e-6)


@pytest.mark.parametrize("power", [-2.0, -1.0, 0.0, 0.5, 1.0])
def test_price_is_the_fitness_gained_by_a_gpu(power: float) -> None:
    """The multiplier is the derivative of the optimum by the number of GPUs."""
    speedups = [tuple(np.arange(1, 17) ** exponent) for exponent in (0.5, 0.6, 0.9)]
    jobs = tuple(Job(f"job{i}", SpeedupTable(s, s), age=1e9) for i, s in enumerate(speedups))
    rules = Rules(power=power, speedup_scale="job")
    bounds, prices = [], []
    for nodes in (100, 101):
        instance = Instance(Cluster.uniform(nodes, 1), jobs * 1, rules)
        many = tuple(job.replace(name=f"{job.name}-{i}") for i in range(10) for job in jobs)
        solution = solve_concave_relaxation(instance.replace(jobs=many))
        bounds.append(solution.bound)
        prices.append(solution.price)
    assert prices[1] * (1 - 1e-3) <= bounds[1] - bounds[0] <= prices[0] * (1 + 1e-3)


@pytest.mark.parametrize("power", [1.5, 2.0, math.inf])
def test_powers_above_one_are_not_convex(power: float) -> None:
    """The formulation refuses them; the solver reports that it knows nothing."""
    instance = random_instance(0, power)
    with pytest.raises(ValueError, match=r"power is .*; the power mean is concave"):
        solve_concave_relaxation(instance)
    answer = solve_convex(instance)
    assert answer.allocation is None
    assert answer.bound == math.inf
    assert "not concave" in answer.message


@pytest.mark.parametrize("power", POWERS)
def test_rounded_solutions_are_feasible(power: float) -> None:
    """Fractional GPUs are rounded and placed without breaking a rule."""
    for seed in range(12):
        instance = random_instance(seed, power)
        answer = solve_convex(instance)
        assert answer.allocation is not None
        assert not violations(instance, answer.allocation)


@pytest.mark.parametrize("power", POWERS)
def test_whole_numbers_are_near_those_of_the_relaxation(power: float) -> None:
    """Rounded down, and what is left given to some."""
    near = []
    for seed in range(12):
        instance = random_instance(seed, power)
        gpus = solve_concave_relaxation(instance).gpus
        assert gpus is not None
        near += (whole_replicas(instance, gpus) >= np.floor(gpus + 1e-6) - 1).tolist()
    assert np.mean(near) > 0.9


def test_another_cone_solver_gives_the_same_bound() -> None:
    """SCS, a first-order method, is less accurate; its bound is valid all the same."""
    instance = random_instance(5, -1.0)
    exact = solve_concave_relaxation(instance)
    rough = solve_concave_relaxation(instance, "SCS")
    assert rough.bound == pytest.approx(exact.bound, rel=1e-2)
    assert rough.bound >= solve_brute_force(instance).bound


def test_a_failing_cone_solver_is_data() -> None:
    """A solver that is not there leaves a valid, if weak, bound and says why."""
    instance = random_instance(5, -1.0)
    solution = solve_concave_relaxation(instance, "NO_SUCH_SOLVER")
    assert solution.gpus.size == 0
    assert "NO_SUCH_SOLVER" in solution.status
    assert solution.bound >= solve_brute_force(instance).bound
