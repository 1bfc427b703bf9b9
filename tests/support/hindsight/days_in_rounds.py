"""Tiny days whose replays a time-indexed program has, and nothing that no replay could do.

A replay changes the GPUs of jobs between rounds only, and the rates of these jobs depend on nothing
but the number of their GPUs and the type of these. So the program with an edge at every round has
every replay. Restarts come on top of it; where they cost nothing, its optimum is one of replays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.applications.application import StepTimes
from goodalloc.data.workloads.rigid_jobs import RigidJob
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.hindsight.problem_of_replay import supply_of
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Spread

#: Seconds of a round.
ROUND = 60

#: Steps of an epoch of a job that may have any number of GPUs.
EPOCH = 60

#: Nodes and GPUs of each, where all are equal.
SHAPES = ((1, 2), (1, 3), (1, 4), (2, 2))

#: Examples of every step: any number of GPUs of the clusters divides it.
BATCH = 12


class RigidDay(NamedTuple):
    """Jobs that take their GPUs, all or none, and the problem that bounds their replays."""

    problem: OfflineProblem
    jobs: tuple[RigidJob, ...]
    cluster: Cluster
    restart: float

    def average(self, policy: str) -> float:
        """Return the average completion time under a policy."""
        made = make_policy(policy)
        done = RateSimulator(self.jobs, None, self.cluster, made, ROUND, self.restart).run()
        assert len(done) == len(self.jobs)
        return float(np.mean([one.jct for one in done]))


def rigid_day(seed: int) -> RigidDay:
    """Draw two, three or seldom four jobs on up to four GPUs; most of them take whole rounds.

    A first start costs nothing, so that a job can train from the first decision on.
    """
    random = np.random.default_rng([seed, 1])
    nodes, gpus = SHAPES[int(random.integers(len(SHAPES)))]
    restart = float(random.choice([0.0, 0.0, 0.0, 30.0]))
    jobs = []
    for index in range(int(random.choice([2, 2, 2, 3, 3, 3, 3, 4]))):
        seconds = float(ROUND * random.integers(1, 4))
        if random.random() < 0.3:
            seconds = float(random.integers(1, 3 * ROUND))
        time, gang = float(random.integers(0, 3 * ROUND)), int(random.integers(1, nodes * gpus + 1))
        jobs.append(RigidJob(f"job {index}", time, gang, seconds, seconds))
    alike = np.ones((1, 1, 1))
    trainings = tuple(
        Training(job.name, np.array([job.seconds]), np.array([float(job.replicas)]), alike)
        for job in jobs
    )
    offline = tuple(
        OfflineJob(job.name, job.name, job.submission, _decided(job.submission), 1.0 / len(jobs))
        for job in jobs
    )
    problem = OfflineProblem(trainings, offline, Supply.constant({"GPU": float(nodes * gpus)}))
    return RigidDay(problem, tuple(jobs), Cluster.uniform(nodes, gpus), restart)


@dataclass(frozen=True)
class TableApplication:
    """Application that trains at the rates of a table, whatever its nodes.

    Rates are whole numbers up to 6 a second, and an epoch has 60 steps. So epochs take whole
    seconds, which a replay does not round, and rounds without a restart end with an epoch. Where a
    restart comes within an epoch, rounding gains less than a second of the many that it takes.

    Parameters
    ----------
    name
        Name.
    epochs
        Number of epochs.
    rates
        Steps a second on one GPU, on two and so on, by type of GPU.
    kind
        Type of the GPUs that it is on.
    """

    name: str
    epochs: int
    rates: Mapping[str, tuple[float, ...]]
    kind: str
    batch = BatchLimits(BATCH, BATCH, 1, BATCH, False)
    restriction = None
    slowdown = 1.0
    restart_delay = None

    def on(self, gpu_type: str) -> TableApplication:
        """Return the application on that type."""
        return replace(self, kind=gpu_type or self.kind)

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Return the inverse of the rate; half of it is synchronisation on several GPUs."""
        step = 1.0 / self.rates[self.kind][sum(spread) - 1]
        return StepTimes(step, step / 2.0 if sum(spread) > 1 else 0.0)

    def gradient_statistics(self, batch_size: int, epoch: int) -> GradientStatistics:
        """Return any: as all steps have the same batch size, each is one step of progress."""
        return GradientStatistics(1.0, 1.0)

    def progress(self, epoch: int) -> float:
        """Return the steps to the end of an epoch."""
        return float(EPOCH * (epoch + 1))

    def steps(self, batch_size: int, epoch: int) -> float:
        """Return the same."""
        return self.progress(epoch)


class MalleableDay(NamedTuple):
    """Jobs whose GPUs a policy may choose, and the problem that bounds their replays."""

    problem: OfflineProblem
    jobs: tuple[Submission, ...]
    applications: dict[str, TableApplication]
    setting: Setting

    def average(self, policy: str) -> float:
        """Return the average completion time under a policy."""
        simulator = Simulator(self.jobs, self.applications, make_policy(policy), self.setting)
        while not simulator.finished:
            simulator.step()
        ends = {job.submission.name: job.completion for job in simulator.jobs}
        times = [end - job.time for job in self.jobs if (end := ends[job.name]) is not None]
        assert len(times) == len(self.jobs)
        return float(np.mean(times))


def malleable_day(seed: int, types: int = 1) -> MalleableDay:
    """Draw two or three jobs on up to four GPUs, or on one or two of each of two types.

    Every second day restarts cost nothing; some days a node is missing for two rounds.
    """
    random = np.random.default_rng([seed, types, 2])
    if types == 1:
        cluster = Cluster.uniform(*SHAPES[int(random.integers(len(SHAPES)))])
    else:
        numbers = zip(("t4", "a100"), random.integers(1, 3, 2).tolist(), strict=True)
        cluster = Cluster(tuple(NodeGroup(kind, 1, gpus, kind) for kind, gpus in numbers))
    missing = types == 1 and cluster.num_nodes > 1 and random.random() < 0.5
    outages = (Outage(2 * ROUND, 4 * ROUND, 1),) if missing else ()
    delay = float(random.choice([0.0, 0.0, 30.0, 60.0]))
    setting = Setting(cluster, interval=ROUND, restart_delay=delay, outages=outages)
    most, kinds = max(cluster.type_gpus.values()), cluster.gpu_types
    number = int(random.integers(2, 4))
    applications, jobs, trainings, offline = {}, [], [], []
    for index in range(number):
        rates = {kind: _rates(random, most) for kind in kinds}
        name, epochs = f"kind {index}", int(random.integers(1, 6))
        time, replicas = int(random.integers(0, 3 * ROUND)), int(random.integers(1, most + 1))
        applications[name] = TableApplication(name, epochs, rates, kinds[0])
        jobs.append(Submission(f"job {index}", time, name, replicas, BATCH))
        work, table = np.array([float(EPOCH * epochs)]), np.array([[rates[kind]] for kind in kinds])
        trainings.append(Training(name, work, np.arange(1.0, most + 1.0), table))
        begin = max(_decided(time), float(ROUND)) + delay
        offline.append(OfflineJob(f"job {index}", name, float(time), begin, 1.0 / number))
    problem = OfflineProblem(tuple(trainings), tuple(offline), supply_of(setting, kinds))
    return MalleableDay(problem, tuple(jobs), applications, setting)


def _decided(time: float) -> float:
    """Return the time of the first decision from a submission on."""
    return float(math.ceil(time / ROUND) * ROUND)


def _rates(random: np.random.Generator, most: int) -> tuple[float, ...]:
    """Draw whole rates of up to 6, which grow by less and less."""
    first = int(random.integers(1, 3))
    more = np.sort(random.integers(0, first + 1, most - 1))[::-1]
    return tuple(np.minimum(np.cumsum([first, *more]), 6).astype(float).tolist())


def edges_before(problem: OfflineProblem, average: float) -> np.ndarray:
    """Return all rounds and begins up to which an optimum no greater than an average has ended.

    No job is faster than alone, and what all are slower together is no more than in the average.
    So the program to this horizon either has the optimum without any, or nothing up to the average.
    """
    jobs, rounds = problem.jobs, float(ROUND)
    alone = [job.begin + problem.training(job.training).least_seconds for job in jobs]
    waits = sum(average - (end - job.release) for job, end in zip(jobs, alone, strict=True))
    last = math.ceil((max(alone) + waits) / rounds + 1e-9)
    return np.union1d(rounds * np.arange(last + 1), [job.begin for job in jobs])
