"""Rounds of the studies on trees: what they are drawn from, and those on equal nodes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.models import Cluster, NodeGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.topology.topology_round import TopologyRound

#: Nodes, GPUs of each, jobs, and share of gangs of the rounds by number.
SIZES = (
    (16, 4, 160, 0.0),
    (128, 4, 500, 0.0),
    (512, 4, 2000, 0.0),
    (16, 4, 160, 0.02),
    (128, 4, 500, 0.05),
    (512, 4, 2000, 0.05),
    (16, 16, 160, 0.02),
    (128, 8, 500, 0.05),
    (512, 8, 2000, 0.05),
)
QUICK_SIZES = SIZES[:1]

#: Nodes, GPUs of each, and loads of the rounds by load.
SMALL, LOADS, QUICK_LOADS = (16, 4), (0.25, 0.5, 0.75, 1.0, 1.5), (0.25, 0.5)
LARGE, LARGE_LOADS = (128, 4), LOADS[:-1]


class RoundRecipe(NamedTuple):
    """What a round of a study is drawn from.

    Attributes
    ----------
    nodes
        GPUs of every node, in the order of the tree.
    seed
        Seed of the round.
    jobs, load
        Number of jobs, or GPUs asked for over those there are; the other is None.
    gangs
        Share of gangs among the jobs.
    gpu_type, racks
        Type of the GPUs of a published list of nodes, and how its racks were made; empty for equal
        nodes.
    """

    nodes: tuple[int, ...]
    seed: int
    jobs: int | None = None
    load: float | None = None
    gangs: float = 0.0
    gpu_type: str = ""
    racks: str = ""

    def draw(self) -> TopologyRound:
        """Return the round."""
        return generate_on_tree(
            self.seed,
            len(self.nodes),
            cluster=cluster_in_order(self.nodes),
            jobs=self.jobs,
            load=self.load,
            gangs=self.gangs,
        )


def cluster_in_order(nodes: Sequence[int]) -> Cluster:
    """Return a cluster whose nodes stand in an order; equal neighbours are a group.

    Parameters
    ----------
    nodes
        GPUs of every node.

    Examples
    --------
    >>> from goodalloc.experiments.studies.topology.drawn_rounds import cluster_in_order
    >>> cluster_in_order((4, 4, 8, 4)).node_gpus.tolist()
    [4, 4, 8, 4]
    """
    runs = [(gpus, len(list(run))) for gpus, run in groupby(nodes)]
    return Cluster(
        tuple(NodeGroup(f"run-{place}", count, gpus) for place, (gpus, count) in enumerate(runs))
    )


def rounds_on_equal_nodes(plan: Plan) -> Iterator[RoundRecipe]:
    """Return the rounds of a study by number and by load on equal nodes.

    Parameters
    ----------
    plan
        Options of the study.
    """
    for nodes, gpus, jobs, gangs in QUICK_SIZES if plan.quick else SIZES:
        for seed in plan.workloads:
            yield RoundRecipe((gpus,) * nodes, seed, jobs=jobs, gangs=gangs)
    small, large = (QUICK_LOADS, ()) if plan.quick else (LOADS, LARGE_LOADS)
    for (nodes, gpus), loads in ((SMALL, small), (LARGE, large)):
        for load in loads:
            for seed in plan.workloads:
                yield RoundRecipe((gpus,) * nodes, seed, load=load)
