"""Allocations of small instances, and the choices that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.solvers.exact.brute_force import enumerate_allocations

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def some_allocations(instance: Instance, number: int) -> list[Allocation]:
    """Feasible allocations drawn from all there are."""
    found = enumerate_allocations(instance)
    chosen = np.random.default_rng(0).permutation(len(found.row))[:number]
    return [found.allocation(int(index)) for index in chosen]


def taken_by(instance: Instance, choices: Choices, allocation: Allocation) -> Floats:
    """Which choices an allocation takes: keeping where nothing changed, else the choice anew."""
    same = allocation.unchanged(instance.current) & (instance.current.job_replicas > 0)
    keep = keep_choices(instance, choices)
    weight = np.zeros(len(choices))
    for job in range(instance.num_jobs):
        nodes, replicas = int(allocation.job_nodes[job]), int(allocation.job_replicas[job])
        kind = (Kind.IDLE, Kind.ONE_NODE)[nodes] if nodes < 2 else Kind.SEVERAL_NODES
        mode = instance.first_mode[job] + (allocation.mode[job] if nodes else 0)
        found = (choices.job == job) & (choices.kind == kind) & (choices.replicas == replicas)
        found &= choices.mode == mode
        if same[job] and keep[job] >= 0:
            weight[keep[job]] = 1.0
        else:
            assert found.sum() == 1
            weight[found] = 1.0
    return weight
