"""Conflicts: choices that cannot be placed together, and cuts that no allocation violates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.modes.conflict import ConflictFinder
from tests.support.enumerated import some_allocations, taken_by
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices
from tests.support.few import few

#: In the last one a pinned job is in the way of a single choice.
SEEDS = (*range(60), 3446)


def drawn(choices: Choices, random: np.random.Generator) -> Indices:
    """A choice of every job at random, idling rarely."""
    found = []
    for job in np.unique(choices.job).tolist():
        own = np.flatnonzero(choices.job == job)
        placed = own[choices.kind[own] != Kind.IDLE]
        found.append(random.choice(placed if placed.size and random.random() < 0.9 else own))
    return np.array(found)


def all_weights(instance: Instance, choices: Choices) -> NDArray[np.float64]:
    """Which choices every allocation takes, shape (allocations, choices)."""
    found = some_allocations(instance, len(enumerate_allocations(instance).row))
    return np.array([taken_by(instance, choices, allocation) for allocation in found])


@pytest.mark.parametrize("seed", few(SEEDS[::-1], 31))
def test_choices_are_placed_or_cut_off_by_conflicts_that_no_allocation_violates(seed: int) -> None:
    """Against all allocations."""
    instance = random_mode_instance(seed)
    choices = enumerate_mode_choices(instance, prune=False)
    finder, random = ConflictFinder(instance, choices, Watch(Stop())), np.random.default_rng(seed)
    weights = all_weights(instance, choices)
    for _ in range(10):
        taken = drawn(choices, random)
        weight = np.bincount(taken, minlength=len(choices)).astype(float)
        found = finder.find(taken)
        if isinstance(found, Allocation):
            assert (weights == taken_by(instance, choices, found)).all(axis=1).any()
            continue
        assert not (weights == weight).all(axis=1).any()
        assert found
        for cut in found:
            assert cut.coefficient @ weight >= cut.upper + 1
            assert (weights @ cut.coefficient <= cut.upper).all()


def test_a_conflict_is_gone_without_any_one_of_its_jobs() -> None:
    """Against all allocations, where nobody runs yet: a choice anew is told from keeping."""
    checked = 0
    for seed in SEEDS[:30]:
        instance = random_mode_instance(seed)
        if instance.current.job.size:
            continue
        choices = enumerate_mode_choices(instance, prune=False)
        finder = ConflictFinder(instance, choices, Watch(Stop()))
        weights = all_weights(instance, choices)
        taken = drawn(choices, np.random.default_rng(seed))
        found = finder.find(taken)
        for cut in () if isinstance(found, Allocation) else found:
            own = taken[cut.coefficient[taken] > 0].tolist()
            if len(own) > cut.upper + 1:  # others count, too
                continue
            for choice in own:
                assert weights[:, [c for c in own if c != choice]].all(axis=1).any()
                checked += 1
    assert checked > 10


def test_random_choices_do_conflict() -> None:
    """So that the test above says something."""
    conflicts = 0
    for seed in SEEDS[:4]:
        instance = random_mode_instance(seed)
        choices = enumerate_mode_choices(instance, prune=False)
        finder = ConflictFinder(instance, choices, Watch(Stop()))
        random = np.random.default_rng(seed)
        conflicts += sum(isinstance(finder.find(drawn(choices, random)), list) for _ in range(10))
    assert conflicts > 10


def test_out_of_time_nothing_is_said_of_choices() -> None:
    """Neither an allocation nor a cut without a proof."""
    instance = random_mode_instance(0)
    choices = enumerate_mode_choices(instance)
    finder = ConflictFinder(instance, choices, Watch(Stop(seconds=1e-9)))
    found = finder.find(drawn(choices, np.random.default_rng(0)))
    assert isinstance(found, Allocation) or not found
