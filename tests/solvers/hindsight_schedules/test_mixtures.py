"""Mixtures of whole schedules: above every bound by prices, and below every schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight.best_prices import hindsight_bound, stages_to
from goodalloc.solvers.hindsight.rounds_with_restarts import round_job_bounds
from goodalloc.solvers.hindsight_schedules.mixtures import cheapest_mixture
from goodalloc.solvers.interface.stop import Stop
from tests.support.few import few
from tests.support.hindsight.lone_rounds import drawn_in_rounds
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, edges_of, tiny_trace


@pytest.mark.parametrize("seed", few([3, 0, 1, 2, 4, 5], 2))
def test_no_prices_bound_schedules_in_rounds_above_the_mixture(seed: int) -> None:
    """Two hundred random ones, and those that the search ends with, which come close."""
    problem, bound, rounds = drawn_in_rounds(seed)
    supply = Supply.constant(dict.fromkeys(problem.supply.types, 2.0))  # so that GPUs are scarce
    problem = replace(problem, supply=supply)
    there = problem.supply.mean(bound.edges) * np.diff(bound.edges)[:, None]
    found = cheapest_mixture(problem, rounds, bound.edges, bound.prices, close=1e-6)

    def proved(prices: np.ndarray) -> float:
        free = replace(bound, prices=prices, job_bounds=np.full(len(problem.jobs), -np.inf))
        by_job = round_job_bounds(problem, free, rounds, spacing=0.5)
        return float(by_job.sum() - (there * prices).sum())

    random = np.random.default_rng(seed)
    for _ in range(200):
        prices = random.gamma(0.5, 0.3, bound.prices.shape) * random.choice([0.1, 0.5, 1.0])
        assert proved(prices) <= found.value * (1 + 1e-9)
    best = proved(found.prices)
    assert 0.95 * found.value < best <= found.priced * (1 + 1e-9)
    assert found.priced <= found.value * (1 + 1e-9)


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_the_mixture_is_between_the_bound_and_the_best_schedule(seed: int) -> None:
    """Of a tiny trace whose GPUs change at the edges of rounds."""
    problem = tiny_trace(seed)
    rounds = Rounds(UNIT, {training.name: 0.0 for training in problem.trainings})
    bound = hindsight_bound(problem, stages_to(UNIT))
    found = cheapest_mixture(problem, rounds, bound.edges, bound.prices, close=1e-5)
    best, _ = optimum(problem, edges_of(problem))
    assert bound.value <= found.value * (1 + 1e-9)
    assert found.value <= best * (1 + 1e-4)


def three_jobs() -> tuple[OfflineProblem, Rounds, np.ndarray]:
    """Three jobs that take three GPUs for a round each, two nodes of four, and three rounds."""
    training = Training("one", np.array([60.0]), np.array([3.0]), np.array([[[1.0]]]))
    jobs = tuple(OfflineJob(name, "one", 0.0, 0.0) for name in ("a", "b", "c"))
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 8.0}))
    return problem, Rounds(60.0, {"one": 0.0}), np.array([0.0, 60.0, 120.0, 180.0])


def test_nodes_make_the_mixture_dearer_where_pieces_do_not_fit_together() -> None:
    """Eight thirds of the jobs end in the first round, on nodes two of them."""
    problem, rounds, edges = three_jobs()
    pooled = cheapest_mixture(problem, rounds, edges, np.ones((3, 1)), close=1e-6)
    on_nodes = cheapest_mixture(problem, rounds, edges, np.ones((3, 1)), per_node=4, close=1e-6)
    assert pooled.value == pytest.approx(60.0 * 8 / 3 + 120.0 / 3)
    assert on_nodes.value == pytest.approx(60.0 * 2 + 120.0)
    assert on_nodes.prices.shape == (3, 2)


def test_a_search_without_time_returns_what_it_has() -> None:
    """Jobs that never run, of which a mixture consists from the start."""
    problem, rounds, edges = three_jobs()
    found = cheapest_mixture(problem, rounds, edges, np.ones((3, 1)), stop=Stop(seconds=1e-9))
    assert found.value == 3 * 180.0
    assert found.steps == 0


def test_progress_is_told_up_to_the_end() -> None:
    """In shares that ascend to one, in no more steps than are allowed."""
    problem, rounds, edges = three_jobs()
    shares: list[float] = []
    found = cheapest_mixture(
        problem, rounds, edges, np.ones((3, 1)), steps=2, close=0.0, report=shares.append
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert found.steps <= 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, "Mixture: steps"),
        ({"steps": 1.5}, "Mixture: steps"),
        ({"close": -1e-3}, "Mixture: close"),
        ({"close": float("nan")}, "Mixture: close"),
        ({"per_node": 0}, "GPUs of a node is 0; expected"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float], sentence: str) -> None:
    """In a sentence that names the option."""
    problem, rounds, edges = three_jobs()
    with pytest.raises(ValueError, match=sentence):
        cheapest_mixture(problem, rounds, edges, np.ones((3, 1)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prices", "sentence"),
    [
        (np.ones(3), "Mixture: prices have shape"),
        (np.ones((3, 2)), "Mixture: prices have shape"),
        (np.full((3, 1), -1.0), "a price is -"),
        (np.full((3, 1), np.nan), "a price is nan"),
    ],
)
def test_prices_that_make_no_sense_are_refused(prices: np.ndarray, sentence: str) -> None:
    """Also with a price of nodes."""
    problem, rounds, edges = three_jobs()
    for per_node in (None, 4):
        with pytest.raises(ValueError, match=sentence):
            cheapest_mixture(problem, rounds, edges, prices, per_node=per_node)
