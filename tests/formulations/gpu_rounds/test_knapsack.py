"""The knapsack bound: never below an optimum, equal to the program it stands for, and fast."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.gpu_rounds.knapsack import (
    best_price,
    best_utilities,
    build_knapsack,
    first_reference,
    knapsack_bound,
    knapsack_costs,
    respond,
)
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from goodalloc.solvers.heuristics.knapsack import solve_knapsack
from goodalloc.solvers.heuristics.sharing import knapsack_replicas
from tests.support.few import few
from tests.support.random_instances import random_instance, random_mode_instance

POWERS = (-100.0, -10.0, -2.0, -1.0, -1e-6, 0.0, 0.5, 1.0, 2.0, 10.0, 100.0, math.inf, -math.inf)


@pytest.mark.parametrize("power", POWERS)
def test_bounds_are_never_below_the_optimum(power: float) -> None:
    """Linear and integer knapsack bound brute force from above, the integer one more tightly."""
    for seed in range(10):
        instance = random_instance(seed, power)
        optimum = solve_brute_force(instance).bound
        linear = knapsack_bound(instance)
        integer = knapsack_bound(instance, exact=True)
        assert optimum <= integer <= linear


def integer_knapsack(instance: Instance) -> float:
    """The knapsack (1) by trying every combination of choices."""
    utility = best_utilities(instance)
    choices = [np.flatnonzero(np.isfinite(row)).tolist() for row in utility]
    rows = np.array(
        [
            [utility[j, k] for j, k in enumerate(combination)]
            for combination in itertools.product(*choices)
            if sum(combination) <= instance.cluster.num_gpus
        ]
    )
    return float(np.max(power_mean(rows, instance.rules.power)))


@pytest.mark.parametrize("power", POWERS)
def test_integer_bound_is_the_integer_knapsack(power: float) -> None:
    """The dynamic program finds the best of all combinations, and is not far above it."""
    for seed in range(6):
        instance = random_instance(seed, power)
        expected = integer_knapsack(instance)
        found = knapsack_bound(instance, exact=True)
        assert expected <= found <= expected * (1 + 1e-9)


@pytest.mark.parametrize("power", [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
def test_price_bound_is_the_linear_relaxation(power: float) -> None:
    """The best price gives the value of the linear program, as a simplex method finds it."""
    for seed in range(15):
        instance = random_instance(seed, power)
        knapsack = build_knapsack(instance)
        cost = knapsack_costs(knapsack, first_reference(knapsack))
        job, replicas = np.nonzero(np.isfinite(cost))
        one_each = (job == np.arange(len(cost))[:, None]).astype(float)
        values = cost[job, replicas]
        program = linprog(
            values,
            replicas[None, :],
            [knapsack.gpus],
            one_each,
            np.ones(len(cost)),
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        bound = best_price(cost, knapsack.gpus).bound
        assert bound == pytest.approx(program.fun, abs=1e-9 * (1 + np.abs(values).max()))


def test_every_price_bounds_the_cost() -> None:
    """Weak duality: the dual at any price is below the cost of every allocation."""
    instance = random_instance(11, -1.0)
    knapsack = build_knapsack(instance)
    reference = first_reference(knapsack)
    costs = power_cost(enumerate_allocations(instance).utility, -1.0, reference).sum(axis=1)
    table = knapsack_costs(knapsack, reference)
    for price in np.geomspace(1e-6, 1e6, 40):
        assert respond(table, knapsack.gpus, float(price)).bound <= costs.min()


def test_best_utilities_cover_every_allocation() -> None:
    """No job in any feasible allocation does better than the knapsack's table says."""
    for seed in range(25):
        instance = random_instance(seed)
        table, found = best_utilities(instance), enumerate_allocations(instance)
        for job, rows in enumerate(found.rows):
            best = table[job, rows.sum(axis=1)][found.row[:, job]]
            assert np.all(found.utility[:, job] <= best)


@pytest.mark.parametrize("power", POWERS)
def test_the_solver_is_feasible_and_below_its_bound(power: float) -> None:
    """What the knapsack chooses is placed without breaking a rule."""
    for seed in range(25):
        instance = random_instance(seed, power)
        assert knapsack_replicas(instance).sum() <= instance.cluster.num_gpus
        answer = solve_knapsack(instance)
        assert answer.allocation is not None
        assert not violations(instance, answer.allocation)


def test_the_solver_decides_jobs_with_modes() -> None:
    """Feasible, and between nothing and the optimum, which its bound covers."""
    for seed in range(25):
        instance = random_mode_instance(seed)
        best = solve_brute_force(instance, break_ties=False).bound
        answer = solve_knapsack(instance)
        assert answer.allocation is not None
        assert not violations(instance, answer.allocation)
        assert fitness(instance, answer.allocation) <= best * (1 + 1e-9)
        assert answer.bound >= best * (1 - 1e-9)


def large_instance(num_jobs: int, most: int, power: float) -> Instance:
    """Jobs with concave speedups, about one GPU for each."""
    generator = np.random.default_rng(7)
    exponents = generator.uniform(0.5, 0.98, num_jobs)
    curves = np.arange(1, most + 1) ** exponents[:, None]
    jobs = tuple(
        Job(f"job{i}", SpeedupTable(tuple(c), tuple(0.9 * c)), age=1e4, max_replicas=most)
        for i, c in enumerate(curves)
    )
    return Instance(Cluster.uniform(num_jobs // 4, 4), jobs, Rules(power=power))


@pytest.mark.parametrize("jobs", few([1_000, 10_000], 1))
def test_thousands_of_jobs_are_bounded(jobs: int) -> None:
    """Of 130 choices each, at an awkward power: no lower than with a GPU for every job."""
    instance = large_instance(jobs, 65, -10.0)
    one_each = Allocation.from_placements(
        [((index // 4, 1),) for index in range(jobs)], instance.cluster.num_nodes
    )
    assert not violations(instance, one_each)
    assert knapsack_bound(instance) >= fitness(instance, one_each)


def test_the_bound_of_equal_jobs_is_attained() -> None:
    """400 equal jobs for 400 GPUs: one each is optimal, and the bound says so to ten digits."""
    job = Job("job", SpeedupTable((1.0, 1.5, 1.8), ()), age=1e4)
    jobs = tuple(job.replace(name=f"job{i}") for i in range(400))
    for power in (-10.0, -1.0, 0.0, 1.0):
        instance = Instance(Cluster.uniform(100, 4), jobs, Rules(power=power))
        utility = utility_table(instance).moved[0, 0, 1]
        assert knapsack_bound(instance) == pytest.approx(utility, rel=1e-10)
