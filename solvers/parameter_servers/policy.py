"""What a scheduler of jobs with parameter servers sees in a round, and what it decides.

A decision is a cell of `ServiceTable` for every job that is to run, the job that is placed first
standing first. Nodes are found afterwards (`colocation.py`), as in Optimus (EuroSys'18) and AITurbo
(HPDC'21): the policies count what the cluster has in all.
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
    """A job as a scheduler sees it.

    Parameters
    ----------
    job
        With the steps that it is believed to need, and what it has now.
    asked
        The cell of what its user asks for.
    done
        Steps.
    attained
        Service so far: cores and ten times GPUs, times seconds.
    predictable
        Whether it is known to be.
    oracle_seconds
        Seconds to its end with what its user asks for, in truth; for policies that are told.
    """

    job: PsJob
    asked: Cell
    done: float
    attained: float
    predictable: bool
    oracle_seconds: float

    @property
    def name(self) -> str:
        """The job's."""
        return self.job.name

    def demand(self, cell: Cell) -> Floats:
        """Cores and GPUs of a cell."""
        found = self.job.choices.at(cell)
        return np.array([float(found.cores), float(found.gpus)])


@dataclass(frozen=True)
class PsView:
    """A round.

    Parameters
    ----------
    time
        Seconds from the start of the replay.
    jobs
        Submitted and not complete, in order of submission.
    nodes
        Cores and GPUs of every node, shape (nodes, 2).
    """

    time: float
    jobs: tuple[ActivePsJob, ...]
    nodes: Floats

    @property
    def capacity(self) -> Floats:
        """Cores and GPUs in all."""
        return np.asarray(self.nodes.sum(axis=0))


#: The cell of every job that is to run, by name, the first to be placed first.
PsDecision = dict[str, "Cell"]


class PsPolicy(Protocol):
    """Decides rounds; may keep what it needs from one to the next."""

    def decide(self, view: PsView) -> PsDecision:
        """Which jobs run, with what."""
        ...


def admit(
    view: PsView,
    order: Sequence[int],
    wanted: Mapping[int, Sequence[Cell]],
    *,
    backfill: bool = True,
) -> PsDecision:
    """Jobs in order, each with the first of its cells that fits in what those before it leave.

    Parameters
    ----------
    view
        The round.
    order
        Indices of its jobs.
    wanted
        Cells of each, the best first.
    backfill
        Whether jobs after one that does not fit have their turn.
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
    """What users ask for, as `admit` wants it."""
    return {index: [job.asked] for index, job in enumerate(view.jobs)}


@dataclass
class TurnClock:
    """How long every job ran, and waited after it first ran, by the rounds of a policy."""

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
        """Executed and waited seconds of all jobs of a round."""
        names = [job.name for job in view.jobs]
        return (
            [self.executed.get(name, 0.0) for name in names],
            [self.waited.get(name, 0.0) for name in names],
        )
