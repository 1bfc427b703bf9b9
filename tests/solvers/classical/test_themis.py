"""Themis as a policy: probing, bids, leases and chance, on rounds worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.solvers.classical.themis import (
    FinishTimes,
    Themis,
    ThemisExact,
    further,
    given_at_random,
    worst,
)
from goodalloc.solvers.policies.auction_terms import AuctionTerms
from tests.support.policies.policy_rounds import active, round_of

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob, Decision


def counts(decision: Decision) -> dict[str, int]:
    """GPUs of every job that has any."""
    return {name: sum(g for _, g in pairs) for name, pairs in decision.placements.items()}


def later(job: ActiveJob, decision: Decision, seconds: int = 60) -> ActiveJob:
    """The job as it is some time after the decision was applied."""
    placement: Placement = tuple(decision.placements.get(job.name, ()))
    return replace(job, placement=placement, age=job.age + seconds)


def test_the_fairness_of_a_job_is_that_of_its_share_and_steps() -> None:
    """An hour gone, 7200 of 7200 steps at a second each, eight GPUs for two jobs: alone 1800 s."""
    jobs = (active("a", 8, steps=7200.0), active("b", 2, steps=7200.0))
    found = FinishTimes(math.inf).fairness(round_of(*jobs))
    assert found["a"][1:] == pytest.approx([(3600 + 7200 / k) / 1800 for k in range(1, 9)])
    assert found["a"][0] == math.inf
    assert found["b"].size == 3
    assert found["b"][2] == pytest.approx((3600 + 3600) / 3600)


def test_the_whole_work_is_what_was_left_when_the_job_was_first_seen() -> None:
    """Half the steps later, alone still takes the whole."""
    times = FinishTimes(math.inf)
    times.fairness(round_of(active("a", 4, steps=7200.0)))
    found = times.fairness(round_of(active("a", 4, steps=3600.0)))
    assert found["a"][4] == pytest.approx((3600 + 900) / 1800)
    assert times.fairness(round_of(active("b", 4)))["b"].size == 5


def test_those_that_sharing_costs_most_are_offered_gpus() -> None:
    """A fifth of ten are two, of eleven three, and one at least; of equals the first."""
    names = [f"job-{index}" for index in range(11)]
    cost = {name: float(index) for index, name in enumerate(names)}
    assert worst(names[:10], cost, 0.8) == ["job-9", "job-8"]
    assert worst(names, cost, 0.8) == ["job-10", "job-9", "job-8"]
    assert worst(names, cost, 1.0) == ["job-10"]
    assert sorted(worst(names, cost, 0.0)) == sorted(names)
    assert worst(names, dict.fromkeys(names, 1.0), 0.8)[0] == "job-0"


def test_bids_are_on_top_of_what_is_held() -> None:
    """No more than the job can use."""
    table = np.array([9.0, 5.0, 3.0, 2.0])
    assert further(table, 0, 2).tolist() == [9.0, 5.0, 3.0]
    assert further(table, 2, 3).tolist() == [3.0, 2.0, 2.0, 2.0]


def test_chance_gives_just_so_much_that_a_job_gets_faster() -> None:
    """The second GPU helps only with the third; what nobody gains from is left."""
    table = {"a": np.array([9.0, 5.0, 5.0, 2.0]), "b": np.array([4.0, 4.0, 4.0, 4.0])}
    for seed in range(5):
        random = np.random.default_rng(seed)
        assert given_at_random(random, table, {"a": 1, "b": 0}, 1) == {}
        assert given_at_random(random, table, {"a": 1, "b": 0}, 5) == {"a": 2}
        assert given_at_random(random, table, {"a": 0}, 2) == {"a": 1}
        assert given_at_random(random, table, {}, 5) == {}


def test_a_job_alone_gets_all_that_it_asked_for_and_keeps_it() -> None:
    """Also when its lease ends: nothing changes, so it stays where it is."""
    policy, job = Themis(), active("only", 6)
    first = policy.decide(round_of(job, time=0))
    assert counts(first) == {"only": 6}
    for time in (60, 1200, 2400):
        job = later(job, first)
        assert policy.decide(round_of(job, time=time)).placements == first.placements


def test_gpus_are_held_until_the_lease_ends() -> None:
    """A newcomer waits for 20 minutes; then both get some."""
    policy = Themis(AuctionTerms(0.0, wait=math.inf))
    old = active("old", 8, steps=1e5)
    first = policy.decide(round_of(old, time=0))
    assert counts(first) == {"old": 8}
    old, new = later(old, first), active("new", 8, steps=1e5)
    for time in (60, 1140):
        assert counts(policy.decide(round_of(old, new, time=time))) == {"old": 8}
    shared = counts(policy.decide(round_of(old, new, time=1200)))
    assert shared["old"] > 0
    assert shared["new"] > 0
    assert sum(shared.values()) == 8


def test_a_job_whose_nodes_are_gone_has_no_lease() -> None:
    """It bids anew; the GPUs of a job that ended are free at once."""
    policy = Themis()
    jobs = (active("a", 4), active("b", 4))
    first = policy.decide(round_of(*jobs, time=0))
    assert counts(first) == {"a": 4, "b": 4}
    lost = replace(later(jobs[0], first), placement=())
    again = policy.decide(round_of(lost, later(jobs[1], first), time=60))
    assert counts(again) == {"a": 4, "b": 4}
    ended = policy.decide(round_of(later(jobs[0], again), active("c", 4), time=120))
    assert counts(ended) == {"a": 4, "c": 4}


@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(1.0, 1e5)), min_size=1, max_size=6),
    st.floats(0.0, 1.0),
    st.integers(0, 3),
)
def test_nobody_gets_more_than_asked_for_and_no_useful_gpu_is_left(
    asked: list[tuple[int, float]], knob: float, seed: int
) -> None:
    """Whatever the knob: GPUs are left only where all have what they asked for, or wait for more
    than is left."""
    jobs = [active(f"job-{i}", gpus, steps=steps) for i, (gpus, steps) in enumerate(asked)]
    policy = Themis(AuctionTerms(knob, wait=math.inf), seed)
    found = counts(policy.decide(round_of(*jobs)))
    assert all(found.get(job.name, 0) <= job.replicas for job in jobs)
    assert sum(found.values()) == min(8, sum(job.replicas for job in jobs))


def test_the_least_largest_fairness_serves_who_waited_longest() -> None:
    """The product starves a job that waited so long that GPUs hardly matter; the least largest
    fairness does not."""
    waited = replace(active("waited", 8, steps=3000.0), age=400_000)
    new = replace(active("new", 8, steps=30_000.0), age=0)
    product, largest = (ThemisExact(objective) for objective in ("product", "largest"))
    by_product = counts(product.decide(round_of(waited, new)))
    by_largest = counts(largest.decide(round_of(waited, new)))
    assert by_product.get("waited", 0) < by_product["new"]
    assert by_largest["waited"] == 8


def test_exact_decides_anew_only_when_somebody_comes_or_goes_or_a_lease_ends() -> None:
    """In between everything stays."""
    policy = ThemisExact(lease=600.0)
    jobs = (active("a", 8, steps=1e4), active("b", 8, steps=1e4))
    first = policy.decide(round_of(*jobs, time=0))
    assert sum(counts(first).values()) == 8
    shorter = [replace(later(job, first), oracle=active("x", steps=1.0).oracle) for job in jobs]
    assert policy.decide(round_of(*shorter, time=540)).placements == first.placements
    gone = policy.decide(round_of(shorter[0], time=540))
    assert counts(gone) == {"a": 8}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"fairness_knob": -0.1}, "fairness_knob is -0.1"),
        ({"fairness_knob": 1.5}, "fairness_knob is 1.5; expected a number from 0 to 1"),
        ({"fairness_knob": math.nan}, "fairness_knob is nan"),
        ({"lease": 0.0}, "lease is 0.0"),
        ({"lease": math.inf}, "lease is inf"),
        ({"wait": -1.0}, "wait is -1.0"),
        ({"rounding": "up"}, "rounding is 'up'; expected one of down, chance"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], complaint: str) -> None:
    """With the value and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        Themis(AuctionTerms(**options))


def test_an_unknown_objective_a_lease_of_nothing_and_half_a_seed_are_refused() -> None:
    """With what was expected."""
    with pytest.raises(ValueError, match="seed is -1"):
        Themis(seed=-1)
    with pytest.raises(ValueError, match="objective is 'sum'; expected one of product, largest"):
        ThemisExact("sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lease is 0"):
        ThemisExact(lease=0.0)
