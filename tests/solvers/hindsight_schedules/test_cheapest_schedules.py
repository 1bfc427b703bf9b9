"""Cheapest schedules of jobs alone in rounds: real ones, and no dearer than they have to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight_schedules.cheapest_schedules import CheapestSchedules, of_nodes
from tests.support.hindsight.lone_rounds import cheapest_by_enumeration, drawn_in_rounds


def excesses(seed: int) -> list[float]:
    """By what part the schedules of drawn jobs are dearer than the cheapest by enumeration."""
    problem, bound, rounds = drawn_in_rounds(seed)
    found = CheapestSchedules(problem, rounds, bound.edges).at(bound.prices)
    paid = found.costs + (found.taken * bound.prices).sum(axis=(1, 2))
    least = [cheapest_by_enumeration(problem, bound.prices, rounds, job) for job in problem.jobs]
    return [float(one) for one in paid / np.array(least) - 1.0]


def test_schedules_are_as_cheap_as_the_cheapest_sequence_of_gpus() -> None:
    """Never cheaper, as they would be if progress or GPUs were lost; on most jobs the same."""
    found = [excess for seed in range(12) for excess in excesses(seed)]
    assert min(found) > -1e-9
    assert np.mean([excess < 1e-9 for excess in found]) > 0.6
    assert max(found) < 0.15


def test_a_job_pays_for_its_first_start_and_for_changes() -> None:
    """It holds GPUs in its first round while it waits, and takes all that cost nothing."""
    training = Training("one", np.array([90.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    jobs = (OfflineJob("a", "one", 5.0, 50.0),)
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    edges = np.array([0.0, 60.0, 120.0, 600.0])
    found = CheapestSchedules(problem, Rounds(60.0, {"one": 30.0}), edges).at(np.zeros((3, 1)))
    assert found.costs.tolist() == [pytest.approx(50.0 + 90.0 / 1.5 - 5.0)]
    assert found.taken[0, :, 0].tolist() == pytest.approx([120.0, 100.0, 0.0])


def test_a_job_that_gpus_are_too_dear_for_ends_with_the_prices() -> None:
    """It takes none of them."""
    training = Training("one", np.array([90.0]), np.array([1.0]), np.array([[[1.0]]]))
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "one", 0.0, 0.0),), Supply.constant({"t4": 2.0})
    )
    cheapest = CheapestSchedules(problem, Rounds(60.0, {"one": 0.0}), np.array([0.0, 600.0]))
    dear = np.full((1, 1), 100.0)
    assert cheapest.at(dear).costs.tolist() == cheapest.idle().costs.tolist() == [600.0]
    assert not cheapest.at(dear).taken.any()


@given(
    st.integers(1, 9).flatmap(
        lambda per_node: st.tuples(
            st.just(per_node),
            st.lists(st.lists(st.integers(1, per_node), max_size=per_node), max_size=8),
            st.integers(0, 3),
        )
    )
)
def test_jobs_on_as_few_nodes_as_they_can_be_take_no_more_gpus_of_nodes_than_there_are(
    drawn: tuple[int, list[list[int]], int],
) -> None:
    """Pieces of jobs on each node, beside whole nodes of the first of them."""
    per_node, drawn_nodes, whole = drawn
    nodes = [
        [piece for piece, so_far in zip(node, np.cumsum(node), strict=True) if so_far <= per_node]
        for node in drawn_nodes
    ]
    jobs = [piece for node in nodes for piece in node]
    number = len(nodes)
    if jobs:
        jobs[0] += whole * per_node
        number += whole
    assert of_nodes(np.array(jobs, dtype=float), per_node).sum() <= per_node * number


@pytest.mark.parametrize("per_node", [0, -4, 1.5])
def test_nodes_without_whole_gpus_are_refused(per_node: int) -> None:
    """By their number."""
    with pytest.raises(ValueError, match=f"GPUs of a node is {per_node}; expected"):
        of_nodes(np.ones(2), per_node)


def test_a_restart_that_is_not_told_is_refused() -> None:
    """By the name of the training."""
    problem, bound, _ = drawn_in_rounds(0)
    with pytest.raises(ValueError, match="training 'one' has no restart"):
        CheapestSchedules(problem, Rounds(10.0, {"two": 3.0}), bound.edges)


@pytest.mark.parametrize(
    "edges", [[0.0], [1.0, 2.0], [0.0, 60.0, 60.0], [0.0, float("inf")], [0.0, float("nan"), 60.0]]
)
def test_edges_that_do_not_ascend_from_nothing_are_refused(edges: list[float]) -> None:
    """Told as they are."""
    problem, _, rounds = drawn_in_rounds(0)
    with pytest.raises(ValueError, match=r"Schedules: edges are .*; expected finite numbers"):
        CheapestSchedules(problem, rounds, np.array(edges))


def test_edges_within_a_round_are_refused() -> None:
    """A round would pay two prices."""
    problem, _, _ = drawn_in_rounds(0)
    with pytest.raises(ValueError, match="an edge is at 90 s; expected multiples of a round of 60"):
        CheapestSchedules(problem, Rounds(60.0, {"one": 3.0}), np.array([0.0, 90.0, 120.0]))


@pytest.mark.parametrize(
    ("prices", "sentence"),
    [
        (np.zeros(3), "Schedules: prices have shape"),
        (np.zeros((3, 2)), "Schedules: prices have shape"),
        (np.full((3, 1), -1.0), "Schedules: a price is -1; expected finite numbers from 0"),
        (np.full((3, 1), np.nan), "Schedules: a price is nan"),
        (np.full((3, 1), np.inf), "Schedules: a price is inf"),
    ],
)
def test_prices_that_make_no_sense_are_refused(prices: np.ndarray, sentence: str) -> None:
    """By their shape, or the first that is wrong."""
    training = Training("one", np.array([90.0]), np.array([1.0]), np.array([[[1.0]]]))
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "one", 0.0, 0.0),), Supply.constant({"t4": 2.0})
    )
    edges = np.array([0.0, 60.0, 120.0, 180.0])
    cheapest = CheapestSchedules(problem, Rounds(60.0, {"one": 0.0}), edges)
    with pytest.raises(ValueError, match=sentence):
        cheapest.at(prices)


def test_a_job_that_begins_behind_the_last_price_costs_nothing() -> None:
    """As in the bounds, where it costs what it has waited until then."""
    training = Training("one", np.array([90.0]), np.array([1.0]), np.array([[[1.0]]]))
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "one", 500.0, 500.0),), Supply.constant({"t4": 2.0})
    )
    cheapest = CheapestSchedules(problem, Rounds(60.0, {"one": 0.0}), np.array([0.0, 120.0]))
    assert cheapest.at(np.zeros((1, 1))).costs.tolist() == [0.0]
