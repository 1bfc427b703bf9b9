"""The proof that the pieces agree: every road against the enumeration of all allocations."""

from __future__ import annotations

import math

import pytest

from goodalloc.formulations.gpu_rounds.concave_relaxation import solve_concave_relaxation
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from tests.support.agreement import AGREE, check_exact, reordered
from tests.support.extreme_rounds import extreme_round
from tests.support.few import few
from tests.support.high_precision import best_mean, mean_of, shortfall, utilities_of
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    renamed,
    tight_instance,
)

EXACT = ("highs", "pyomo")
EXACT_WITH_MODES = ("highs", "pyomo")
# The genetic algorithm compiles for every shape.
GENETIC = pytest.param("genetic", marks=pytest.mark.slow)
HEURISTIC = (GENETIC, "greedy", "local_search", "knapsack", "convex")

#: Relative error of a fitness or a bound in double precision.
ROUNDING = 1e-12


@pytest.mark.parametrize("first", few(range(0, 60, 10), 3))
def test_exact_solvers_agree_with_enumeration(first: int) -> None:
    """A sample: the optimum, its proof and the relaxations' bounds on random instances."""
    for seed in range(first, first + 10):
        check_exact(seed, EXACT)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_exact_solvers_agree_with_enumeration_where_jobs_have_modes(first: int) -> None:
    """Types of GPU, cores and memory: the same laws."""
    for seed in range(first, first + 10):
        check_exact(seed, EXACT_WITH_MODES, draw=random_mode_instance)


@pytest.mark.parametrize("first", range(200, 230, 10))
def test_exact_solvers_return_the_same_allocation(first: int) -> None:
    """Equal optima are told apart by the stated rule, whoever found which."""
    for seed in range(first, first + 10):
        instance = random_instance(seed)
        found = [solve(instance, name).allocation for name in ("brute_force", *EXACT)]
        assert found[0] == found[1] == found[2], instance.name


@pytest.mark.parametrize("power", [-100.0, -30.0, -5.0, -0.3, 1e-6, 3.0, 10.0, 30.0])
def test_exact_solvers_agree_at_unusual_powers(power: float) -> None:
    """Powers whose terms span up to hundreds of orders of magnitude, or hardly differ."""
    for seed in range(100_000, 100_003):
        check_exact(seed, EXACT, power)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 6_000, 250))
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_solver_agrees_with_enumeration_on_thousands(name: str, first: int) -> None:
    """5,000 random instances, no exception and no violation."""
    for seed in range(first, first + 250):
        check_exact(seed, (name,))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, 250))
def test_the_exact_solver_agrees_with_enumeration_on_thousands_with_modes(first: int) -> None:
    """3,000 random instances with types of GPU, cores and memory."""
    for seed in range(first, first + 250):
        check_exact(seed, ("highs",), draw=random_mode_instance)


@pytest.mark.parametrize("name", [GENETIC, "greedy"])
def test_heuristics_that_know_modes_are_feasible_and_never_better(name: str) -> None:
    """The same where jobs have modes."""
    for seed in range(6_000, 6_012):
        instance = random_mode_instance(seed)
        optimum = solve_brute_force(instance).bound
        result = solve(instance, name, stop=Stop(iterations=30))
        assert result.allocation is not None, result.message
        assert result.fitness <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("first", few(range(0, 200, 10), 1))
def test_rounds_at_the_edge_of_the_checkers_tolerance_are_decided_by_it(first: int) -> None:
    """Not by the solver's tolerance, which is larger; those of the slow test include rare cases."""
    for seed in range(first, first + 10):
        check_exact(seed, EXACT_WITH_MODES, draw=lambda seed, _: tight_instance(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 5_200, 500))
def test_thousands_of_rounds_at_the_edge_of_the_tolerance_are_decided_by_it(first: int) -> None:
    """5,000 more."""
    for seed in range(first, first + 500):
        check_exact(seed, ("highs",), draw=lambda seed, _: tight_instance(seed))


def check_extremes(seeds: range) -> None:
    """Nothing is called optimal that is not, no bound is too low, and nearly all are proved."""
    unproved = []
    for seed in seeds:
        instance = extreme_round(seed)
        power, optimum = instance.rules.power, best_mean(instance)
        result = solve(instance)
        what = f"{instance.name} at p = {power:g}, floor {instance.rules.floor:g}: {result.message}"
        assert result.allocation is not None, what
        assert not violations(instance, result.allocation), what
        reached = mean_of(utilities_of(instance, result.allocation), power)
        assert abs(shortfall(result.fitness, reached)) <= ROUNDING, what
        assert shortfall(reached, optimum) >= -ROUNDING, f"{what}: not enumerated"
        assert shortfall(result.bound, optimum) <= ROUNDING, what
        assert shortfall(knapsack_bound(instance), optimum) <= ROUNDING, what
        if instance.plain and power <= 1:
            assert shortfall(solve_concave_relaxation(instance).bound, optimum) <= ROUNDING, what
        if result.status is Status.OPTIMAL:
            assert shortfall(reached, optimum) <= AGREE, what
        else:
            unproved.append(seed)
    assert len(unproved) <= len(seeds) / 100, f"not proved: {unproved}"


def test_extremes_are_decided_as_in_high_precision() -> None:
    """Floors, weights and powers of any size there is, in 80 digits: a sample."""
    check_extremes(range(10_000, 10_020))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 6_000, 500))
def test_thousands_of_extremes_are_decided_as_in_high_precision(first: int) -> None:
    """6,000 more; every third with types of GPU and cores."""
    check_extremes(range(first, first + 500))


def test_high_precision_finds_the_optimum_of_the_enumeration_and_faults_in_others() -> None:
    """The two enumerations agree; greedy allocations that fall short are seen to."""
    worst = 0.0
    for seed in range(10, 26):
        instance = extreme_round(seed)
        optimum = best_mean(instance)
        assert abs(shortfall(solve_brute_force(instance).bound, optimum)) <= ROUNDING
        greedy = solve(instance, "greedy").allocation
        assert greedy is not None
        reached = mean_of(utilities_of(instance, greedy), instance.rules.power)
        worst = max(worst, shortfall(reached, optimum))
    assert worst > 0.1


@pytest.mark.parametrize("name", HEURISTIC)
def test_heuristics_are_feasible_and_never_better_than_the_optimum(name: str) -> None:
    """Whatever a heuristic returns obeys the rules and lies between nothing and the optimum."""
    for seed in range(6_000, 6_012):
        instance = random_instance(seed)
        optimum = solve_brute_force(instance).bound
        result = solve(instance, name, stop=Stop(iterations=5))
        if result.allocation is None:
            assert name == "convex", result.message
            assert instance.rules.power > 1
            continue
        assert result.fitness <= optimum * (1 + 1e-12)
        assert result.bound >= optimum * (1 - 1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_the_order_of_jobs_and_nodes_does_not_matter(name: str) -> None:
    """Renumbering jobs and nodes leaves the optimum where it was."""
    solver = find_solver(name)
    for seed in range(7_000, 7_006):
        instance = random_instance(seed)
        one, other = solver(instance), solver(reordered(instance))
        assert one.bound == pytest.approx(other.bound, rel=2 * AGREE)


def test_names_and_order_do_not_matter_where_jobs_have_modes() -> None:
    """Types of GPU and resources called otherwise, jobs and nodes in the opposite order."""
    for seed in range(7_000, 7_012):
        instance = random_mode_instance(seed)
        types = {name: name and name[::-1] for name in ("", *instance.cluster.gpu_types)}
        names = {name: name[::-1] for name in instance.cluster.resource_names}
        other = renamed(reordered(instance), types, names)
        one, two = solve(instance, "highs"), solve(other, "highs")
        assert one.bound == pytest.approx(two.bound, rel=2 * AGREE), instance.name


@pytest.mark.parametrize("name", EXACT)
def test_leximin_agrees_with_enumeration(name: str) -> None:
    """At p = -inf with leximin every rank of the sorted utilities is the best possible."""
    for seed in range(8_000, 8_010):
        instance = random_instance(seed, -math.inf)
        best = max(sorted(row) for row in enumerate_allocations(instance).utility.tolist())
        result = solve(instance, name, leximin=True)
        assert isinstance(result.allocation, Allocation)
        found = sorted(utilities(instance, result.allocation).tolist())
        assert found == pytest.approx(best, rel=AGREE)
        assert result.fitness == fitness(instance, result.allocation)
