"""Heuristics for jobs with execution plans: what they do, and that they break no rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.plans import (
    Configuration,
    PlanJob,
    PlanRound,
    PlanState,
    Training,
    plan_violations,
)
from goodalloc.solvers.plans import (
    ArenaPlans,
    ExactPlans,
    FirstComePlans,
    OneByOne,
    RubickPlans,
)
from tests.solvers.plans.test_exact_plans import random_round

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.solvers.plans import (
        PlanPolicy,
    )

ONE, TWO, FOUR = (Configuration("a", gpus) for gpus in (1, 2, 4))
OTHER = Configuration("b", 2)
BERT = Training("bert", "1.3B", 100)

POLICIES: dict[str, Callable[[], PlanPolicy]] = {
    "arena": ArenaPlans,
    "rubick": RubickPlans,
    "sia": lambda: OneByOne(elastic=True, most_changes=5),
    "gavel": lambda: OneByOne(elastic=False, most_changes=3),
    "first come": FirstComePlans,
    "exact": ExactPlans,
}


def job(
    name: str,
    speeds: dict[Configuration, float],
    request: Configuration,
    held: Configuration | None = None,
) -> PlanState:
    """Return a job that waits or runs."""
    made = PlanJob(name, BERT, 0.0, 1e5, request)
    return PlanState(made, speeds, held, 1e5, 600.0, 0 if held else -1)


@pytest.mark.parametrize("name", POLICIES)
def test_no_decision_breaks_a_rule_in_sequences_of_rounds(name: str) -> None:
    """Jobs come and go; what is decided is held in the next round."""
    random = np.random.default_rng(0)
    for seed in range(8):
        policy, held = POLICIES[name](), dict[str, Configuration]()
        states = random_round(seed, jobs=9, capacity=(8, 4)).jobs
        for step in range(6):
            there = [one for one in states if random.random() < 0.7 or step == 0]
            jobs = tuple(
                PlanState(
                    one.job,
                    one.speeds,
                    held.get(one.job.name),
                    one.left,
                    one.age + 300.0 * step,
                    0 if one.job.name in held else -1,
                )
                for one in there
            )
            round_ = PlanRound(300.0 * step, {"a": 8, "b": 4}, jobs)
            decision = policy.decide(round_)
            assert plan_violations(round_, decision) == []
            held = dict(decision)


def test_arena_halves_the_job_that_loses_least() -> None:
    """To let a new job start."""
    flat = job("flat", {TWO: 1.0, ONE: 0.9}, TWO, TWO)
    steep = job("steep", {TWO: 1.0, ONE: 0.5}, TWO, TWO)
    new = job("new", {ONE: 0.6}, ONE)
    decision = ArenaPlans().decide(PlanRound(0.0, {"a": 4}, (flat, steep, new)))
    assert decision == {"flat": ONE, "steep": TWO, "new": ONE}


def test_arena_moves_a_job_to_another_type_if_that_is_better_than_halving() -> None:
    """The new one needs what the old one holds."""
    old = job("old", {TWO: 1.0, ONE: 0.2, OTHER: 0.95}, TWO, TWO)
    new = job("new", {TWO: 1.0}, TWO)
    decision = ArenaPlans().decide(PlanRound(0.0, {"a": 2, "b": 2}, (old, new)))
    assert decision == {"old": OTHER, "new": TWO}


def test_arena_doubles_jobs_while_gpus_are_free() -> None:
    """The one that gains most first."""
    flat = job("flat", {TWO: 1.0, ONE: 0.9}, ONE, ONE)
    steep = job("steep", {TWO: 1.0, ONE: 0.5}, ONE, ONE)
    decision = ArenaPlans().decide(PlanRound(0.0, {"a": 3}, (flat, steep)))
    assert decision == {"flat": ONE, "steep": TWO}


@pytest.mark.parametrize("make", [ArenaPlans, RubickPlans])
def test_without_arrivals_or_departures_nothing_changes(
    make: Callable[..., ArenaPlans | RubickPlans],
) -> None:
    """Although a GPU is free, and upgrades are allowed by then."""
    policy = make(upgrades=0)
    running = job("x", {ONE: 1.0, TWO: 1.5}, ONE, ONE)
    first = policy.decide(PlanRound(0.0, {"a": 2}, (running,)))
    policy.upgrades = 10
    assert policy.decide(PlanRound(300.0, {"a": 2}, (running,))) == first == {"x": ONE}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_can_be_asked_about_one_round_after_the_other(name: str) -> None:
    """A round that does not go on from the last one is decided as by a new policy."""
    policy = POLICIES[name]()
    for seed in (0, 0, 1):
        round_ = random_round(seed, jobs=6, capacity=(8, 4))
        assert dict(policy.decide(round_)) == dict(POLICIES[name]().decide(round_))


def test_arena_places_a_job_whose_type_is_not_there_on_another() -> None:
    """If it has a plan for one."""
    elsewhere = job("x", {ONE: 1.0}, Configuration("gone", 1))
    assert ArenaPlans().decide(PlanRound(0.0, {"a": 2}, (elsewhere,))) == {"x": ONE}


def test_rubick_starts_jobs_on_the_fewest_gpus_that_are_as_fast() -> None:
    """A better plan on one GPU of another type does for two."""
    fast = Configuration("b", 1)
    waiting = job("x", {TWO: 1.0, fast: 1.1, OTHER: 1.2}, TWO)
    busy = job("y", {TWO: 1.0}, TWO, TWO)
    decision = RubickPlans(upgrades=0).decide(PlanRound(0.0, {"a": 2, "b": 2}, (busy, waiting)))
    assert decision == {"x": fast, "y": TWO}


def test_rubick_never_makes_a_job_slower_than_requested() -> None:
    """The new one waits instead."""
    old = job("old", {TWO: 1.0, ONE: 0.9}, TWO, TWO)
    new = job("new", {ONE: 1.0}, ONE)
    decision = RubickPlans().decide(PlanRound(0.0, {"a": 2}, (old, new)))
    assert decision == {"old": TWO}


def test_gavel_keeps_the_number_of_gpus_and_sia_does_not() -> None:
    """Two jobs ask for two GPUs each, and there are three."""
    states = tuple(job(name, {ONE: 0.6, TWO: 1.0}, TWO) for name in ("x", "y"))
    round_ = PlanRound(0.0, {"a": 3}, states)
    assert OneByOne(elastic=False).decide(round_) == {"x": TWO}
    decided = OneByOne(elastic=True).decide(round_)
    assert sorted(held.gpus for held in decided.values()) == [1, 2]


def test_no_more_jobs_change_than_allowed() -> None:
    """Three would have to be halved for the fourth to start."""
    states = tuple(job(name, {TWO: 1.0, ONE: 0.9}, TWO, TWO) for name in ("x", "y", "z"))
    new = job("new", {FOUR: 1.0}, FOUR)
    round_ = PlanRound(0.0, {"a": 7}, (*states, new))
    assert "new" not in OneByOne(elastic=True, most_changes=2).decide(round_)
    assert "new" in OneByOne(elastic=True, most_changes=3).decide(round_)


def test_first_come_jobs_of_one_type_wait_in_order() -> None:
    """A small one behind a large one waits, too; those of another type do not."""
    large, small = job("large", {FOUR: 1.0}, FOUR), job("small", {ONE: 1.0}, ONE)
    other = job("other", {OTHER: 1.0}, OTHER)
    round_ = PlanRound(0.0, {"a": 2, "b": 2}, (large, small, other))
    assert FirstComePlans().decide(round_) == {"other": OTHER}
