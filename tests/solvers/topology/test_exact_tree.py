"""Decisions on trees against brute force, the program by nodes, and the round without a tree."""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.formulations.topology.labelled_pieces import build_labelled
from goodalloc.formulations.topology.nested_patterns import build_nested
from goodalloc.formulations.topology.tree_choices import topology_choices
from goodalloc.formulations.topology.tree_packing import pack_tree
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.topology.topology import Topology
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound, topology_fitness
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result import Limit, Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.topology.brute_force import topology_brute_force
from goodalloc.solvers.topology.exact_tree import solve_tree
from goodalloc.solvers.topology.tree_oracles import TreeOracle
from tests.support.few import few
from tests.support.small_rounds import gpu_round, tiny_tree

#: Seeds of a test, so that one test is not a process of its own for each.
BATCH = 25


@pytest.mark.parametrize("first", few(range(0, 3500, BATCH), 2))
def test_the_nested_counts_are_as_good_as_brute_force(first: int) -> None:
    """For every power, on all kinds of tiny trees, from nothing; and the bound is reached."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        _, best = topology_brute_force(round_)
        leveled, choices = round_.leveled, topology_choices(round_)
        oracle = TreeOracle(leveled, choices, Watch(Stop()), round_=round_)
        found = maximise_power_mean(oracle, leveled, choices.job, choices.utility)
        assert found.allocation is not None, seed
        plain = Allocation.from_matrix(found.allocation.matrix())
        assert not topology_violations(round_, plain), seed
        assert topology_fitness(round_, plain) == pytest.approx(best, rel=1e-8), seed
        assert best * (1 - 1e-8) <= found.bound <= best * (1 + 1e-8), seed


@pytest.mark.parametrize("avoidance", [True, False])
@pytest.mark.parametrize("first", few(range(0, 1500, BATCH), 1))
def test_the_program_by_nodes_is_as_good_as_brute_force(first: int, avoidance: bool) -> None:
    """The Pyomo model, also where distributed jobs may share nodes."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed, avoidance=avoidance)
        _, best = topology_brute_force(round_)
        result = solve_tree(round_, by_node=True)
        assert result.status == Status.OPTIMAL, seed
        assert result.fitness == pytest.approx(best, rel=1e-8), seed


@pytest.mark.parametrize("first", few(range(0, 1000, BATCH), 1))
def test_pieces_by_job_and_domain_are_exact_and_counts_a_relaxation(first: int) -> None:
    """All choices in one program, at p = -1; both ways to count bound the optimum."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed, power=-1.0)
        _, best = topology_brute_force(round_)
        choices = topology_choices(round_)
        cost = power_cost(choices.utility, -1.0, best)
        jobs, watch = round_.instance.num_jobs, Watch(Stop())
        labelled = build_labelled(round_, choices, cost)
        outcome = run_mixed_integer(labelled.program, watch, gap=1e-9)
        assert outcome.values is not None
        allocation = pack_tree(round_, labelled, outcome.values)
        assert not topology_violations(round_, allocation), seed
        assert topology_fitness(round_, allocation) == pytest.approx(best, rel=1e-7), seed
        for merged in (False, True):
            program = build_nested(round_, choices, cost, merged=merged).program
            relaxed = run_relaxation(program, np.ones(program.num_columns, dtype=bool), watch)
            bound = fitness_from_cost(relaxed.objective, jobs, -1.0, best)
            assert best <= bound * (1 + 1e-7), seed


@pytest.mark.parametrize("seed", few(range(40), 6))
def test_a_tree_without_levels_changes_nothing(seed: int) -> None:
    """The optimum is that of the round alone, and so is the fitness of its allocation."""
    instance = gpu_round(seed)
    if not instance.rules.interference_avoidance:
        instance = instance.replace(rules=instance.rules.replace(interference_avoidance=True))
    round_ = TopologyRound(instance, Topology((), ()))
    alone = solve(instance, "highs")
    assert alone.allocation is not None
    assert topology_fitness(round_, alone.allocation) == alone.fitness
    assert solve_tree(round_).fitness == pytest.approx(alone.fitness, rel=1e-8)


@pytest.mark.parametrize("seed", few(range(20), 2))
def test_the_two_roads_agree_on_rounds_that_are_not_tiny(seed: int) -> None:
    """Sixteen nodes under three levels, some jobs distributed."""
    round_ = generate_on_tree(
        seed, 16, 2, load=0.6, state="disturbed", uplink_jobs=None if seed % 2 else 1
    )
    stop = Stop(gap=1e-6, seconds=60.0)
    fast, by_node = solve_tree(round_, stop=stop), solve_tree(round_, stop=stop, by_node=True)
    assert fast.status == by_node.status == Status.OPTIMAL
    assert by_node.fitness == pytest.approx(fast.fitness, rel=2e-6)
    assert by_node.fitness <= fast.bound * (1 + 1e-9)
    assert fast.fitness <= by_node.bound * (1 + 1e-9)


def test_a_start_is_returned_where_no_time_is_left() -> None:
    """What runs is an allocation, and the bound stays honest."""
    round_ = generate_on_tree(3, 64, load=0.8, requiring=0.0)
    result = solve_tree(round_, stop=Stop(seconds=1e-6))
    assert result.limit is Limit.TIME
    assert result.allocation is not None
    assert result.fitness <= result.bound
    assert result.fitness >= topology_fitness(round_, round_.instance.current) * (1 - 1e-12)
