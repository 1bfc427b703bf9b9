"""Finding nodes for chosen shapes: what fits is found, what does not is told."""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.formulations.gpu_rounds.choices import Choices, Kind, enumerate_choices
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact import placement as module
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.exact.placement import place, place_by_node
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from tests.support.random_instances import random_instance
from tests.support.shapes import choices_of, has_choices


def check(seed: int) -> None:
    """The choices of some feasible allocations are found again, by counting and by node."""
    instance = random_instance(seed)
    choices = enumerate_choices(instance, prune=False)
    found = enumerate_allocations(instance)
    for index in np.random.default_rng(seed).integers(len(found.row), size=3).tolist():
        taken = choices.where(choices_of(instance, choices, found.allocation(index)))
        for placed in (place(instance, taken), place_by_node(instance, taken, Watch(Stop()))):
            assert placed is not None, instance.name
            assert has_choices(instance, taken, placed), instance.name


def test_choices_of_feasible_allocations_are_placed_again() -> None:
    """A sample of random instances."""
    for seed in range(50_000, 50_050):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(51_000, 53_000, 250))
def test_choices_of_thousands_of_allocations_are_placed_again(first: int) -> None:
    """2,000 random instances."""
    for seed in range(first, first + 250):
        check(seed)


def shapes(*rows: tuple[Kind, int]) -> Choices:
    """One choice for every job."""
    kind, replicas = zip(*rows, strict=True)
    count = len(rows)
    job = np.arange(count)
    return Choices(job, np.array(kind), np.array(replicas), np.ones(count), job)


ONE, SEVERAL, IDLE = Kind.ONE_NODE, Kind.SEVERAL_NODES, Kind.IDLE

IMPOSSIBLE = [
    ((1, 4), Rules(), [(ONE, 3), (ONE, 2)]),  # too many GPUs for the node
    ((2, 3), Rules(), [(ONE, 2), (ONE, 2), (ONE, 2)]),  # GPUs enough, but not together
    ((2, 2), Rules(), [(SEVERAL, 2), (SEVERAL, 2)]),  # both would share both nodes
    ((3, 1), Rules(max_nodes_per_job=2), [(SEVERAL, 3)]),  # too many nodes
    ((2, 4), Rules(interference_avoidance=False), [(SEVERAL, 2), (ONE, 4)]),  # one node is full
    ((3, 2), Rules(), [(SEVERAL, 4), (SEVERAL, 2)]),  # two nodes each, of three
]


@pytest.mark.parametrize(("size", "rules", "rows"), IMPOSSIBLE)
def test_impossible_choices_have_no_placement(
    size: tuple[int, int], rules: Rules, rows: list[tuple[Kind, int]]
) -> None:
    """Capacity, interference and the node limit: None, however it is asked."""
    jobs = tuple(Job(f"job{i}") for i in range(len(rows)))
    instance = Instance(Cluster.uniform(*size), jobs, rules)
    taken = shapes(*rows)
    assert place(instance, taken) is None
    assert place_by_node(instance, taken, Watch(Stop())) is None


def test_sharing_is_possible_without_interference_avoidance() -> None:
    """Two distributed jobs on the same two nodes."""
    rules = Rules(interference_avoidance=False)
    instance = Instance(Cluster.uniform(2, 2), (Job("one"), Job("two")), rules)
    taken = shapes((SEVERAL, 2), (SEVERAL, 2))
    placed = place(instance, taken)
    assert placed is not None
    assert placed.matrix().tolist() == [[1, 1], [1, 1]]


def test_pieces_that_counting_cannot_split_are_found_by_node() -> None:
    """Unequal nodes without interference avoidance, where slots of one job may share a node."""
    cluster = Cluster((NodeGroup("large", 1, 4), NodeGroup("small", 1, 1)))
    jobs = (Job("one"), Job("two"))
    instance = Instance(cluster, jobs, Rules(interference_avoidance=False))
    taken = shapes((SEVERAL, 3), (ONE, 2))
    placed = place(instance, taken)
    assert placed is not None
    assert placed.matrix().tolist() == [[2, 1], [2, 0]]


def test_large_rounds_are_not_placed_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of columns that program is not tried."""
    instance = Instance(Cluster.uniform(2, 2), (Job("one"),))
    monkeypatch.setattr(module, "MOST_NODE_COLUMNS", 1)
    assert place_by_node(instance, shapes((ONE, 2)), Watch(Stop())) is None


def test_choices_that_are_not_there_are_minus_one() -> None:
    """A pruned choice has no index; the others have theirs."""
    instance = Instance(Cluster.uniform(1, 2), (Job("one", age=1e9), Job("two", max_replicas=1)))
    choices = enumerate_choices(instance, prune=False)
    kept = choices.where(choices.replicas != 2)
    allocation = place(instance, shapes((ONE, 2), (IDLE, 0)))
    assert allocation is not None
    at = choices_of(instance, kept, allocation)
    assert at[0] == -1
    assert (kept.job[at[1]], kept.kind[at[1]]) == (1, IDLE)
