"""Bounds by prices on trees: whatever the prices are they prove something that is true."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.certificates.certificate import Leaf, leaf_bound
from goodalloc.formulations.certificates.domain_values import (
    DomainPrices,
    DomainValues,
    knapsack,
    together,
)
from goodalloc.formulations.certificates.tree_prices import TreePriceBound
from goodalloc.formulations.certificates.tree_standing import TreeStanding
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.tree_choices import level_of_choices, topology_choices
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.topology.brute_force import topology_brute_force
from tests.support.certification.tree_certificates import (
    certificate_of_prices,
    random_tree_prices,
)
from tests.support.few import few
from tests.support.small_rounds import tiny_tree

#: Seeds of a test, so that one test is not a process of its own for each.
BATCH = 25


@pytest.mark.parametrize("first", few(range(0, 500, BATCH), 2))
def test_no_prices_prove_less_than_the_optimum(first: int) -> None:
    """Random prices of nodes, domains, uplinks and nested knapsacks, on tiny trees of all kinds."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        _, best = topology_brute_force(round_)
        bounds, random = TreePriceBound.of(round_), np.random.default_rng(seed)
        allowed = np.ones(len(bounds.choices), dtype=bool)
        for _ in range(4):
            prices = random_tree_prices(bounds, random).times(float(10 ** random.uniform(-3, 0)))
            leaf = certificate_of_prices(bounds, prices, best, math.inf).tree
            assert isinstance(leaf, Leaf)
            assert leaf_bound(bounds, leaf, best, allowed) >= best * (1 - 1e-9), seed


@pytest.mark.parametrize("first", few(range(0, 200, BATCH), 1))
def test_an_allocation_is_charged_no_more_than_all_is_worth(first: int) -> None:
    """Weak duality itself: in any allocation, at any prices, all jobs together pay at most W."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        choices = topology_choices(round_, prune=False)
        pruned = TreePriceBound.of(round_)
        bounds = TreePriceBound(pruned.instance, choices, pruned.grid, round_)
        found, random = enumerate_allocations(round_.instance), np.random.default_rng(seed)
        level = level_of_choices(round_, choices)
        index = {
            (int(job), int(kind), int(gpus), int(place)): at
            for at, (job, kind, gpus, place) in enumerate(
                zip(choices.job, choices.kind, choices.replicas, level, strict=True)
            )
        }
        taken = []
        for row in random.permutation(len(found.row))[:150].tolist():
            allocation = found.allocation(row)
            if topology_violations(round_, allocation):
                continue
            held = np.maximum(round_.level_of(allocation), 1)
            stays = allocation.unchanged(round_.instance.current) & (allocation.job_replicas > 0)
            kinds = np.select(
                [allocation.job_replicas == 0, stays, allocation.job_nodes == 1],
                [Kind.IDLE, Kind.KEEP, Kind.ONE_NODE],
                Kind.SEVERAL_NODES,
            )
            names = zip(
                kinds.tolist(), allocation.job_replicas.tolist(), held.tolist(), strict=True
            )
            taken.append([index[job, *name] for job, name in enumerate(names)])
        for _ in range(3):
            prices = random_tree_prices(bounds, random)
            charges, worth = bounds.charges(prices), float(bounds.worth(prices).sum())
            paid = [float(charges[choice].sum()) for choice in taken]
            assert max(paid) <= worth + 1e-9 * (1 + abs(worth)), seed


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_nested_knapsacks_find_what_trying_everything_finds(seed: int) -> None:
    """On one domain of two nodes: all contents by brute force, with the pattern that earns it."""
    random = np.random.default_rng(seed)
    round_ = tiny_tree(seed)
    values = DomainValues.of(round_, topology_choices(round_))
    assert values is not None
    entries = round_.instance.current.job.size
    prices = DomainPrices(
        random.exponential(size=3) * [0, 1, 1],
        tuple(random.exponential(size=5) * [0, 0, 1, 1, 1] for _ in range(values.highest)),
        float(random.exponential()),
        random.exponential(size=entries) * values.may_keep,
    )
    for held, (nodes, count), worth in zip(
        values.best(prices), values.classes, values.worth(prices), strict=True
    ):
        earned = sum(prices.one_node[gpus] for gpus in held.one_node)
        earned += sum(prices.levels[level - 1][gpus] for level, gpus in held.several)
        earned += prices.above * held.above + prices.stays[held.stays].sum()
        assert earned == pytest.approx(held.worth, rel=1e-12)
        assert count * held.worth == pytest.approx(worth, rel=1e-12)
        gpus = sum(held.one_node) + sum(gpus for _, gpus in held.several) + held.above
        gpus += int(round_.instance.current.replicas[held.stays].sum())
        assert gpus <= values.free_gpus[nodes].sum()


@given(
    first=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    second=st.lists(st.floats(0, 10), min_size=1, max_size=6),
)
def test_two_parts_together_are_worth_the_best_pair(
    first: list[float], second: list[float]
) -> None:
    """Of every sum of given GPUs."""
    found = together(np.array(first), np.array(second))
    pairs = itertools.product(enumerate(first), enumerate(second))
    best = np.full(len(first) + len(second) - 1, -np.inf)
    for (i, one), (j, other) in pairs:
        best[i + j] = max(best[i + j], one + other)
    assert found.tolist() == best.tolist()


@given(prices=st.lists(st.floats(0, 5), min_size=1, max_size=6), most=st.integers(0, 12))
def test_a_knapsack_is_superadditive(prices: list[float], most: int) -> None:
    """What two rooms hold, their sum holds."""
    value = knapsack(np.array([0.0, *prices[1:]]), most).alone
    for first in range(most + 1):
        for second in range(most + 1 - first):
            assert value[first] + value[second] <= value[first + second] + 1e-9


@pytest.mark.parametrize("first", few(range(0, 100, BATCH), 1))
def test_a_kept_choice_stands_for_every_dropped_one(first: int) -> None:
    """Of some choices of a job and of the others, each choice is in exactly one."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        bounds = TreePriceBound.of(round_)
        standing = TreeStanding(bounds.instance, bounds.choices, round_)
        random = np.random.default_rng(seed)
        for job in range(bounds.instance.num_jobs):
            chosen = (random.random(len(bounds.choices)) < 0.5) & (bounds.choices.job == job)
            others = ~chosen & (bounds.choices.job == job)
            ours, theirs = standing.named(job, chosen), standing.named(job, others)
            assert not set(ours) & set(theirs)
            every = topology_choices(round_, prune=False)
            several = (every.job == job) & (every.kind == Kind.SEVERAL_NODES)
            place = level_of_choices(round_, every)[several] - 1
            wanted = set(zip(place.tolist(), every.replicas[several].tolist(), strict=True))
            named = {
                (mode, gpus) for mode, kind, gpus in (*ours, *theirs) if kind == "several_nodes"
            }
            assert named == wanted


def test_rounds_without_interference_avoidance_are_refused() -> None:
    """In a sentence."""
    round_ = tiny_tree(0, avoidance=False)
    with pytest.raises(ValueError, match="interference_avoidance is False; expected True"):
        TreePriceBound.of(round_)
