"""Bound <= optimum of the time-indexed program <= every policy, on thousands of tiny days.

The program has every replay of these days (`tests/support/hindsight/days_in_rounds.py`), and some
policy attains its optimum on many of them: there, neither side can be any better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy
from tests.support.hindsight.days_in_rounds import (
    ROUND,
    edges_before,
    malleable_day,
    rigid_day,
)
from tests.support.hindsight.optimum import optimum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.hindsight.days_in_rounds import MalleableDay, RigidDay

#: Policies that rent nodes beyond those of the day, and one whose decisions take seconds.
RENTING, LONG = ("autoscaling-goodput", "autoscaling-throughput"), "pollux-genetic"

#: Policies that give every GPU to one job at a time.
ALONE = [
    name
    for name in POLICIES
    if name not in (*RENTING, LONG) and getattr(make_policy(name), "sharing", None) is None
]

#: Those that decide in no time, and replay every day. In slow tests the others take turns.
EVERY_DAY = (
    "allox",
    "fifo",
    "hesrpt",
    "optimus",
    "srtf",
    "themis",
    "themis-exact",
    "themis-maxmin",
    "tiresias",
    "tiresias-gittins",
)

#: Policies that can replay days of a kind.
SERVING = {
    "rigid": [name for name in ALONE if POLICIES[name].rigid],
    "malleable": ALONE,
    "of two types": [name for name in ALONE if POLICIES[name].gpu_types],
}

#: Days of every kind, in quick tests and in those that are marked slow.
FEW, MANY = (
    {"rigid": 6, "malleable": 5, "of two types": 2},
    {"rigid": 1300, "malleable": 450, "of two types": 250},
)

#: Part of the days on which one of the policies of the day attains the optimum, at the least.
ATTAINED = {"rigid": 0.95, "malleable": 0.5, "of two types": 0.2}

#: A search for prices that takes a moment.
QUICK = (Stage(float(ROUND), (10.0,), 3),)

#: What solvers may round.
ROUNDING = 1e-6


def day_of(kind: str, seed: int) -> RigidDay | MalleableDay:
    """Draw a day of a kind."""
    if kind == "rigid":
        return rigid_day(seed)
    return malleable_day(seed, types=1 if kind == "malleable" else 2)


def quick_policies(kind: str) -> list[str]:
    """Return the policies of every day of a kind."""
    return [name for name in SERVING[kind] if name in EVERY_DAY]


def policies_of(kind: str, seed: int) -> list[str]:
    """Return these, and on every second day one of the others in turn."""
    others = [name for name in SERVING[kind] if name not in EVERY_DAY]
    turn = [others[seed // 2 % len(others)]] if seed % 2 == 0 else []
    return [*quick_policies(kind), *turn]


def over_optimum(kind: str, seed: int, policies: Iterable[str]) -> dict[str, float]:
    """Assert bound <= optimum <= every policy; return the averages over the optimum."""
    day = day_of(kind, seed)
    averages = {name: day.average(name) for name in policies}
    best, proven = optimum(day.problem, edges_before(day.problem, min(averages.values())))
    bound = hindsight_bound(day.problem, QUICK).value
    assert 0.0 < bound <= proven * (1.0 + ROUNDING), (kind, seed)
    for name, average in averages.items():
        assert proven <= average * (1.0 + ROUNDING), (kind, seed, name)
    return {name: average / best for name, average in averages.items()}


def attaining(ratios: Mapping[str, float]) -> set[str]:
    """Return the policies that attain the optimum."""
    return {name for name, ratio in ratios.items() if ratio <= 1.0 + ROUNDING}


@pytest.mark.parametrize("kind", SERVING)
def test_the_optimum_is_between_bound_and_policies(kind: str) -> None:
    """Under those that decide in no time; some of them attain it."""
    found = [over_optimum(kind, seed, quick_policies(kind)) for seed in range(FEW[kind])]
    assert any(map(attaining, found))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVING)
def test_the_optimum_is_between_them_on_thousands_of_days(kind: str) -> None:
    """All policies serve many days, and those of every day attain the optimum on some."""
    days = range(100, 100 + MANY[kind])
    assert {name for seed in days[:60] for name in policies_of(kind, seed)} == {*SERVING[kind]}
    attained = [attaining(over_optimum(kind, seed, policies_of(kind, seed))) for seed in days]
    assert np.mean([bool(names) for names in attained]) >= ATTAINED[kind]
    assert {*quick_policies(kind)} <= set[str]().union(*attained)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["malleable", "of two types"])
def test_nor_is_the_genetic_algorithm_of_pollux_below_it(kind: str) -> None:
    """On two days of either kind."""
    for seed in range(2):
        over_optimum(kind, seed, [LONG])


def test_so_many_days_are_two_thousand() -> None:
    """Of which the slow tests have every one."""
    assert sum(MANY.values()) >= 2000
