"""Cuts: no allocation violates one, whatever the prices; and what they forbid does not pack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    enumerate_mode_choices,
    held_amounts,
)
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.formulations.mode_rounds.value_cut import CutMaker
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.modes.packing import ModePacker
from goodalloc.solvers.modes.packing_cut import CutFinder
from tests.support.enumerated import some_allocations, taken_by
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


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
            units,
            random.random(len(units)) * (random.random(len(units)) < 0.6),
            grid.shape,
            extra=extra,
            extra_worth=random.random(len(extra)) * 1.5,
        )
        for code in np.unique(instance.cluster.node_type).tolist()
    }
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
    found = 0
    for allocation in some_allocations(instance, 25):
        weight = taken_by(instance, choices, allocation)
        assert finder.find(weight) is None
        packed = packer.pack(choices.where(np.flatnonzero(weight)))
        if packed is not None:
            found += 1
            assert packed.job_replicas.tolist() == allocation.job_replicas.tolist()
    assert found > 0
