"""Cuts: no allocation violates one, whatever the prices; and what they forbid does not pack."""

import numpy as np
import pytest
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind, keep_choices
from goodalloc.formulations.mode_choices import choice_demand, enumerate_mode_choices, held_amounts
from goodalloc.formulations.node_value import NodeValue, node_value
from goodalloc.formulations.resource_grid import ResourceGrid, resource_grid
from goodalloc.formulations.value_cut import CutMaker
from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.solvers.brute_force import enumerate_allocations
from goodalloc.solvers.highs_program import Watch
from goodalloc.solvers.mode_packing import ModePacker
from goodalloc.solvers.packing_cut import CutFinder
from goodalloc.solvers.stop import Stop
from tests.random_instances import random_mode_instance

Floats = NDArray[np.float64]


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


def random_cut_prices(
    instance: Instance, choices: Choices, grid: ResourceGrid, random: np.random.Generator
) -> tuple[dict[int, NodeValue], Floats]:
    """Value functions at random prices of random pieces, one for every type of GPU, and stays."""
    units = np.unique(grid.at_least(choice_demand(instance, choices)), axis=0)
    units = units[units.any(axis=1)]
    wanted = (random.random(len(units)) < 0.5) & instance.rules.interference_avoidance
    extra = units[wanted]  # without that rule a node may hold several distributed pieces
    values = {
        code: node_value(
            units, random.random(len(units)) * (random.random(len(units)) < 0.6), grid.shape,
            extra=extra, extra_worth=random.random(len(extra)) * 1.5,
        )
        for code in np.unique(instance.cluster.node_type).tolist()
    }  # fmt: skip
    return values, random.random(len(held_amounts(instance)))


@pytest.mark.parametrize("seed", range(60))
def test_no_allocation_violates_a_cut_at_any_prices(seed: int) -> None:
    """All allocations of a small instance, its rules and running jobs included."""
    instance = random_mode_instance(seed)
    choices, grid = enumerate_mode_choices(instance, prune=False), resource_grid(instance)
    random = np.random.default_rng(seed)
    maker = CutMaker(instance, choices, grid)
    cuts = [maker.cut(*random_cut_prices(instance, choices, grid, random)) for _ in range(3)]
    for allocation in some_allocations(instance, 300):
        weight = taken_by(instance, choices, allocation)
        for cut in cuts:
            assert cut.coefficient @ weight <= cut.upper + 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_choices_of_an_allocation_pack_and_have_no_cut(seed: int) -> None:
    """What some allocation takes is packed, by the packer alone or at least by the relaxation."""
    instance = random_mode_instance(seed)
    choices, grid = enumerate_mode_choices(instance, prune=False), resource_grid(instance)
    watch = Watch(Stop())
    finder, packer = CutFinder(instance, choices, grid, watch), ModePacker(instance, grid, watch)
    for allocation in some_allocations(instance, 25):
        weight = taken_by(instance, choices, allocation)
        assert finder.find(weight) is None
        packed = packer.pack(choices.where(np.flatnonzero(weight)))
        if packed is not None:
            assert packed.job_replicas.tolist() == allocation.job_replicas.tolist()
