"""Rounds on the nodes of a published cluster, as `drawn_rounds` has them by load on equal nodes.

The nodes are those of openb (Weng et al., "Beware of Fragmentation", ATC'23), one type of GPU at a
time: how many there are, and how many GPUs each has. The list tells no racks, so these are made: a
standard tree over the nodes in one of two orders. Where the nodes of a type differ, both are there,
as what the placements lose depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from goodalloc.data.pods import draw_machines
from goodalloc.experiments.studies.topology.drawn_rounds import LOADS, QUICK_LOADS, RoundRecipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goodalloc.experiments.studies.framework.reproduction import Plan

#: How racks are made: nodes of the same number of GPUs beside each other, or each number of GPUs
#: spread evenly over the nodes.
Racks = Literal["alike", "mixed"]

#: Types of GPU and racks. Left out are two types whose rounds are too large to be decided in the
#: time of the others, T4 (404 nodes) and G2 (549), and A10, of which there are two nodes.
LISTS: tuple[tuple[str, Racks], ...] = (
    ("V100M16", "alike"),
    ("V100M16", "mixed"),
    ("V100M32", "alike"),
    ("V100M32", "mixed"),
    ("P100", "alike"),
    ("G3", "alike"),
)
QUICK_LISTS = LISTS[2:3]

#: Loads; beyond, the harmonic mean gives nearly every job a single GPU.
NODE_LOADS = LOADS[:-1]


def published_nodes(gpu_type: str) -> tuple[int, ...]:
    """Return the numbers of GPUs of the nodes of a type in the published list, in ascending order.

    Parameters
    ----------
    gpu_type
        Name of the type in the list.

    Raises
    ------
    ValueError
        If the list has no node of the type.

    Examples
    --------
    >>> from collections import Counter
    >>> from goodalloc.experiments.studies.topology.published_nodes import published_nodes
    >>> Counter(published_nodes("V100M32"))
    Counter({8: 21, 4: 9})
    """
    machines = draw_machines()
    nodes = sorted(machine.gpus for machine in machines if gpu_type and machine.model == gpu_type)
    if not nodes:
        known = ", ".join(sorted({machine.model for machine in machines if machine.model}))
        raise ValueError(f"Published nodes: type is '{gpu_type}'; expected one of {known}.")
    return tuple(nodes)


def spread_evenly(nodes: Sequence[int]) -> tuple[int, ...]:
    """Return numbers of GPUs in an order in which each number is spread evenly.

    The *i*-th of *n* equal nodes, from 0 on, has the place *(i + 1/2) / n*, and nodes go by their
    places.

    Parameters
    ----------
    nodes
        GPUs of every node.

    Examples
    --------
    >>> from goodalloc.experiments.studies.topology.published_nodes import spread_evenly
    >>> spread_evenly((1, 1, 1, 1, 8, 8))
    (1, 8, 1, 1, 8, 1)
    """
    places = (
        ((place + 0.5) / nodes.count(gpus), gpus)
        for gpus in sorted(set(nodes))
        for place in range(nodes.count(gpus))
    )
    return tuple(gpus for _, gpus in sorted(places))


def rounds_on_published_nodes(plan: Plan) -> Iterator[RoundRecipe]:
    """Return the rounds of a study on published nodes.

    Parameters
    ----------
    plan
        Options of the study.
    """
    lists, loads = (QUICK_LISTS, QUICK_LOADS) if plan.quick else (LISTS, NODE_LOADS)
    for gpu_type, racks in lists:
        nodes = published_nodes(gpu_type)
        if racks == "mixed":
            nodes = spread_evenly(nodes)
        for load in loads:
            for seed in plan.workloads:
                yield RoundRecipe(nodes, seed, load=load, gpu_type=gpu_type, racks=racks)
