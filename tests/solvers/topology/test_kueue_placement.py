"""Placements of Kubernetes' schedulers: the examples of their document, and laws."""

from __future__ import annotations

import pytest

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound, topology_fitness
from goodalloc.solvers.exact.highs import solve_highs
from goodalloc.solvers.topology.brute_force import topology_brute_force
from goodalloc.solvers.topology.kueue_placement import ALGORITHMS, greedy_placement, shares_of
from tests.support.small_rounds import tiny_tree


@pytest.mark.parametrize(
    ("algorithm", "needed", "room", "expected"),
    [
        ("best_fit", 7, (3, 3, 2, 1), {0: 3, 1: 3, 3: 1}),
        ("least_free", 7, (3, 3, 2, 1), {3: 1, 2: 2, 1: 3, 0: 1}),
        ("most_free", 7, (3, 3, 2, 1), {0: 3, 1: 3, 2: 1}),
        ("best_fit", 12, (10, 10), {0: 10, 1: 2}),
        ("balanced", 12, (10, 10), {0: 6, 1: 6}),
        ("balanced", 25, (15, 15), {0: 12, 1: 13}),
        ("balanced", 23, (15, 13, 10), {1: 13, 2: 10}),
        ("balanced", 15, (5, 5, 5), {0: 5, 1: 5, 2: 5}),
    ],
)
def test_shares_are_those_of_the_document(
    algorithm: str, needed: int, room: tuple[int, ...], expected: dict[int, int]
) -> None:
    """Up to which of equal domains comes first; balanced takes the least capacity that suffices."""
    assert dict(shares_of(needed, room, algorithm)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_placements_obey_the_rules_and_never_beat_the_optimum(algorithm: str) -> None:
    """On tiny rounds, with and without interference avoidance."""
    for seed in range(40):
        round_ = tiny_tree(seed, avoidance=seed % 3 > 0)
        wanted = solve_highs(round_.instance).require_allocation()
        placed = greedy_placement(round_, wanted, algorithm)  # type: ignore[arg-type]
        assert not topology_violations(round_, placed), seed
        _, best = topology_brute_force(round_)
        assert topology_fitness(round_, placed) <= best * (1 + 1e-9), seed


def test_a_job_goes_to_the_lowest_level_with_room() -> None:
    """Not across racks, though the nodes with the most free GPUs are in different ones."""
    cluster = Cluster((NodeGroup("a", 1, 3), NodeGroup("b", 1, 2), NodeGroup("c", 2, 3)))
    instance = Instance(cluster, (Job("job"),))
    racks = (("left", "left", "right", "right"),)
    round_ = TopologyRound(instance, Topology((Level("rack"),), racks))
    wanted = Allocation.from_matrix([[2, 0, 2, 1]])
    assert greedy_placement(round_, wanted).matrix().tolist() == [[3, 2, 0, 0]]


def test_an_unknown_algorithm_is_refused() -> None:
    """With the names of those that there are."""
    round_ = tiny_tree(0)
    wanted = Allocation.empty(round_.instance.num_jobs, round_.instance.cluster.num_nodes)
    with pytest.raises(ValueError, match="best_fit"):
        greedy_placement(round_, wanted, "worst_fit")  # type: ignore[arg-type]
