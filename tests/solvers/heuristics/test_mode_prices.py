"""Choices of modes by prices: within what there is, quick, a good beginning for greedy steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.mode_rounds import mode_choices
from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    enumerate_mode_choices,
    node_capacity,
)
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.heuristics.greedy_modes import mode_greedy, priced_greedy
from goodalloc.solvers.heuristics.mode_prices import priced_choices
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance


def equipped(jobs: int = 60, nodes: int = 16) -> Instance:
    """A round with cores, its utilities worked out without compiling."""
    instance = equip(generate(0, jobs, nodes, 8), 0)
    mode_utilities(instance)
    return instance


def as_rows(choices: Choices) -> list[tuple[float, ...]]:
    """Choices as rows to compare."""
    columns = (choices.job, choices.kind, choices.replicas, choices.mode, choices.utility)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("spare", [0.0, 0.2])
def test_what_prices_tell_fits_into_the_cluster(spare: float) -> None:
    """One choice for every job; together no more of anything than is to be used."""
    instance = equipped()
    choices = enumerate_mode_choices(instance)
    cost = power_cost(choices.utility, -1.0)
    told = priced_choices(instance, choices, cost, spare=spare)
    assert choices.job[told].tolist() == list(range(instance.num_jobs))
    taken = choice_demand(instance, choices)[told].sum(axis=0)
    there = node_capacity(instance).sum(axis=0)
    assert np.all(taken <= (1.0 - spare) * there * (1 + 1e-9))
    assert np.any(taken >= 0.9 * (1.0 - spare) * there)


def test_where_there_is_enough_everybody_takes_the_best() -> None:
    """All prices are 0."""
    instance = equipped(jobs=2)
    choices = enumerate_mode_choices(instance)
    told = priced_choices(instance, choices, power_cost(choices.utility, -1.0))
    best = [choices.utility[choices.job == job].max() for job in range(2)]
    assert choices.utility[told].tolist() == best


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_begins_with_prices_is_feasible(first: int) -> None:
    """Random small rounds: pinned jobs, rules and types of GPU included; no time or any."""
    for seed in range(first, first + 20):
        instance = random_mode_instance(seed)
        best = solve(instance, "brute_force").fitness
        for deadline in (0.0, np.inf):
            found, _ = priced_greedy(instance, deadline)
            assert not violations(instance, found)
            assert fitness(instance, found) <= best * (1 + 1e-9)


def test_prices_are_good_where_greedy_has_no_time() -> None:
    """Within 10 % of the optimum without a single step; greedy from nothing leaves all idle."""
    instance = equipped()
    choices = enumerate_mode_choices(instance)
    best = solve(instance, "highs").fitness
    found, steps = priced_greedy(instance, 0.0, choices=choices)
    assert steps == 0
    assert fitness(instance, found) >= 0.9 * best
    found, steps = mode_greedy(instance, 0.0, choices=choices)
    assert steps == 0
    assert fitness(instance, found) < 0.5 * best


@pytest.mark.parametrize("seed", range(20))
def test_dominated_choices_are_the_same_however_few_are_compared_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And however many kinds of job are remembered."""
    instance = random_mode_instance(seed)
    expected = as_rows(enumerate_mode_choices(instance))
    monkeypatch.setattr(mode_choices, "AT_ONCE", 3)
    monkeypatch.setattr(mode_choices, "MOST_SHAPES", 1)
    assert as_rows(enumerate_mode_choices(instance)) == expected


def test_without_time_only_worthless_choices_are_dropped() -> None:
    """All that is left is among all choices and worth more than idling, or idling, or kept."""
    instance = equipped(20, 4)
    late = as_rows(enumerate_mode_choices(instance, deadline=0.0))
    every, pruned = (as_rows(enumerate_mode_choices(instance, prune=p)) for p in (False, True))
    assert set(pruned) < set(late) <= set(every)
