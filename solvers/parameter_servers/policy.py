"""Rounds of jobs with parameter servers, and the decisions of their schedulers.

A decision is a cell of `ServiceTable` for every job that is to run, the job that is placed first
standing first. Nodes are found afterwards (`colocation.py`), as in Optimus and AITurbo: the
policies count the resources of the whole cluster.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517

Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.parameter_servers.job import PsJob
    from goodalloc.models.parameter_servers.tabulated_service import Cell
    from goodalloc.models.support.array_types import Floats


@dataclass(frozen=True)
class ActivePsJob:
    """Job as a scheduler sees it.

    Parameters
    ----------
    job
        The job with its believed remaining steps and its present pods.
    asked
        Requested cell.
    done
        Number of steps done.
    attained
        Service so far: cores and ten times GPUs, times seconds.
    predictable
        Whether its loss curve is known to be predictable.
    oracle_seconds
        True seconds to its end with the requested pods; for policies with an oracle.
    """

    job: PsJob
    asked: Cell
    done: float
    attained: float
    predictable: bool
    oracle_seconds: float

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.job.name

    def demand(self, cell: Cell) -> Floats:
        """Return the cores and GPUs of a cell."""
        found = self.job.choices.at(cell)
        return np.array([float(found.cores), float(found.gpus)])


@dataclass(frozen=True)
class PsView:
    """State of the cluster in a round.

    Parameters
    ----------
    time
        Seconds from the start of the replay.
    jobs
        Submitted and incomplete jobs, in order of submission.
    nodes
        Cores and GPUs of every node, shape (nodes, 2).
    """

    time: float
    jobs: tuple[ActivePsJob, ...]
    nodes: Floats

    @property
    def capacity(self) -> Floats:
        """Cores and GPUs of all nodes together."""
        return np.asarray(self.nodes.sum(axis=0))


#: The cell of every job that is to run, by name, the first to be placed first.
PsDecision = dict[str, "Cell"]


class PsPolicy(Protocol):
    """Decider of rounds, which may keep state from one to the next."""

    def decide(self, view: PsView) -> PsDecision:
        """Decide which jobs run, and with which cells."""
        ...


def admit(
    view: PsView,
    order: Sequence[int],
    wanted: Mapping[int, Sequence[Cell]],
    *,
    backfill: bool = True,
) -> PsDecision:
    """Admit jobs in order, each with its first cell that fits in the remaining capacity.

    Parameters
    ----------
    view
        The round.
    order
        Indices of jobs, in order of service.
    wanted
        Cells of each job, the best first.
    backfill
        Whether jobs after one that does not fit may be admitted.
    """
    left = view.capacity * (1 + RESOURCE_TOLERANCE) + RESOURCE_TOLERANCE
    admitted: PsDecision = {}
    for index in order:
        job = view.jobs[index]
        demands = [(cell, job.demand(cell)) for cell in wanted[index]]
        fits = [(cell, demand) for cell, demand in demands if (demand <= left).all()]
        if fits:
            admitted[job.name] = fits[0][0]
            left = left - fits[0][1]
        elif not backfill:
            break
    return admitted


def as_asked(view: PsView) -> dict[int, list[Cell]]:
    """Return the requested cells in the form of `admit`."""
    return {index: [job.asked] for index, job in enumerate(view.jobs)}


@dataclass
class TurnClock:
    """Running time of every job, and waiting time after it first ran, over a policy's rounds."""

    executed: dict[str, float] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    _time: float = 0.0

    def advance(self, view: PsView) -> None:
        """Account for the time since the last round."""
        elapsed, self._time = view.time - self._time, view.time
        for job in view.jobs:
            runs = job.job.current is not None
            if runs or job.name in self.executed:
                clock = self.executed if runs else self.waited
                clock[job.name] = clock.get(job.name, 0.0) + elapsed

    def of(self, view: PsView) -> tuple[list[float], list[float]]:
        """Return executed and waited seconds of all jobs of a round."""
        names = [job.name for job in view.jobs]
        return (
            [self.executed.get(name, 0.0) for name in names],
            [self.waited.get(name, 0.0) for name in names],
        )
