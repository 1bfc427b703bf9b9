"""The pattern program against the enumeration of all allocations and against the node program.

Costs are drawn at random, so that nothing is monotone and every kind of choice turns up.
"""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.formulations.gpu_rounds import kept_placements as module
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.kept_placements import free_nodes
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.node_indexed.node_program import build_node_program, decode_nodes
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.rules import Rules
from tests.support.random_instances import random_instance
from tests.support.shapes import chosen, decide_whole, every_choice, has_choices, least_cost

#: Costs have three decimals; a solution is exact to the tolerances of HiGHS.
CLOSE = 1e-6


def check(seed: int) -> None:
    """Relaxation below, exact program at, node program at the optimum of the enumeration."""
    instance = random_instance(seed)
    choices, cost = every_choice(instance, seed)
    optimum = least_cost(instance, choices, cost)
    relaxed, exact = (
        decide_whole(build_patterns(instance, choices, cost, exact=exact).program)
        for exact in (False, True)
    )
    by_node = build_node_program(instance, choices, cost)
    outcome = decide_whole(by_node.program)
    assert outcome.objective == pytest.approx(optimum, abs=CLOSE), instance.name
    assert outcome.values is not None
    allocation = decode_nodes(instance, by_node, outcome.values)
    assert has_choices(instance, chosen(choices, outcome.values), allocation), instance.name
    assert relaxed.objective <= exact.objective + CLOSE, instance.name
    assert exact.objective <= optimum + CLOSE, instance.name
    if instance.rules.interference_avoidance:
        assert exact.objective == pytest.approx(optimum, abs=CLOSE), instance.name


def test_every_program_has_the_optimum_of_the_enumeration() -> None:
    """A sample of random instances with random costs, and some that HiGHS's presolve spoils."""
    for seed in (*range(30_000, 30_060), 33_256, 33_592, 33_659, 33_741):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(31_000, 34_000, 250))
def test_every_program_has_the_optimum_of_thousands_of_enumerations(first: int) -> None:
    """3,000 random instances with random costs."""
    for seed in range(first, first + 250):
        check(seed)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("most", [0, 1])
def test_crowded_nodes_have_the_same_optimum_in_fewer_columns(
    most: int, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the sets of staying jobs are listed or only what they leave is counted."""
    for seed in range(35_000, 35_040):
        instance = random_instance(seed)
        choices, cost = every_choice(instance, seed)
        listed = decide_whole(build_patterns(instance, choices, cost, exact=exact).program)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_STAYS", most)
            counted = decide_whole(build_patterns(instance, choices, cost, exact=exact).program)
        assert counted.objective == pytest.approx(listed.objective, abs=CLOSE), instance.name


def test_rows_over_the_choices_are_obeyed() -> None:
    """At most so much of some weights, as in the node program."""
    for seed in range(36_000, 36_010):
        instance = random_instance(seed).replace(rules=Rules())
        choices, cost = every_choice(instance, seed)
        weights = np.random.default_rng(seed).integers(0, 3, size=len(choices)).astype(float)
        limits = ((weights, 2.0), ((choices.kind == Kind.ONE_NODE).astype(float), 1.0))
        pattern = build_patterns(instance, choices, cost, limits=limits, exact=True).program
        by_node = build_node_program(instance, choices, cost, limits=limits).program
        one, other = decide_whole(pattern), decide_whole(by_node)
        assert one.objective == pytest.approx(other.objective, abs=CLOSE), instance.name
        if one.values is not None:
            taken = one.values[: len(choices)]
            assert all(weights @ taken <= most + CLOSE for weights, most in limits)


def test_equal_free_nodes_are_counted_and_not_indexed() -> None:
    """A thousand free nodes make no more columns than ten."""
    jobs = tuple(Job(f"job{i}", max_replicas=8) for i in range(3))
    sizes = []
    for nodes in (10, 1_000):
        instance = Instance(Cluster.uniform(nodes, 4), jobs)
        choices, cost = every_choice(instance, 0)
        program = build_patterns(instance, choices, cost).program
        sizes.append((program.num_columns, program.num_rows))
    assert sizes[0] == sizes[1]


def test_what_pinned_jobs_leave_is_what_is_free() -> None:
    """Their GPUs are gone, and a distributed one keeps other distributed jobs away."""
    jobs = (
        Job("pinned", placement=((0, 1), (1, 3)), preemptible=False),
        Job("free", placement=((1, 1),)),
        Job("wide", placement=((2, 2), (3, 1))),
    )
    instance = Instance(Cluster.uniform(5, 4), jobs)
    choices, _ = every_choice(instance, 0)
    free = free_nodes(instance, choices)
    assert free.gpus.tolist() == [3, 1, 4, 4, 4]
    assert free.blocked.tolist() == [True, True, False, False, False]
    assert free.resident.tolist() == [False, True, True, True, False]
    stays = zip(
        free.stay_job.tolist(),
        free.stay_node.tolist(),
        free.stay_gpus.tolist(),
        free.stay_spread.tolist(),
        strict=True,
    )
    assert list(stays) == [(1, 1, 1, False), (2, 2, 2, True), (2, 3, 1, True)]
    together = instance.replace(rules=Rules(interference_avoidance=False))
    assert not free_nodes(together, choices).blocked.any()
