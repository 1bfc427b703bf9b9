"""From a solution of the pattern program to an allocation: feasible, and just what was chosen."""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.formulations.gpu_rounds.packing import pack
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from tests.support.random_instances import random_instance
from tests.support.shapes import chosen, decide_whole, every_choice, has_choices


def check(seed: int, exact: bool) -> bool:
    """Pack the optimum of random costs; whether it packs."""
    instance = random_instance(seed)
    choices, cost = every_choice(instance, seed)
    patterns = build_patterns(instance, choices, cost, exact=exact)
    outcome = decide_whole(patterns.program)
    assert outcome.values is not None
    allocation = pack(instance, patterns, outcome.values)
    if allocation is None:
        return False
    assert has_choices(instance, chosen(choices, outcome.values), allocation), instance.name
    return True


def test_whatever_packs_is_feasible_and_what_was_chosen() -> None:
    """A sample of random instances; nearly all pack, and all of the exact program do."""
    packed = [check(seed, exact=False) for seed in range(40_000, 40_100)]
    assert np.mean(packed) > 0.9
    for seed in range(40_000, 40_060):
        if random_instance(seed).rules.interference_avoidance:
            assert check(seed, exact=True), seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(41_000, 43_000, 250))
def test_whatever_packs_is_feasible_on_thousands(first: int) -> None:
    """2,000 random instances."""
    for seed in range(first, first + 250):
        check(seed, exact=False)
        if random_instance(seed).rules.interference_avoidance:
            assert check(seed, exact=True), seed


def test_equal_solutions_give_equal_allocations() -> None:
    """Nodes are used in order of their index: nothing depends on anything else."""
    for seed in range(44_000, 44_010):
        instance = random_instance(seed)
        choices, cost = every_choice(instance, seed)
        patterns = build_patterns(instance, choices, cost)
        values = decide_whole(patterns.program).values
        assert values is not None
        assert pack(instance, patterns, values) == pack(instance, patterns, values + 1e-7)


def test_nobody_chosen_is_an_empty_allocation() -> None:
    """All idle: no entries, but the right shape."""
    instance = Instance(Cluster.uniform(2, 2), (Job("one"), Job("two")))
    choices, _ = every_choice(instance, 0)
    cost = choices.replicas.astype(float)
    patterns = build_patterns(instance, choices, cost)
    values = decide_whole(patterns.program).values
    assert values is not None
    assert pack(instance, patterns, values) == Allocation.empty(2, 2)
