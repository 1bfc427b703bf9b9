"""Policies: what decides every round of a replay, knowing only what a scheduler knows.

A policy sees a `Round` and answers with a `Decision`. Any solver is one
(`solvers/policies/pollux.py`); queues and marginal gains are others
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


#: What the batch sizes of the jobs are: as their users asked in all or for each GPU, or the best of
#: their predicted goodput, or of their predicted throughput alone.
BatchSizes = Literal["requested", "proportional", "goodput", "throughput"]


class Oracle(Protocol):
    """What only a replay knows of a job; Optimus is published with it ("Optimus+Oracle")."""

    def remaining_steps(self) -> float:
        """Optimiser steps at the requested batch size to the end of the training, at least 1."""
        ...

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Seconds of a step at the requested batch size on so many GPUs, packed onto nodes.

        They are of that type; if it is empty, of the one that the job runs on or ran on last.
        """
        ...

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Steps per second of the job and of another one that share so many GPUs, packed onto
        nodes; None where they cannot. They do not change as the jobs train.
        """
        ...


def untold() -> None:
    """Nothing is known of the losses of a job."""


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A submitted job that is not finished, as the scheduler sees it.

    Parameters
    ----------
    name, application
        Its name, and what it trains.
    submission
        When it was submitted, in seconds from the start.
    age
        Seconds since then.
    placement
        The GPUs it holds: (node, GPUs) pairs.
    restarts
        Times it was restarted; the first start does not count.
    attained_service
        GPU-seconds received.
    replicas, batch_size
        GPUs and total batch size that its user asked for.
    batch
        Its batch limits.
    fixed_replicas
        The only number of GPUs it may use, None for any.
    most_explored
        The largest number of GPUs it ever ran on.
    model
        Gives its goodput model as fitted to what it measured so far, None before the first step;
        where there are several types of GPU, on the type that it ran on last.
    oracle
        What only a replay knows.
    modes
        Gives the ways to equip its replicas, where nodes differ in their GPUs or have cores; none
        where GPUs are all that counts.
    mode
        Name of the one it runs in, empty where it has none or does not run.
    losses
        Gives the losses that it measured so far, in steps at M0; None where it tells nothing of
        them.
    host
        Name of the job on whose GPUs it runs, empty where it has its own or does not run.
    busy
        The part of the time that its GPUs compute for it alone, as measured while it ran last; None
        before, and under policies that share no GPUs.
    memory
        The part of a GPU's memory that its batch takes.
    share
        What sharing left of its speed in the last interval, as measured; 1 alone.
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

    @property
    def max_replicas(self) -> int:
        """Most GPUs that Pollux gives it: at most twice what it ever ran on, so that it explores.

        ``min(max(2 K_max, 1), 64, floor(M_max / m_min))`` (Pollux's artifact).
        """
        if self.fixed_replicas is not None:
            return self.fixed_replicas
        most = int(self.batch.maximum // self.batch.atomic_minimum)
        return max(min(max(2 * self.most_explored, 1), MOST_REPLICAS, most), 1)


@dataclass(frozen=True)
class Round:
    """The state of the cluster when a decision is due.

    Parameters
    ----------
    time
        Seconds from the start.
    cluster
        The nodes there are.
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
        """The round as an instance under some rules, with the fitted models.

        There jobs on the GPUs of others hold nothing: no formulation knows shared GPUs.

        Parameters
        ----------
        rules
            Objective and constraints.
        limits
            Most GPUs of the jobs named here, in place of `ActiveJob.max_replicas`.
        weights
            Weights of the jobs named here, in place of 1.
        restart_delays
            Seconds that a restart costs the jobs named here, in place of what the rules say.
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
        """The round as those see it who know no statistical efficiency."""

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
    """What a policy wants.

    Attributes
    ----------
    placements
        The (node, GPUs) pairs of every job that runs, by name; the others get nothing. A job whose
        placement changes restarts.
    nodes
        Nodes that the cluster should have from the next round on, None for as many as it has.
    instance
        The round as the policy put it to a solver, None for policies that do not.
    bound
        A bound on the objective of that instance, if known. Of a policy that does not ship it is a
        claim, which nobody believes.
    modes
        Names of the modes of the jobs that run, where jobs have modes; one that is not named here
        gets the most cores that a GPU's share of its nodes has.
    beside
        Guests, each with its host: a guest runs on GPUs that its host has, one guest on a GPU, and
        is nobody's host. How fast both are the policy's `sharing` says.
    bound_source, evidence
        What proved the bound, and how it is known to hold.
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
    """Decides round after round; what it remembers must be such that a checkpoint can keep it.

    Attributes
    ----------
    batch_sizes
        How the jobs come to their batch sizes; under Pollux by their goodput.
    sharing
        How jobs share GPUs (`goodalloc.models.shared_gpus.shared_speed.Sharing`); only policies
        whose jobs do have it.
    """

    @property
    def batch_sizes(self) -> BatchSizes: ...

    def decide(self, round_: Round) -> Decision:
        """Decide one round."""
        ...
