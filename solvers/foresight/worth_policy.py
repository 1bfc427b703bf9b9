"""Policies that know the true remaining work: GPUs go where they are worth most, with restarts.

In every round GPUs are given out by worth (`round_knapsack.py`). Jobs that keep their number of
GPUs stay where they are; each of the others is put on the nodes on which it is fastest, of those
placements for which the rest has room.

The worths come from an `Appraiser`: from a plan with hindsight, or from the remaining work of
the active jobs (`known_work.py`, `rolling_plan.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import gt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.foresight.restarting_schedule import rates_on
from goodalloc.solvers.foresight.round_knapsack import best_numbers, gains
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import Training
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

#: Seconds that an allocation is expected to last.
HOLD = 300.0


class Appraiser(Protocol):
    """Source of the worths of jobs."""

    def worths(self, round_: Round, phases: Sequence[int]) -> list[float]:
        """Return the worth of a unit of progress of every active job.

        Parameters
        ----------
        round_
            The round.
        phases
            Index of the phase that every job is in.
        """
        ...


@dataclass(frozen=True)
class PlannedWorths:
    """Worths of a plan that was made before the first job was there.

    Parameters
    ----------
    by_job
        Worth of a unit of progress in each phase, by the name of the job.
    """

    by_job: Mapping[str, Float[Floats, " phases"]]

    def worths(self, round_: Round, phases: Sequence[int]) -> list[float]:
        """Return the worths that were planned."""
        return [
            float(self.by_job[job.name][phase])
            for job, phase in zip(round_.jobs, phases, strict=True)
        ]


@dataclass
class WorthPolicy:
    """Policy that gives GPUs to the jobs where they are worth most, at the true rates.

    Parameters
    ----------
    trainings
        True work and rates, by the name of the application.
    appraiser
        Source of the worths.
    spreads
        Numbers of GPUs on each node, the fastest first, by application and number of GPUs.
    restart_delay
        Seconds of a restart.
    hold
        Seconds that an allocation is expected to last.

    Attributes
    ----------
    batch_sizes
        Batch sizes follow the goodput.

    Raises
    ------
    ValueError
        If a number of seconds is negative, or `hold` is 0.
    """

    trainings: Mapping[str, Training]
    appraiser: Appraiser
    spreads: Callable[[str, int], Sequence[Sequence[int]]]
    restart_delay: float = 30.0
    hold: float = HOLD

    def __post_init__(self) -> None:
        require_number("Policy: restart_delay", self.restart_delay, minimum=0.0)
        require_number("Policy: hold", self.hold, minimum=0.0, strict=True)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes by goodput."""
        return "goodput"

    def decide(self, round_: Round) -> Decision:
        """Decide one round."""
        gpus = round_.cluster.num_gpus
        phases = [phase_of(job, self.trainings[job.application]) for job in round_.jobs]
        worths = self.appraiser.worths(round_, phases)
        earned = np.stack(
            [
                worth * rates_on(self.trainings[job.application], phase, gpus)
                for job, phase, worth in zip(round_.jobs, phases, worths, strict=True)
            ]
        )
        held = np.array([sum(count for _, count in job.placement) for job in round_.jobs])
        numbers = best_numbers(gains(earned, held, self.restart_delay / self.hold))
        return Decision(place(round_, held.tolist(), numbers.tolist(), self.spreads))


def phase_of(job: ActiveJob, training: Training) -> int:
    """Return the index of the phase that a job is in, from the work that its oracle tells.

    Parameters
    ----------
    job
        The job; its oracle tells the work behind the present phase, in units of progress.
    training
        Its true work.
    """
    behind = np.cumsum(training.work[::-1])[::-1]  # from the start of each phase to the end
    left = np.append(behind[1:], 1.0)  # the oracle tells at least 1
    return int(np.abs(left - job.oracle.remaining_steps()).argmin())


def place(
    round_: Round,
    held: Sequence[int],
    numbers: Sequence[int],
    spreads: Callable[[str, int], Sequence[Sequence[int]]],
) -> dict[str, Placement]:
    """Return placements of given numbers of GPUs; jobs whose number stays do not move.

    Parameters
    ----------
    round_
        The round.
    held, numbers
        Numbers of GPUs of the jobs before, and from now on; together no more than there are.
    spreads
        As in `WorthPolicy`.
    """
    free = round_.cluster.node_gpus.tolist()
    placements: dict[str, Placement] = {}
    new = []
    for job, before, now in zip(round_.jobs, held, numbers, strict=True):
        if now and now == before:
            placements[job.name] = job.placement
            for node, count in job.placement:
                free[node] -= count
        elif now:
            new.append((now, job))
    for number, job in sorted(new, key=lambda pair: -pair[0]):
        taken = _first_that_fits(free, spreads(job.application, number)) or _any(free, number)
        for node, count in taken:
            free[node] -= count
        placements[job.name] = tuple(sorted(taken))
    return placements


def _first_that_fits(
    free: Sequence[int], spreads: Sequence[Sequence[int]]
) -> list[tuple[int, int]]:
    """Return nodes for the first of some numbers of GPUs a node that fit; nothing if none does."""
    emptiest = sorted(free, reverse=True)
    for spread in spreads:
        wanted = sorted(spread, reverse=True)
        if len(wanted) > len(free) or any(map(gt, wanted, emptiest)):
            continue
        taken: list[tuple[int, int]] = []
        left = [*free]
        for count in wanted:
            # the fullest node that has room, so that others stay empty
            _, node = min((room, node) for node, room in enumerate(left) if room >= count)
            taken.append((node, count))
            left[node] = -1
        return taken
    return []


def _any(free: Sequence[int], number: int) -> list[tuple[int, int]]:
    """Return the emptiest nodes for so many GPUs."""
    taken = []
    for node in sorted(range(len(free)), key=free.__getitem__, reverse=True):
        count = min(free[node], number)
        if count:
            taken.append((node, count))
            number -= count
    return taken
