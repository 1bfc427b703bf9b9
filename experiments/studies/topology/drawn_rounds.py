"""Rounds of the studies on trees: what they are drawn from, and those on equal nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.topology.tree_rounds import generate_on_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.topology.topology_round import TopologyRound

#: Nodes, GPUs of each, jobs, and share of gangs of the rounds by number.
SIZES = (
    (16, 4, 160, 0.0),
    (128, 4, 500, 0.0),
    (512, 4, 2000, 0.0),
    (16, 16, 160, 0.02),
    (128, 8, 500, 0.05),
    (512, 8, 2000, 0.05),
)
QUICK_SIZES = SIZES[:1]

#: Nodes, GPUs of each, and loads of the rounds by load.
SMALL, LOADS, QUICK_LOADS = (16, 4), (0.25, 0.5, 0.75, 1.0, 1.5), (0.25, 0.5)


class DrawnRound(NamedTuple):
    """Round of a study, and what it was drawn from.

    Attributes
    ----------
    round_, seed
        The round, and its seed.
    load
        GPUs asked for over those there are; None for rounds by number.
    gangs
        Share of gangs among the jobs.
    gpu_type, racks
        Type of the GPUs of a published list of nodes, and how its racks were made; empty for equal
        nodes.
    """

    round_: TopologyRound
    seed: int
    load: float | None = None
    gangs: float = 0.0
    gpu_type: str = ""
    racks: str = ""


def rounds_on_equal_nodes(plan: Plan) -> Iterator[DrawnRound]:
    """Draw the rounds of a study by number and by load on equal nodes.

    Parameters
    ----------
    plan
        Options of the study.
    """
    sizes, loads = (QUICK_SIZES, QUICK_LOADS) if plan.quick else (SIZES, LOADS)
    for nodes, gpus, jobs, gangs in sizes:
        for seed in plan.workloads:
            round_ = generate_on_tree(seed, nodes, gpus, jobs=jobs, gangs=gangs)
            yield DrawnRound(round_, seed, gangs=gangs)
    for load in loads:
        for seed in plan.workloads:
            yield DrawnRound(generate_on_tree(seed, *SMALL, load=load), seed, load)
