"""Days of a few jobs, whose replays a time-indexed program has, and nothing else.

A replay changes the GPUs of jobs between rounds only, and the rates of these jobs depend on nothing
but the number of their GPUs and the type of these. So the program with an edge at every round has
every replay. Restarts come on top of it; where they cost nothing, its optimum is one of replays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from goodalloc.data.applications import StepTimes
from goodalloc.data.workloads import RigidJob, Submission
from goodalloc.experiments.hindsight import supply_of
from goodalloc.experiments.replay import Outage, Setting, Simulator
from goodalloc.experiments.replay_bound import rounds_of_replay
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.models.goodput import BatchLimits, GradientStatistics
from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
from goodalloc.models.round import Cluster, NodeGroup
from goodalloc.solvers import make_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications import Spread

#: Seconds of a round.
ROUND = 60

#: Seconds of a restart, on days on which restarts cost anything.
RESTART = 30.0

#: Steps of an epoch of a malleable job.
EPOCH = 60

#: Nodes and GPUs of each, where all are equal.
SHAPES = ((1, 2), (1, 3), (1, 4), (2, 2))

#: Types of GPU, where there are two.
TYPES = ("t4", "a100")

#: Examples of every step: any number of GPUs of the clusters divides it.
BATCH = 12


class SmallDay(Protocol):
    """Jobs of a day, and the problem that bounds their replays.

    Attributes
    ----------
    problem
        The offline problem.
    rounds
        Rounds and restarts of the replays, as bounds on replays count them.
    """

    @property
    def problem(self) -> OfflineProblem: ...

    @property
    def rounds(self) -> Rounds: ...

    def average(self, policy: str) -> float:
        """Return the average completion time in seconds under a policy, by its name."""
        ...


class GangDay(NamedTuple):
    """Jobs that take their GPUs, all or none."""

    problem: OfflineProblem
    rounds: Rounds
    jobs: tuple[RigidJob, ...]
    cluster: Cluster
    restart: float

    def average(self, policy: str) -> float:
        """Return the average completion time in seconds under a policy, by its name."""
        made = make_policy(policy)
        done = RateSimulator(self.jobs, None, self.cluster, made, ROUND, self.restart).run()
        if len(done) != len(self.jobs):
            raise RuntimeError(f"Policy '{policy}': {len(done)} of {len(self.jobs)} jobs ended.")
        return float(np.mean([one.jct for one in done]))


def gang_day(seed: int, jobs: int, *, restarts: bool = False) -> GangDay:
    """Draw jobs of up to three rounds on up to four GPUs; most of them take whole rounds.

    A first start costs nothing, so that a job can train from the first decision on. With restarts
    the day has the same jobs. Bounds on replays count none: `Rounds` charge first starts, too.

    Parameters
    ----------
    seed
        Seed.
    jobs
        Number of jobs, 1 or more.
    restarts
        Whether a restart costs time.
    """
    random = np.random.default_rng([seed, jobs, 1])
    nodes, gpus = SHAPES[int(random.integers(len(SHAPES)))]
    drawn = []
    for index in range(jobs):
        seconds = float(ROUND * random.integers(1, 4))
        if random.random() < 0.3:
            seconds = float(random.integers(1, 3 * ROUND))
        time, gang = float(random.integers(0, 3 * ROUND)), int(random.integers(1, nodes * gpus + 1))
        drawn.append(RigidJob(f"job {index}", time, gang, seconds, seconds))
    alike = np.ones((1, 1, 1))
    trainings = tuple(
        Training(job.name, np.array([job.seconds]), np.array([float(job.replicas)]), alike)
        for job in drawn
    )
    offline = tuple(
        OfflineJob(job.name, job.name, job.submission, _decided(job.submission), 1.0 / jobs)
        for job in drawn
    )
    problem = OfflineProblem(trainings, offline, Supply.constant({"GPU": float(nodes * gpus)}))
    rounds = Rounds(float(ROUND), dict.fromkeys((job.name for job in drawn), 0.0))
    restart = RESTART if restarts else 0.0
    return GangDay(problem, rounds, tuple(drawn), Cluster.uniform(nodes, gpus), restart)


@dataclass(frozen=True, eq=False)
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
    """Jobs whose GPUs a policy may choose."""

    problem: OfflineProblem
    rounds: Rounds
    jobs: tuple[Submission, ...]
    applications: dict[str, TableApplication]
    setting: Setting

    def by_epochs(self) -> OfflineProblem:
        """Return the problem with a phase for each epoch; the rates of all are the same."""
        trainings = []
        for training in self.problem.trainings:
            epochs = self.applications[training.name].epochs
            rates = np.repeat(training.rates, epochs, axis=1)
            work = np.full(epochs, float(EPOCH))
            trainings.append(replace(training, work=work, rates=rates))
        return replace(self.problem, trainings=tuple(trainings))

    def average(self, policy: str) -> float:
        """Return the average completion time in seconds under a policy, by its name."""
        simulator = Simulator(self.jobs, self.applications, make_policy(policy), self.setting)
        while not simulator.finished:
            simulator.step()
        ends = {job.submission.name: job.completion for job in simulator.jobs}
        times = [end - job.time for job in self.jobs if (end := ends[job.name]) is not None]
        if len(times) != len(self.jobs):
            raise RuntimeError(f"Policy '{policy}': {len(times)} of {len(self.jobs)} jobs ended.")
        return float(np.mean(times))


def malleable_day(seed: int, jobs: int, *, types: int = 1, restarts: bool = False) -> MalleableDay:
    """Draw jobs on up to four GPUs, or on one or two of each of two types.

    On half of the days with two nodes of one type, at random, one is missing for two rounds. With
    restarts the day has the same jobs, which begin later by the first.

    Parameters
    ----------
    seed
        Seed.
    jobs
        Number of jobs, 1 or more.
    types
        Number of types of GPU, 1 or 2.
    restarts
        Whether a restart costs time.
    """
    random = np.random.default_rng([seed, jobs, types, 2])
    if types == 1:
        cluster = Cluster.uniform(*SHAPES[int(random.integers(len(SHAPES)))])
    else:
        numbers = zip(TYPES, random.integers(1, 3, len(TYPES)).tolist(), strict=True)
        cluster = Cluster(tuple(NodeGroup(kind, 1, gpus, kind) for kind, gpus in numbers))
    missing = types == 1 and cluster.num_nodes > 1 and random.random() < 0.5
    outages = (Outage(2 * ROUND, 4 * ROUND, 1),) if missing else ()
    delay = RESTART if restarts else 0.0
    setting = Setting(cluster, interval=ROUND, restart_delay=delay, outages=outages)
    most, kinds = max(cluster.type_gpus.values()), cluster.gpu_types
    applications, drawn, trainings, offline = {}, [], [], []
    for index in range(jobs):
        rates = {kind: _rates(random, most) for kind in kinds}
        name, epochs = f"kind {index}", int(random.integers(1, 6))
        time, replicas = int(random.integers(0, 3 * ROUND)), int(random.integers(1, most + 1))
        applications[name] = TableApplication(name, epochs, rates, kinds[0])
        drawn.append(Submission(f"job {index}", time, name, replicas, BATCH))
        work, table = np.array([float(EPOCH * epochs)]), np.array([[rates[kind]] for kind in kinds])
        trainings.append(Training(name, work, np.arange(1.0, most + 1.0), table))
        begin = max(_decided(time), float(ROUND)) + delay
        offline.append(OfflineJob(f"job {index}", name, float(time), begin, 1.0 / jobs))
    problem = OfflineProblem(tuple(trainings), tuple(offline), supply_of(setting, kinds))
    rounds = Rounds(float(ROUND), dict.fromkeys(applications, 0.0))
    if restarts:
        rounds = rounds_of_replay(problem, applications, setting)
    return MalleableDay(problem, rounds, tuple(drawn), applications, setting)


def _decided(time: float) -> float:
    """Return the time of the first decision from a submission on."""
    return float(math.ceil(time / ROUND) * ROUND)


def _rates(random: np.random.Generator, most: int) -> tuple[float, ...]:
    """Draw whole rates of up to 6, which grow by less and less."""
    first = int(random.integers(1, 3))
    more = np.sort(random.integers(0, first + 1, most - 1))[::-1]
    return tuple(np.minimum(np.cumsum([first, *more]), 6).astype(float).tolist())
