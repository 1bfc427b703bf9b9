"""Policies: deciders of every round of a replay, with a scheduler's knowledge only.

A policy sees a `Round` and answers with a `Decision`. Any solver makes one
(`solvers/policies/pollux.py`); queues and marginal gains make others
(`solvers/policies/tiresias.py`, `solvers/policies/optimus.py`, …).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.solvers.interface.result import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.losses.reduction import LossHistory
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import JobModel, Mode
    from goodalloc.models.round.rules import Rules

#: Most GPUs that Pollux ever gives to one job (its traces measure no more).
MOST_REPLICAS = 64


#: Batch sizes of the jobs: as requested, in all or for each GPU, or the best by predicted goodput,
#: or by predicted throughput alone.
BatchSizes = Literal["requested", "proportional", "goodput", "throughput"]


#: What a policy is told of jobs beyond their requests and the service that they attained: nothing;
#: what agents measured of them, from which their speed is predicted; their true speed on any GPUs;
#: or their true remaining work as well. Of a user's policy that is not known.
Knows = Literal["nothing", "measured", "true speed", "true remaining", "unknown"]


class Terms(NamedTuple):
    """Terms on which a policy competes.

    Attributes
    ----------
    knows
        What it is told of jobs.
    batch
        Batch sizes of its jobs: ``"requested"`` by their users, or ``"adaptive"``, by goodput.
    """

    knows: Knows
    batch: str


class Oracle(Protocol):
    """Knowledge of a job that only a replay has ("Optimus+Oracle" in Pollux's evaluation).

    Steps are those at the requested batch size; of a job whose batch size follows its goodput they
    are the progress of steps at its initial batch size.
    """

    def remaining_steps(self) -> float:
        """Return the optimiser steps to the end, at least 1."""
        ...

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the seconds of a step on `replicas` GPUs.

        The GPUs are packed onto nodes and of that type; if it is empty, of the type that the job
        runs on or ran on last.
        """
        ...

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return the steps per second of two jobs that share `replicas` GPUs; None if they cannot.

        The GPUs are packed onto nodes. The speeds do not change as the jobs train.
        """
        ...


def untold() -> None:
    """Return None, as of a job whose losses are unknown."""


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """Submitted and unfinished job, as the scheduler sees it.

    Parameters
    ----------
    name, application
        Its name, and the name of the application that it trains.
    submission
        When it was submitted, in seconds from the start.
    age
        Seconds since then.
    placement
        The GPUs it holds: (node, GPUs) pairs.
    restarts
        Number of restarts; the first start does not count.
    attained_service
        GPU-seconds received.
    replicas, batch_size
        Requested GPUs and total batch size.
    batch
        Its batch limits.
    fixed_replicas
        The only number of GPUs it may use, None for any.
    most_explored
        Largest number of GPUs that it ever ran on.
    model
        Function that returns its goodput model as fitted to its measurements so far, None before
        the first step; where there are several types of GPU, on the type that it ran on last.
    oracle
        Knowledge that only a replay has.
    modes
        Function that returns the ways to equip its replicas, where nodes differ in their GPUs or
        have cores; none where only the number of GPUs counts, and in a replay by a table of rates,
        where the nodes of a job decide its type of GPU.
    mode
        Name of its current mode, empty where it has none or does not run.
    losses
        Function that returns the losses measured so far, in steps at M0; None where they are
        unknown.
    host
        Name of the job on whose GPUs it runs, empty where it has its own or does not run.
    busy
        Part of the time that its GPUs compute for it alone, as measured while it ran last; None
        before, and under policies that share no GPUs.
    memory
        Part of a GPU's memory that its batch takes.
    share
        Part of its speed that sharing left in the last interval, as measured; 1 alone.
    adaptive
        Whether its batch size follows its goodput, so that `batch_size` is only what was requested.
    """

    name: str
    application: str
    submission: int
    age: int
    placement: Placement
    restarts: int
    attained_service: float
    replicas: int
    batch_size: int
    batch: BatchLimits
    fixed_replicas: int | None
    most_explored: int
    model: Callable[[], GoodputModel | None] = field(repr=False)
    oracle: Oracle = field(repr=False)
    modes: Callable[[], tuple[Mode, ...]] = field(default=tuple, repr=False)
    mode: str = ""
    losses: Callable[[], LossHistory | None] = field(default=untold, repr=False)
    host: str = ""
    busy: float | None = None
    memory: float = 1.0
    share: float = 1.0
    adaptive: bool = False

    @property
    def splits(self) -> int:
        """Most GPUs over which its batch size, or the largest that it may choose, can be split."""
        largest = self.batch.maximum if self.adaptive else self.batch_size
        return max(int(largest // self.batch.atomic_minimum), 1)

    @property
    def max_replicas(self) -> int:
        """Most GPUs that Pollux gives it: at most twice the most that it ever ran on.

        ``min(max(2 K_max, 1), 64, floor(M_max / m_min))`` (Pollux's artifact).
        """
        if self.fixed_replicas is not None:
            return self.fixed_replicas
        most = int(self.batch.maximum // self.batch.atomic_minimum)
        return max(min(max(2 * self.most_explored, 1), MOST_REPLICAS, most), 1)


@dataclass(frozen=True)
class Round:
    """State of the cluster when a decision is due.

    Parameters
    ----------
    time
        Seconds from the start.
    cluster
        The present nodes.
    jobs
        The active jobs in order of submission; at least one.
    """

    time: int
    cluster: Cluster
    jobs: tuple[ActiveJob, ...]

    def instance(
        self,
        rules: Rules,
        limits: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
        restart_delays: Mapping[str, float | None] | None = None,
    ) -> Instance:
        """Return the round as an instance under some rules, with the fitted models.

        Jobs on the GPUs of others hold nothing there: no formulation has shared GPUs.

        Parameters
        ----------
        rules
            Objective and constraints.
        limits
            Most GPUs of the jobs named here, in place of `ActiveJob.max_replicas`.
        weights
            Weights of the jobs named here, in place of 1.
        restart_delays
            Seconds that a restart costs the jobs named here, in place of the rules' delay.
        """
        limits, weights, delays = limits or {}, weights or {}, restart_delays or {}
        jobs = []
        for job in self.jobs:
            modes = job.modes()
            jobs.append(
                Job(
                    job.name,
                    None if modes else job.model(),
                    float(job.age),
                    job.restarts,
                    () if job.host else tuple(sorted(job.placement)),
                    max_replicas=limits.get(job.name, job.max_replicas),
                    attained_service=job.attained_service,
                    application=job.application,
                    weight=weights.get(job.name, 1.0),
                    modes=modes,
                    mode="" if job.host else job.mode,
                    restart_delay=delays.get(job.name),
                )
            )
        return Instance(self.cluster, tuple(jobs), rules, f"round-{self.time}")

    def by_throughput(self) -> Round:
        """Return the round with models that ignore statistical efficiency."""

        def blind(model: JobModel) -> JobModel:
            return model.by_throughput() if isinstance(model, GoodputModel) else model

        def blinded(job: ActiveJob) -> ActiveJob:
            def model() -> GoodputModel | None:
                found = job.model()
                return found.by_throughput() if found else None

            def modes() -> tuple[Mode, ...]:
                return tuple(replace(mode, model=blind(mode.model)) for mode in job.modes())

            return replace(job, model=model, modes=modes)

        return replace(self, jobs=tuple(map(blinded, self.jobs)))


class Decision(NamedTuple):
    """Decision of a policy for one round.

    Attributes
    ----------
    placements
        The (node, GPUs) pairs of every job that runs, by name; the others get nothing. A job whose
        placement changes restarts.
    nodes
        Number of nodes from the next round on, None for the present number.
    instance
        The round as the policy gave it to a solver, None for policies without one.
    bound
        A bound on the objective of that instance, if known. The bound of a policy that does not
        ship is a claim, which is not believed.
    modes
        Names of the modes of the jobs that run, where jobs have modes; one that is not named here
        gets the most cores that a GPU's share of its nodes has.
    beside
        Guests, each with its host: a guest runs on GPUs of its host, at most one guest on a GPU,
        and hosts no other job. The policy's `sharing` gives the speeds of both.
    bound_source, evidence
        Source and evidence of the bound.
    """

    placements: Mapping[str, Placement]
    nodes: int | None = None
    instance: Instance | None = None
    bound: float | None = None
    modes: Mapping[str, str] = MappingProxyType({})
    beside: Mapping[str, str] = MappingProxyType({})
    bound_source: str = ""
    evidence: Evidence = Evidence.NONE


class Policy(Protocol):
    """Decider of round after round, whose memory a checkpoint can keep.

    Attributes
    ----------
    batch_sizes
        Rule for the batch sizes of the jobs; under Pollux by their goodput.
    sharing
        Way in which jobs share GPUs (`goodalloc.models.shared_gpus.shared_speed.Sharing`); only
        policies that let jobs share GPUs have it.
    """

    @property
    def batch_sizes(self) -> BatchSizes: ...

    def decide(self, round_: Round) -> Decision:
        """Decide one round."""
        ...
