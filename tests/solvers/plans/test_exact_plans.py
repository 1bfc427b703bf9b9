"""Rounds with execution plans, exactly: beside enumeration and the exact solver of rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from goodalloc.models import Rules
from goodalloc.models.plans import (
    Configuration,
    PlanJob,
    PlanRestarts,
    PlanRound,
    PlanState,
    Training,
    plan_instance,
    plan_violations,
)
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers import solve
from goodalloc.solvers.plans import ExactPlans, enumerate_plans, solve_plans

NODE_GPUS = {"a": 4, "b": 2}


def test_speeds_count_in_their_unit_and_lose_what_a_restart_costs() -> None:
    """Worked by hand: 30 s for each of two GPUs, of 900 s, after two restarts before."""
    one, two = Configuration("a", 1), Configuration("a", 2)
    job = PlanJob("x", Training("bert", "1.3B", 128), 0.0, 50.0, two)
    state = PlanState(job, {one: 0.5, two: 0.8}, one, 20.0, 900.0, 2)
    kept = (900.0 - 2 * 60.0) / (900.0 + 60.0)
    scales: dict[str, float] = {"request": 1 / 0.8, "least": 1 / 0.5, "examples": 128.0}
    for unit, scale in scales.items():
        found = enumerate_plans(
            PlanRound(0.0, {"a": 4}, (state,)),
            PlanRestarts(30.0, 100.0),
            unit,  # type: ignore[arg-type]
        )
        assert found.configuration == (None, one, two)
        assert found.speed == pytest.approx([0.0, 0.5 * scale, 0.8 * scale * kept])
        assert found.demand.tolist() == [[0, 1], [1, 0], [2, 1]]  # GPUs, and changes


def random_round(seed: int, jobs: int = 4, capacity: tuple[int, int] = (4, 4)) -> PlanRound:
    """Return a round of jobs with random speeds on some powers of two of two types."""
    random = np.random.default_rng(seed)
    free = dict(zip(NODE_GPUS, capacity, strict=True))
    states = []
    for index in range(jobs):
        options = [Configuration(kind, 1 << power) for kind in NODE_GPUS for power in range(3)]
        kept = [one for one in options if random.random() < 0.7] or options[:1]
        speeds = {one: float(random.uniform(0.2, 1.0) * one.gpus**0.7) for one in kept}
        held = None
        wanted = kept[int(random.integers(len(kept)))]
        if random.random() < 0.5 and free[wanted.gpu_type] >= wanted.gpus:
            held = wanted
            free[wanted.gpu_type] -= wanted.gpus
        request = kept[int(random.integers(len(kept)))]
        job = PlanJob(f"job{index}", Training("bert", "1.3B", 128 << index % 2), 0.0, 50.0, request)
        restarts = int(random.integers(3)) if held else -1
        states.append(PlanState(job, speeds, held, 20.0, 900.0 * (index + 1), restarts))
    return PlanRound(0.0, dict(zip(NODE_GPUS, capacity, strict=True)), tuple(states))


def best_by_enumeration(round_: PlanRound, power: float, floor: float, **given: object) -> float:
    """Return the greatest mean over all decisions."""
    unit, restarts = given.get("unit", "request"), given.get("restarts", PlanRestarts(0.0, 0.0))
    choices = enumerate_plans(round_, restarts, unit)  # type: ignore[arg-type]
    by_job = [np.flatnonzero(choices.job == job) for job in range(len(round_.jobs))]
    capacity = np.array([*round_.capacity.values()])
    best = 0.0
    for taken in itertools.product(*by_job):
        rows = list(taken)
        if (choices.demand[rows, :-1].sum(axis=0) <= capacity).all():
            best = max(best, float(power_mean(choices.speed[rows] + floor, power)))
    return best


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0, -1.0])
def test_decisions_are_those_of_the_enumeration(power: float) -> None:
    """Value and bound, for forty rounds of each power, with and without restarts."""
    for seed in range(40):
        round_ = random_round(seed)
        restarts = PlanRestarts(30.0, 100.0) if seed % 2 else PlanRestarts(0.0, 0.0)
        unit = ("request", "least", "examples")[seed % 3]
        answer = solve_plans(round_, power=power, floor=0.01, unit=unit, restarts=restarts)  # type: ignore[arg-type]
        best = best_by_enumeration(round_, power, 0.01, unit=unit, restarts=restarts)
        assert answer.fitness == pytest.approx(best, rel=2e-6)
        assert best <= answer.bound * (1 + 1e-9)
        assert answer.gap <= 1e-5
        assert plan_violations(round_, answer.decision) == []


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_decisions_are_those_of_the_exact_solver_of_rounds(power: float) -> None:
    """Which knows nodes: whatever adds up fits on nodes of powers of two of GPUs."""
    rules = Rules(power=power, floor=0.01, restart_delay=0.0, speedup_scale="job")
    rules = rules.replace(interference_avoidance=False)
    for seed in range(12):
        round_ = random_round(seed, jobs=6, capacity=(8, 4))
        answer = solve_plans(round_, power=power, floor=0.01)
        other = solve(plan_instance(round_, NODE_GPUS, rules))
        assert other.fitness == pytest.approx(answer.fitness, rel=1e-5)


def test_guaranteed_jobs_are_as_fast_as_requested_and_never_stopped() -> None:
    """Or keep what they hold."""
    for seed in range(40):
        round_ = random_round(seed)
        decision = solve_plans(round_, power=1.0, guaranteed=True).decision
        for state in round_.jobs:
            held = decision.get(state.job.name)
            if held is None:
                assert state.held is None
            elif held != state.held:
                assert state.speeds[held] >= state.requested_speed * (1 - 1e-9)


def test_large_rounds_are_proved() -> None:
    """Two hundred jobs on four hundred GPUs, to a millionth."""
    round_ = random_round(0, jobs=200, capacity=(256, 128))
    for power in (1.0, 0.0, -1.0):
        assert solve_plans(round_, power=power).gap <= 2e-6


def test_short_jobs_come_first_where_what_remains_is_told() -> None:
    """Two equal jobs for one GPU."""
    one = Configuration("a", 1)
    jobs = [
        PlanJob(name, Training("bert", "1.3B", 128), 0.0, 9e4, one) for name in ("long", "short")
    ]
    states = tuple(
        PlanState(job, {one: 1.0}, None, left, 60.0, -1)
        for job, left in zip(jobs, (9e4, 1e3), strict=True)
    )
    round_ = PlanRound(0.0, {"a": 1}, states)
    assert set(ExactPlans(1.0, remaining=True).decide(round_)) == {"short"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"power": 2.0}, "power is 2"),
        ({"power": -2.0}, "power"),
        ({"power": float("nan")}, "power"),
        ({"floor": 0.0}, "floor"),
        ({"unit": "steps"}, "unit"),
    ],
)
def test_arguments_out_of_range_are_refused(given: dict[str, object], complaint: str) -> None:
    """In one sentence each."""
    with pytest.raises(ValueError, match=complaint):
        solve_plans(random_round(0), **given)  # type: ignore[arg-type]


def test_a_round_without_jobs_is_refused() -> None:
    """There is nothing to decide."""
    with pytest.raises(ValueError, match="has no jobs"):
        solve_plans(PlanRound(0.0, {"a": 4}, ()))
