"""No replay is below the bound, whatever the policy: thousands of tiny ones.

Jobs are shortened trainings, so that a replay has tens of rounds; nodes, rounds, restarts and
outages differ.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.application import ProfiledApplication
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.experiments.replay_bound.replay_rounds import rounds_of_replay
from goodalloc.experiments.studies.steady_jobs.day_optimum import policies_alone
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.hindsight.free_multipliers import with_free_multipliers
from goodalloc.solvers.hindsight.round_prices import round_prices
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

#: Policies whose decisions take longest.
LONG = ("pollux-genetic",)

#: Policies that rent no nodes and give every GPU to one job at a time.
ALONE = policies_alone()

#: Traces of a test, and of one that is marked slow: 2,000 replays in all.
FEW, MANY = 3, 56

#: For so many and for those of slow tests, prices are searched for replays, which compiles.
SEARCHED = 1

QUICK = (Stage(120.0, (30.0, 8.0), 10),)


@cache
def shortened(name: str, times: float) -> ProfiledApplication:
    """An application whose training is so many times shorter."""
    profile = load_profile(name)
    return ProfiledApplication(replace(profile, total_progress=profile.total_progress / times))


APPLICATIONS = {"ncf": shortened("ncf", 1.5), "cifar10": shortened("cifar10", 8.0)}


def tiny_day(seed: int) -> tuple[tuple[Submission, ...], Setting]:
    """Two to four jobs within minutes on up to six GPUs, and the conditions of their replay."""
    random = np.random.default_rng(seed)
    nodes, gpus = ((1, 2), (1, 4), (2, 2), (3, 2))[int(random.integers(4))]
    cluster = Cluster.uniform(nodes, gpus)
    lost = (Outage(120, 300, 1),) if nodes > 1 and random.random() < 0.3 else ()
    setting = Setting(
        cluster,
        interval=int(random.choice([30, 60])),
        restart_delay=float(random.choice([5.0, 30.0])),
        outages=lost,
    )
    jobs = []
    for index in range(int(random.integers(2, 5))):
        name = str(random.choice([*APPLICATIONS]))
        replicas, limits = int(random.integers(1, 3)), APPLICATIONS[name].batch
        least = max(int(limits.initial), int(limits.atomic_minimum) * replicas)
        batch = min(least * int(random.choice([1, 4, 16])), int(limits.maximum))
        time = int(random.integers(0, 240))
        jobs.append(Submission(f"job {index}", time, name, replicas, batch))
    return tuple(sorted(jobs, key=lambda job: job.time)), setting


@cache
def bounds_of(seed: int) -> tuple[float, float]:
    """The bounds of a tiny day on schedules and on replays, as the stand-alone checkers prove."""
    jobs, setting = tiny_day(seed)
    problem = replayed_problem(jobs, APPLICATIONS, setting)
    bound = with_free_multipliers(problem, hindsight_bound(problem, QUICK))
    rounds = rounds_of_replay(problem, APPLICATIONS, setting)
    told: list[Floats | None] = [None]
    if seed < SEARCHED or seed >= FEW:
        told.append(round_prices(problem, bound, rounds, steps=5))
    on_replays = max(
        float(replay_bound_document(problem, bound, rounds, prices)["bound"]) for prices in told
    )
    return float(bound_document(problem, bound)["bound"]), on_replays


def average(policy: str, seed: int) -> float:
    """The average completion time of a replay of a tiny day."""
    jobs, setting = tiny_day(seed)
    simulator = Simulator(jobs, APPLICATIONS, make_policy(policy), setting)
    while not simulator.finished:
        simulator.step()
    ends = {job.submission.name: job.completion for job in simulator.jobs}
    completions = [end - job.time for job in jobs if (end := ends[job.name]) is not None]
    assert len(completions) == len(jobs)
    return float(np.mean(completions))


def shares(policy: str, seeds: range) -> list[float]:
    """The bound on replays over the average of each; above 1 nowhere, or else the day is told."""
    found = []
    for seed in seeds:
        on_schedules, on_replays = bounds_of(seed)
        found.append(on_replays / average(policy, seed))
        assert 0.0 < on_schedules <= on_replays * (1 + 1e-9), seed
        assert found[-1] <= 1.0, seed
    return found


def test_so_many_policies_and_days_are_two_thousand_replays() -> None:
    """And more than 100 without those that are marked slow."""
    assert len(ALONE) * (FEW + MANY) > 2000
    assert (len(ALONE) - len(LONG)) * FEW + len(LONG) > 100


@pytest.mark.parametrize("policy", ALONE)
def test_no_replay_of_a_tiny_day_is_below_the_bound(policy: str) -> None:
    """Under every policy that ships and gives a GPU to one job at a time."""
    shares(policy, range(1 if policy in LONG else FEW))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ALONE)
def test_no_replay_of_many_tiny_days_is_below_the_bound(policy: str) -> None:
    """The same, on other days."""
    shares(policy, range(FEW, FEW + MANY))


def test_the_bounds_of_tiny_days_are_not_idle() -> None:
    """On average more than half of what Pollux reaches with its restarts."""
    assert np.mean(shares("pollux", range(3))) > 1 / 2
