"""The road by one price of a GPU: the optimum of the programs, with a certificate, or none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import equip, generate
from goodalloc.formulations.basics import power_cost
from goodalloc.models import Job, fitness, utilities, violations
from goodalloc.models.round import Rules
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers import Stop, solve
from goodalloc.solvers.columns import search_served
from goodalloc.solvers.exact import solve_brute_force, solve_highs
from goodalloc.solvers.exact.by_price import SHARP, decide_by_price
from goodalloc.solvers.interface import Evidence

if TYPE_CHECKING:
    from goodalloc.data.rounds import State

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")
POWERS = (1.0, 0.0, -1.0, -3.0, -10.0, -math.inf)


@settings(max_examples=80)
@given(st.integers(0, 9999), st.integers(1, 4), st.sampled_from(POWERS))
def test_what_is_sharp_is_the_optimum_of_all_allocations(
    seed: int, jobs: int, power: float
) -> None:
    """On tiny rounds; a bound that is not met is a bound all the same."""
    instance = generate(seed, jobs, 2, 3, state=STATES[seed % 4], rules=Rules(power=power))
    found = decide_by_price(instance)
    assert found is not None
    assert not violations(instance, found.allocation)
    assert found.fitness == pytest.approx(fitness(instance, found.allocation), rel=1e-14)
    best = solve_brute_force(instance).bound
    assert found.fitness <= best * (1 + 1e-12)
    assert best <= found.bound * (1 + 1e-12)
    if found.sharp:
        assert found.fitness == pytest.approx(best, rel=1e-10)


@settings(max_examples=12)
@given(st.integers(0, 9999), st.integers(5, 60), st.sampled_from(POWERS), st.sampled_from(STATES))
def test_the_programs_come_to_the_same_allocation(
    seed: int, jobs: int, power: float, state: State
) -> None:
    """To the node, by the rule between equally good ones."""
    instance = generate(seed, jobs, max(jobs // 4, 1), 4, state=state, rules=Rules(power=power))
    quick, slow = solve_highs(instance), solve_highs(instance, by_price=False)
    assert quick.proven
    assert slow.proven
    assert quick.allocation is not None
    assert slow.allocation is not None
    assert quick.bound == pytest.approx(slow.bound, rel=1e-9)
    assert quick.allocation == slow.allocation


@pytest.mark.parametrize("state", STATES)
def test_the_jobs_that_others_outweigh_are_decided_no_worse(state: State) -> None:
    """At p = -10 all but the worst jobs vanish beside those; they are decided by another price."""
    rules = Rules(power=-10.0)
    for gpus in (50, 110):
        instance = generate(1, 420, gpus, 4, state=state, rules=rules)
        answers = [solve_highs(instance, by_price=by_price) for by_price in (True, False)]
        reached = [
            np.sort(utilities(instance, one.allocation)) for one in answers if one.allocation
        ]
        apart = np.flatnonzero(~np.isclose(reached[0], reached[1], rtol=1e-9))
        rest = slice(int(apart[0]) if apart.size else 0, None)
        ours, theirs = (float(power_mean(utility[rest], -10.0)) for utility in reached)
        assert ours >= theirs * (1 - 1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_rounds_of_many_jobs_need_no_program(power: float) -> None:
    """And the price alone certifies their optimum."""
    instance = generate(1, 420, 80, 4, state="disturbed", rules=Rules(power=power))
    result = solve(instance, "highs", certificate=True)
    assert result.bound_source in ("knapsack", "prices")
    assert result.evidence is Evidence.PRICES
    assert result.gap is not None
    assert result.gap <= 1e-11


def test_jobs_with_modes_fewest_gpus_or_a_fixed_place_take_another_road() -> None:
    """So do powers whose costs float64 does not hold."""
    plain = generate(0, 12, 4, 4)
    assert decide_by_price(plain) is not None
    job, *others = plain.jobs
    for changed in (
        Job(job.name, job.model, max_replicas=4, min_replicas=2),
        Job(job.name, job.model, age=60.0, placement=((0, 1),), preemptible=False),
    ):
        assert decide_by_price(plain.replace(jobs=(changed, *others))) is None
    assert decide_by_price(equip(plain, 0)) is None
    assert decide_by_price(plain.replace(rules=Rules(power=math.inf))) is None
    assert decide_by_price(plain.replace(rules=Rules(power=1e4))) is None


def test_a_gap_that_is_asked_for_is_enough() -> None:
    """Where the pool of GPUs bounds loosely."""
    instance = generate(1, 500, 128, 4, state="running", rules=Rules(power=1.0))
    found = decide_by_price(instance)
    assert found is not None
    assert not found.sharp
    assert found.proves(1e-2)
    assert not found.proves(1e-9)
    answer = solve_highs(instance, stop=Stop(gap=1e-2))
    assert answer.bound_source == "knapsack"
    assert answer.proven
    assert answer.allocation is not None
    assert 1.0 - fitness(instance, answer.allocation) / answer.bound > SHARP


@given(st.integers(0, 9999), st.integers(1, 6), st.integers(2, 5), st.integers(1, 12))
def test_no_choice_of_the_served_costs_less_than_the_dual(
    seed: int, jobs: int, width: int, gpus: int
) -> None:
    """Against all numbers of GPUs of all jobs."""
    random = np.random.default_rng(seed)
    cost = power_cost(np.sort(random.uniform(0.1, 3.0, (jobs, width)), axis=1), -1.0)
    served = int(random.integers(1, min(jobs, gpus) + 1))
    found = search_served(cost, gpus, served)
    assert found.fewest.sum() <= gpus
    assert np.count_nonzero(found.fewest) <= served
    choices = np.indices((width,) * jobs).reshape(jobs, -1).T
    fits = (choices.sum(axis=1) <= gpus) & ((choices > 0).sum(axis=1) == served)
    for chosen in choices[fits]:
        taken = chosen > 0
        total = cost[np.flatnonzero(taken), chosen[taken]].sum()
        assert found.bound <= total + 1e-12 * abs(total)
