"""Guests on hosts: the program against brute force and AntMan's rule, and its independent price."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.shared_gpus.hosted_jobs import Guests, guest_violations, total_rate
from goodalloc.models.shared_gpus.shared_speed import Sharing
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.shared_gpus.antman import guest_problem
from goodalloc.solvers.shared_gpus.guests import best_hosts, least_loaded
from tests.support.few import few
from tests.support.policies.policy_rounds import active


def drawn(seed: int, guests: int, hosts: int, *, coarse: bool = False) -> Guests:
    """Random rates, a fifth of them impossible and coarse ones with ties; few equal guests."""
    random = np.random.default_rng(seed)
    rate = random.random((guests, hosts))
    if coarse:
        rate = np.rint(3.0 * rate) / 3.0
    rate = np.where(random.random(rate.shape) < 0.2, -np.inf, rate)
    twins = random.integers(0, guests, guests)
    gpus = random.integers(1, 5, guests)
    return Guests(gpus[twins], random.integers(0, 7, hosts), rate[twins])


def greatest_rate(problem: Guests) -> float:
    """The best of all placements, by trying all."""
    places: list[int | None] = [None, *range(problem.num_hosts)]
    return max(
        total_rate(problem, hosts)
        for hosts in product(places, repeat=problem.num_guests)
        if not guest_violations(problem, hosts)
    )


@pytest.mark.parametrize("block", few(range(4), 2))
def test_the_program_finds_the_best_of_all_placements(block: int) -> None:
    """A thousand instances of up to four guests and three hosts."""
    for seed in range(250 * block, 250 * (block + 1)):
        problem = drawn(seed, 1 + seed % 4, 1 + seed % 3, coarse=seed % 2 == 0)
        found = best_hosts(problem)
        assert found.total == total_rate(problem, found.choice)
        assert found.total == pytest.approx(greatest_rate(problem), abs=1e-9)
        assert found.bound == pytest.approx(found.total, abs=1e-6)


@pytest.mark.parametrize("offload", [0.0, 1.0, 4.0])
def test_the_best_of_all_placements_moves_tensors_where_that_pays(offload: float) -> None:
    """Forty instances of jobs on busy and full GPUs; what moves for less is worth no less."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        uses = [
            replace(active("any", int(random.integers(1, 4))), busy=busy, memory=memory)
            for busy, memory in random.uniform(0.2, 1.0, (6, 2)).tolist()
        ]
        guests, hosts = uses[:3], uses[3:]
        room = [0, *(host.replicas for host in hosts)]
        problem, cheaper = (
            guest_problem(guests, hosts, room, Sharing("guaranteed", offload=cost))
            for cost in (offload, offload / 2)
        )
        found = best_hosts(problem)
        assert found.total == pytest.approx(greatest_rate(problem), abs=1e-9)
        assert found.total <= best_hosts(cheaper).total + 1e-9
        full = [g.memory + h.memory > 1.0 for g in uses[:3] for h in uses[3:]]
        assert (problem.rate[:, 1:].ravel()[full] == -np.inf).all() == (
            offload == 0.0 or not any(full)
        )


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 15),
    st.booleans(),
    st.floats(0.0, 1.0),
)
@settings(max_examples=60)
def test_the_rule_never_beats_the_program(
    seed: int, guests: int, hosts: int, coarse: bool, threshold: float
) -> None:
    """Wherever the threshold is; and the rule's placements are feasible."""
    problem = drawn(seed, guests, hosts, coarse=coarse)
    found = best_hosts(problem)
    assert found.gap <= 1e-6
    busy = np.random.default_rng(seed).random(hosts).tolist()
    ruled = least_loaded(problem, busy, threshold)
    assert total_rate(problem, ruled) <= found.total + 1e-9
    assert all(busy[host] < threshold for host in ruled if host is not None)


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 6))
@settings(max_examples=30)
def test_the_order_of_guests_and_hosts_does_not_matter(seed: int, guests: int, hosts: int) -> None:
    """To what the best placement is worth."""
    problem = drawn(seed, guests, hosts)
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(guests), random.permutation(hosts)
    other = Guests(problem.gpus[rows], problem.room[columns], problem.rate[np.ix_(rows, columns)])
    assert best_hosts(other).total == pytest.approx(best_hosts(problem).total)


def test_guests_go_to_the_least_busy_in_order_of_arrival() -> None:
    """The first takes a GPU that the second would need; the third finds none below 0.8."""
    problem = Guests(
        np.array([1, 2, 3]),
        np.array([2, 4, 4]),
        np.array([[1.0, 0.5, 0.9], [1.0, 0.5, 0.9], [1.0, 0.5, 0.9]]),
    )
    assert least_loaded(problem, [0.0, 0.5, 0.8]) == (0, 1, None)
    assert best_hosts(problem).choice == (2, 0, 2)


def test_without_anything_to_gain_nobody_is_a_guest() -> None:
    """No room, no memory, or no time left."""
    for room, rate in (([0], [[1.0]]), ([4], [[-np.inf]]), ([4], [[0.0]])):
        found = best_hosts(Guests(np.array([1]), np.array(room), np.array(rate)))
        assert (found.choice, found.total, found.bound, found.gap) == ((None,), 0.0, 0.0, 0.0)


def test_out_of_time_there_is_still_a_bound() -> None:
    """Data, no exception."""
    problem = drawn(1, 30, 10)
    found = best_hosts(problem, stop=Stop(seconds=1e-6))
    assert found.total <= best_hosts(problem).total <= found.bound
    assert found.limit is not None


@pytest.mark.parametrize(
    ("hosts", "complaint"),
    [
        ((0, 0), "Host 0 lacks 2 GPUs; expected at most one guest on a GPU"),
        ((2, None), "Guest 0 is on 2; expected 0 to 1"),
        ((None, 1), "Guest 1 is on host 1, where it cannot be"),
        ((0,), "There are 1 hosts; expected one or None for every guest"),
    ],
)
def test_wrong_placements_have_no_price(hosts: tuple[int | None, ...], complaint: str) -> None:
    """The checker says what is wrong."""
    problem = Guests(np.array([3, 3]), np.array([4, 4]), np.array([[1.0, 1.0], [1.0, -np.inf]]))
    with pytest.raises(ValueError, match=complaint):
        total_rate(problem, hosts)


@pytest.mark.parametrize(
    ("gpus", "room", "rate", "complaint"),
    [
        ([1], [1], [[1.5]], "rate is 1.5; expected a number from 0 to 1"),
        ([1], [1], [[np.nan]], "rate is nan"),
        ([1], [1], [], "rate has shape"),
        ([0], [1], [[1.0]], "gpus is 0; expected at least 1"),
        ([1], [-1], [[1.0]], "room is -1; expected at least 0"),
        ([1, 1], [1], [[1.0]], "expected 1 whole numbers"),
        ([1], [0.5], [[1.0]], "expected 1 whole numbers"),
    ],
)
def test_problems_that_make_no_sense_are_refused(
    gpus: Any, room: Any, rate: Any, complaint: str
) -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match=complaint):
        Guests(np.array(gpus), np.array(room), np.array(rate))
