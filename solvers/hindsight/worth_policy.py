r"""Policies that know the true work that is left: GPUs go where they are worth most, with restarts.

In every round job *j*, in phase *q* and on :math:`k_j` GPUs so far, gets GPUs by

.. math::

    \max \sum_j \Bigl( \mu_{jq} \, g_q(k'_j)
        - [k_j > 0, \; k'_j \ne k_j] \, \frac{\delta}{H} \, \mu_{jq} \, g_q(k_j) \Bigr)
    \quad \text{with} \quad \sum_j k'_j \le G                                                 (1)

where :math:`\mu_{jq}` is the worth of a unit of progress, :math:`g_q(k)` the true rate on *k* GPUs,
:math:`\delta` the seconds of a restart, and *H* the seconds that an allocation is expected to last.
(1) is a knapsack with one choice for each job, decided exactly by dynamic programming over the
GPUs. Jobs that keep their number of GPUs stay where they are; the others are put on as few nodes as
the rest leaves.

The worths come from an `Appraiser`: from a plan with hindsight, or from what is left of the jobs
that are there (`known_work.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import Training
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

#: Seconds that an allocation is expected to last.
HOLD = 600.0


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
        held = np.array([sum(count for _, count in job.placement) for job in round_.jobs])
        gain = np.zeros((len(round_.jobs), gpus + 1))
        for row, (job, phase, worth) in enumerate(zip(round_.jobs, phases, worths, strict=True)):
            training = self.trainings[job.application]
            fits = training.gpus <= gpus
            own = gain[row]
            own[training.gpus[fits].astype(int)] = worth * training.rates[0, phase, fits]
            if now := held[row]:
                lost = self.restart_delay / self.hold * own[now]
                own -= lost
                own[now] += lost
        return Decision(place(round_, held, best_numbers(gain)))


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


def best_numbers(gain: Float[Floats, "jobs counts"]) -> Int[Indices, " jobs"]:
    """Return the numbers of GPUs with the greatest sum of gains, equation (1).

    Parameters
    ----------
    gain
        Gain of every job on 0, 1, … GPUs, as many as there are.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.hindsight import best_numbers
    >>> best_numbers(np.array([[0.0, 3.0, 4.0], [0.0, 1.0, 3.5]])).tolist()
    [2, 0]
    """
    jobs, counts = gain.shape
    given = np.arange(counts)
    rest = given[:, None] - given[None, :]  # of the first GPUs, less those of the job
    impossible = rest < 0
    best = np.zeros(counts)
    choice = np.empty((jobs, counts), int)
    for row in range(jobs):
        total = best[rest] + gain[row]
        total[impossible] = -np.inf
        choice[row] = total.argmax(axis=1)
        best = total[given, choice[row]]
    numbers, left = np.zeros(jobs, int), counts - 1
    for row in range(jobs - 1, -1, -1):
        numbers[row] = choice[row, left]
        left -= numbers[row]
    return numbers


def place(
    round_: Round, held: Int[Indices, " jobs"], numbers: Int[Indices, " jobs"]
) -> dict[str, Placement]:
    """Return placements of given numbers of GPUs; jobs whose number stays do not move.

    Parameters
    ----------
    round_
        The round.
    held, numbers
        Numbers of GPUs of the jobs before, and from now on; together no more than there are.
    """
    free = round_.cluster.node_gpus.astype(int)
    placements: dict[str, Placement] = {}
    new = []
    for job, before, now in zip(round_.jobs, held.tolist(), numbers.tolist(), strict=True):
        if now and now == before:
            placements[job.name] = job.placement
            for node, count in job.placement:
                free[node] -= count
        elif now:
            new.append((now, job.name))
    for number, name in sorted(new, key=lambda pair: -pair[0]):
        taken = []
        while number:
            # the node that it fills, or fills most; of those that hold all of it the fullest
            fits = free >= number
            node = int(np.where(fits, free, np.inf).argmin() if fits.any() else free.argmax())
            count = min(int(free[node]), number)
            taken.append((node, count))
            free[node] -= count
            number -= count
        placements[name] = tuple(sorted(taken))
    return placements
