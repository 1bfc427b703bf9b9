"""Bound on jobs whose rates stay the same: sound, and as good as it should be."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from goodalloc.formulations.hindsight import price_edges, steady_bound
from goodalloc.models.hindsight import (
    Configurations,
    OfflineJob,
    OfflineProblem,
    SteadyJobs,
    Supply,
    Training,
)
from goodalloc.solvers.hindsight import find_schedule, hindsight_bound, stages_to
from goodalloc.solvers.interface import Stop
from goodalloc.solvers.steady_jobs import steady_jobs_bound
from goodalloc.solvers.steady_jobs.smoothed_bound import SmoothedBound


def random_problem(rng: np.random.Generator, jobs: int = 3) -> SteadyJobs:
    """Return jobs of few units of work, in configurations with one or two of two resources."""
    supply = rng.integers(1, 4, 2)
    kinds = []
    for index in range(2):
        uses = rng.integers(0, supply + 1, (rng.integers(1, 4), 2))
        uses[uses.sum(axis=1) == 0, 0] = 1
        rates = rng.integers(1, 4, len(uses)).astype(float)
        delays = rng.integers(0, 2, len(uses)).astype(float) if jobs < 3 else 0.0
        kinds.append(Configurations(f"kind-{index}", rates, uses.astype(float), delays))
    release = rng.integers(0, 3, jobs).astype(float)
    return SteadyJobs(
        tuple(kinds),
        rng.integers(0, 2, jobs),
        rng.integers(1, 6, jobs).astype(float),
        release,
        release + rng.integers(0, 2, jobs).astype(float),
        rng.integers(1, 4, jobs) / jobs,
        supply.astype(float),
    )


def least_slotted(problem: SteadyJobs) -> float:
    """Return the least objective of all schedules that change at whole seconds only."""
    kinds = [problem.kinds[kind] for kind in problem.kind.tolist()]
    delays = [np.asarray(kind.delays).tolist() for kind in kinds]
    alone = [
        (delay + np.ceil(work / kind.rates)).min()
        for kind, delay, work in zip(kinds, delays, problem.work, strict=True)
    ]
    last = int(problem.begin.max() + np.sum(alone))  # by then all can be done, one after the other

    def ways(job: int, now: int, left: float) -> range:
        """Return the configurations that a job can have, -1 for none."""
        able = left > 0 and problem.begin[job] <= now
        return range(-1, kinds[job].rates.size if able else 0)

    @cache
    def cost(now: int, states: tuple[tuple[float, int, float], ...]) -> float:
        """Return the least from `now` on; a job has work left, a configuration, and a delay."""
        if not any(left for left, _, _ in states):
            return 0.0
        best = np.inf
        for chosen in product(*(ways(job, now, rest[0]) for job, rest in enumerate(states))):
            held, after, paid = np.zeros(problem.supply.size), list(states), 0.0
            for job, way in enumerate(chosen):
                left, before, delay = states[job]
                if way < 0:
                    after[job] = (left, -1, 0.0)
                    continue
                held += kinds[job].uses[way]
                waits = delay if way == before else delays[job][way]
                if waits:
                    after[job] = (left, way, waits - 1)
                    continue
                seconds = min(left / kinds[job].rates[way], 1.0)
                left = max(left - kinds[job].rates[way], 0.0)
                after[job] = (left, way if left and any(delays[job]) else -1, 0.0)
                ended = problem.weight[job] * (now + seconds - problem.release[job])
                paid += 0.0 if left else ended
            if now < last and (held <= problem.supply).all() and paid < best:
                best = min(best, paid + cost(now + 1, tuple(after)))
        return best

    return cost(0, tuple((left, -1, 0.0) for left in problem.work.tolist()))


def check_random_prices(seed: int) -> float:
    """Assert that a problem's bound at random prices is below its optimum; return their ratio."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, jobs=int(rng.integers(1, 4)))
    best, bounds = least_slotted(problem), []
    for _ in range(4):
        lengths = rng.uniform(0.3, 3.0, rng.integers(1, 9))
        lengths = np.ceil(lengths) if rng.random() < 0.5 else lengths  # jobs begin on edges
        edges = np.concatenate([[0.0], np.cumsum(lengths)])
        prices = rng.exponential(0.2, (edges.size - 1, 2)) * (rng.random((edges.size - 1, 2)) < 0.7)
        bounds.append(steady_bound(problem, edges, prices, multipliers=30))
        assert bounds[-1] <= best * (1 + 1e-9)
    assert problem.lone_value <= best * (1 + 1e-9)
    return max(bounds) / best


def test_no_prices_prove_more_than_the_optimum() -> None:
    """Of two resources, on tiny problems; and some prove most of it."""
    shares = [check_random_prices(seed) for seed in range(60)]
    assert 0.4 < np.mean(shares) < 1.0


@pytest.mark.slow
def test_no_prices_prove_more_than_the_optimum_of_thousands_of_problems() -> None:
    """No violation on 2,000 problems with four prices each."""
    assert np.mean([check_random_prices(seed) for seed in range(1000, 3000)]) < 1.0


@pytest.mark.parametrize(
    ("seed", "interval"),
    [
        (1, 1.0),
        *(pytest.param(seed, 0.25, marks=pytest.mark.slow) for seed in range(12)),
    ],
)
def test_the_search_comes_near_the_optimum(seed: int, interval: float) -> None:
    """And stays below it."""
    problem = random_problem(np.random.default_rng(seed))
    best = least_slotted(problem)
    found = steady_jobs_bound(problem, interval)
    lone = problem.lone_value * (1 - 1e-9)
    assert max(0.8 * best, lone) <= found.value <= best * (1 + 1e-9)
    assert found.value == steady_bound(problem, found.edges, found.prices)


def machine(works: list[float], releases: list[float], gpus: float = 1.0) -> SteadyJobs:
    """Return jobs of one GPU each on some GPUs; the objective is the sum of completion times."""
    kind = Configurations("one", np.ones(1), np.ones((1, 1)))
    release, ones = np.array(releases), np.ones(len(works))
    return SteadyJobs(
        (kind,), np.zeros(ones.size, int), np.array(works), release, release, ones, np.array([gpus])
    )


@pytest.mark.slow
def test_on_one_machine_it_comes_to_the_shortest_job_first() -> None:
    """All there from the start: 10, 30, 60, 100 and 150 s."""
    found = steady_jobs_bound(machine([10.0, 20.0, 30.0, 40.0, 50.0], [0.0] * 5), 2.0)
    assert 0.97 * 350.0 < found.value <= 350.0


def proven_by_nothing(problem: SteadyJobs, interval: float) -> float:
    """Return the bound of prices of nothing."""
    edges = price_edges(problem, interval)
    return steady_bound(problem, edges, np.zeros((edges.size - 1, problem.supply.size)))


def short_and_long() -> SteadyJobs:
    """Return two jobs, one of them long, that may start soon or run fast, on GPUs for both."""
    kind = Configurations(
        "one", np.array([1.0, 2.0]), np.array([[1.0], [2.0]]), np.array([10.0, 40.0])
    )
    zeros, ones = np.zeros(2), np.ones(2)
    return SteadyJobs(
        (kind,), np.array([0, 0]), np.array([30.0, 200.0]), zeros, zeros, ones, np.array([4.0])
    )


def test_a_job_alone_takes_the_delay_and_the_rate_of_its_best_configuration() -> None:
    """Short jobs the one that starts soon, long jobs the fast one; both are a schedule's."""
    problem = short_and_long()
    assert problem.first_work.tolist() == [10.0, 10.0]
    assert problem.first_end.tolist() == [40.0, 140.0]
    assert proven_by_nothing(problem, 5.0) == pytest.approx(180.0, rel=1e-9)


def test_with_resources_for_all_prices_of_nothing_prove_the_time_of_the_jobs_alone() -> None:
    """That is the optimum there."""
    problem = machine([10.0, 20.0, 5.0], [0.0, 3.0, 40.0], gpus=3.0)
    assert proven_by_nothing(problem, 5.0) == pytest.approx(35.0, rel=1e-9)


@pytest.mark.slow
def test_with_resources_for_all_the_search_finds_the_time_of_the_jobs_alone() -> None:
    """Of two rounds, which differ in shape."""
    assert steady_jobs_bound(short_and_long(), 5.0).value == pytest.approx(180.0, rel=1e-9)
    problem = machine([10.0, 20.0, 5.0], [0.0, 3.0, 40.0], gpus=3.0)
    assert steady_jobs_bound(problem, 5.0).value == pytest.approx(35.0, rel=1e-9)


def same_jobs(number: int) -> tuple[SteadyJobs, OfflineProblem]:
    """Return jobs on two types of GPU, and the offline problem of the same jobs in one phase."""
    rng = np.random.default_rng(5)
    works, release = rng.uniform(500.0, 8000.0, number), np.sort(rng.uniform(0.0, 4000.0, number))
    gpus = np.array([1.0, 2.0, 4.0])
    rates = np.array([[1.0, 1.8, 3.0], [2.0, 3.4, 5.0]])
    uses = np.array([[k * (row == 0), k * (row == 1)] for row in range(2) for k in gpus.tolist()])
    problem = SteadyJobs(
        (Configurations("one", rates.ravel(), uses),),
        np.zeros(number, int),
        works,
        release,
        release,
        np.full(number, 1 / number),
        np.array([4.0, 4.0]),
    )
    trainings = tuple(
        Training(f"of-{i}", np.array([work]), gpus, rates[:, None]) for i, work in enumerate(works)
    )
    jobs = tuple(
        OfflineJob(f"job-{i}", f"of-{i}", time, time, 1 / number)
        for i, time in enumerate(release.tolist())
    )
    return problem, OfflineProblem(trainings, jobs, Supply.constant({"a": 4.0, "b": 4.0}))


def test_at_equal_prices_it_is_that_of_the_offline_problem_with_one_phase() -> None:
    """Two types of GPU, six jobs; what they take alone is far below."""
    problem, phased = same_jobs(6)
    bound = hindsight_bound(phased, stages_to(100.0))
    mine = steady_bound(problem, bound.edges, bound.prices)
    assert mine == pytest.approx(bound.value, rel=2e-3)
    assert problem.lone_value < 0.9 * mine


@pytest.mark.slow
def test_it_is_that_of_the_offline_problem_with_one_phase() -> None:
    """Two types of GPU, twelve jobs: two searches, nearly the same bound, below a schedule."""
    problem, phased = same_jobs(12)
    mine = steady_jobs_bound(problem, 100.0).value
    bound = hindsight_bound(phased, stages_to(100.0))
    found = find_schedule(phased, bound, clock=100.0, stop=Stop(iterations=50))
    assert 0.99 * bound.value < mine < min(1.05 * bound.value, found.value)


def test_the_gradient_is_that_of_differences() -> None:
    """Of the smoothed bound, which is below the bound with the same multipliers."""
    problem = random_problem(np.random.default_rng(11))
    edges = price_edges(problem, 2.0)
    prices = np.random.default_rng(0).uniform(0.05, 0.3, (edges.size - 1, 2))
    smoothed = SmoothedBound(problem, edges, 20, np.full(3, np.inf))
    value, slope = smoothed(prices, 0.1)
    assert value <= steady_bound(problem, edges, prices, multipliers=20) + 1e-9
    for at in np.ndindex(*prices.shape):
        step = np.zeros_like(prices)
        step[at] = 1e-6
        ends = [smoothed(prices + sign * step, 0.1)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope[at], abs=1e-5)


def test_ends_that_are_not_looked_at_cost_their_time_alone() -> None:
    """So the smoothed bound stays below that of the prices, whichever are left out."""
    rng = np.random.default_rng(4)
    problem, edges = random_problem(rng), np.arange(0.0, 60.0, 2.0)
    prices = rng.uniform(0.0, 0.3, (edges.size - 1, 2)) * (edges[1:, None] < 20.0)
    least = steady_bound(problem, edges, prices, multipliers=20)
    whole = SmoothedBound(problem, edges, 20, np.full(3, np.inf))(prices, 1e-3)[0]
    part = SmoothedBound(problem, edges, 20, rng.uniform(0.0, 20.0, 3))(prices, 1e-3)[0]
    assert part <= whole + 1e-9
    assert whole <= least + 1e-8
    assert whole == pytest.approx(least, abs=0.03)


def test_a_search_that_is_stopped_returns_a_bound() -> None:
    """The jobs alone at least."""
    problem = machine([60.0, 60.0], [0.0, 0.0])
    found = steady_jobs_bound(problem, 10.0, Stop(seconds=1e-9))
    assert problem.lone_value * (1 - 1e-9) <= found.value
    assert found.value < steady_jobs_bound(problem, 10.0).value <= 180.0


GOOD = {
    "kinds": (Configurations("one", np.array([1.0, 2.0]), np.array([[1.0, 0.0], [1.0, 1.0]])),),
    "kind": [0, 0],
    "work": [5.0, 6.0],
    "release": [0.0, 1.0],
    "begin": [0.0, 2.0],
    "weight": [1.0, 1.0],
    "supply": [2.0, 2.0],
}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", [0, 1], "kinds of jobs are"),
        ("kind", [0], "kinds of jobs are"),
        ("kind", [False, True], "kinds of jobs are"),
        ("kind", [0.0, 0.0], "kinds of jobs are"),
        ("work", [5.0, 0.0], "work is 0"),
        ("work", [], "there are no jobs"),
        ("release", [0.0, np.nan], "release is nan"),
        ("release", [-1.0, 1.0], "release is -1"),
        ("begin", [0.0, 0.5], "begin is 0.5"),
        ("weight", [1.0, np.inf], "weight is inf"),
        ("weight", [1.0], "shape"),
        ("supply", [2.0], "uses are"),
        ("supply", [2.0, 0.5], "uses are"),
        ("supply", [2.0, 0.0], "supply is 0"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(field: str, value: object, message: str) -> None:
    """In a sentence that names the number."""
    SteadyJobs(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        SteadyJobs(**{**GOOD, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rates", "uses", "delays", "message"),
    [
        ([], np.zeros((0, 1)), 0.0, "at least one"),
        ([1.0], [1.0], 0.0, "a row of resources"),
        ([1.0, 2.0], [[1.0]], 0.0, "shape"),
        ([0.0], [[1.0]], 0.0, "rate is 0"),
        ([1.0], [[-1.0]], 0.0, "a use is -1"),
        ([1.0], [[np.nan]], 0.0, "a use is nan"),
        ([1.0], [[1.0]], -5.0, "delay is -5"),
        ([1.0], [[1.0]], [np.nan], "delay is nan"),
        ([1.0], [[1.0]], [1.0, 2.0], "shape"),
        ([1.0], [[1.0]], "long", "expected an array of numbers"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(
    rates: object, uses: object, delays: object, message: str
) -> None:
    """In a sentence that names the number."""
    with pytest.raises(ValueError, match=message):
        Configurations("one", rates, uses, delays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edges", "prices", "message"),
    [
        ([0.0, 5.0], [[-0.1]], "a price is -0.1"),
        ([0.0, 5.0], [[np.nan]], "a price is nan"),
        ([0.0, 5.0], [[0.1], [0.1]], "shape"),
        ([0.0, 5.0, 5.0], [[0.1], [0.1]], "ascend from 0"),
        ([1.0, 5.0], [[0.1]], "ascend from 0"),
        ([0.0], np.zeros((0, 1)), "ascend from 0"),
        ([], np.zeros((0, 1)), "ascend from 0"),
        ([0.0, np.nan], [[0.1]], "ascend from 0"),
        ([0.0, np.inf], [[0.1]], "ascend from 0"),
        ([[0.0, 5.0]], [[0.1]], "ascend from 0"),
        ("soon", [[0.1]], "expected an array of numbers"),
    ],
)
def test_prices_that_prove_nothing_are_refused(edges: object, prices: object, message: str) -> None:
    """Negative ones above all."""
    with pytest.raises(ValueError, match=message):
        steady_bound(machine([5.0], [0.0]), edges, prices)  # type: ignore[arg-type]


def test_too_few_multipliers_are_refused() -> None:
    """A sequence needs two besides 0."""
    with pytest.raises(ValueError, match="multipliers is 2"):
        steady_bound(machine([5.0], [0.0]), np.array([0.0, 5.0]), np.ones((1, 1)), multipliers=2)


def test_intervals_of_no_length_are_refused() -> None:
    """Before anything is compiled."""
    with pytest.raises(ValueError, match="interval is 0"):
        steady_jobs_bound(machine([5.0], [0.0]), 0.0)
