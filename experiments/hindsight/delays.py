r"""Who was delayed by whom in a schedule of an offline problem.

Alone, job *j* would advance through each phase *q* at its greatest rate :math:`\hat g_q`. In a
schedule it is delayed by

.. math::

    D_j = C_j - b_j - \sum_q W_q / \hat g_q
        = \int_{b_j}^{C_j} \bigl( 1 - g(t) / \hat g_{q(t)} \bigr) \, dt                       (1)

with the rate :math:`g(t)` at which it advances, 0 while it waits. What it loses at a moment is
shared out among the jobs that hold GPUs then, by the GPUs :math:`k_i(t)` that they hold:

.. math::

    D_{ji} = \int \bigl( 1 - g(t) / \hat g_{q(t)} \bigr) \,
        \frac{k_i(t)}{\sum_{l \ne j} k_l(t)} \, dt                                            (2)

While no other job holds any, nobody is to blame: the rest of (1) is the schedule's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import coo_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from scipy.sparse import csr_array

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule, Segment
    from goodalloc.models.support.array_types import Floats, Indices


class _Column(NamedTuple):
    """Numbers of a job: intervals, and what it has in each."""

    interval: Int[Indices, " some"]
    value: Float[Floats, " some"]


@dataclass(frozen=True)
class Delays:
    """Delays of all jobs, in the order of the problem.

    Parameters
    ----------
    total
        Seconds (1) by which every job is delayed; shape (jobs,).
    by
        Seconds (2) by which the job of each row is delayed by that of each column, sparse; shape
        (jobs, jobs).
    """

    total: Float[Floats, " jobs"]
    by: csr_array

    @property
    def caused(self) -> Float[Floats, " jobs"]:
        """Seconds by which every job delays all others."""
        return np.asarray(self.by.sum(axis=0), dtype=float)


def delays_of(problem: OfflineProblem, schedule: OfflineSchedule) -> Delays:
    """Return who is delayed by whom.

    Parameters
    ----------
    problem
        The problem.
    schedule
        A feasible schedule of it.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.experiments.hindsight import delays_of
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Segment, Supply, Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> segments = {"a": (Segment(0.0, 60.0, 0, 1.0),), "b": (Segment(60.0, 120.0, 0, 1.0),)}
    >>> delays_of(problem, segments).by.toarray().tolist()
    [[0.0, 0.0], [60.0, 0.0]]
    """
    jobs, edges = problem.jobs, _edges(problem, schedule)
    held = [_held(edges, schedule[job.name]) for job in jobs]
    lost = [_lost(edges, job, problem.training(job.training), schedule[job.name]) for job in jobs]
    gpus, seconds = _matrix(held, edges.size - 1), _matrix(lost, edges.size - 1)
    total = np.asarray(seconds.sum(axis=0), dtype=float)
    pairs = seconds.tocoo()
    interval, row = pairs.coords
    others = np.asarray(gpus.sum(axis=1))[interval] - np.asarray(gpus[interval, row])
    share = np.zeros(pairs.data.size)
    np.divide(pairs.data, others, out=share, where=others > 0)
    by = (coo_array((share, (row, interval)), shape=pairs.shape[::-1]).tocsr() @ gpus).tocsr()
    by.setdiag(0.0)
    by.eliminate_zeros()
    return Delays(total, by)


def _matrix(columns: Sequence[_Column], intervals: int) -> csr_array:
    """Return a matrix of the columns of all jobs."""
    owner = np.repeat(np.arange(len(columns)), [own.interval.size for own in columns])
    rows, values = (np.concatenate(own) for own in zip(*columns, strict=True))
    return coo_array((values, (rows, owner)), shape=(intervals, len(columns))).tocsr()


def _edges(problem: OfflineProblem, schedule: OfflineSchedule) -> Float[Floats, " edges"]:
    """Return the moments between which nobody's GPUs change, and the begins."""
    moments = [job.begin for job in problem.jobs]
    moments += [time for own in schedule.values() for segment in own for time in segment[:2]]
    return np.unique(moments)


def _held(edges: Float[Floats, " edges"], segments: Sequence[Segment]) -> _Column:
    """Return the GPUs that a job holds in each interval."""
    starts, ends, _, gpus = np.array(segments).T
    first, last = np.searchsorted(edges, starts), np.searchsorted(edges, ends)
    intervals = [np.arange(*pair) for pair in zip(first.tolist(), last.tolist(), strict=True)]
    return _Column(np.concatenate(intervals), np.repeat(gpus, last - first))


def _lost(
    edges: Float[Floats, " edges"],
    job: OfflineJob,
    training: Training,
    segments: Sequence[Segment],
) -> _Column:
    """Return the seconds that a job loses in each interval."""
    times, lost = [job.begin], [0.0]  # of the begins and ends of pieces with a constant rate
    most, work = training.rates.max(axis=(0, 2)), training.work.tolist()
    phase, left = 0, work[0]
    for start, end, row, gpus in segments:
        if start > times[-1]:
            lost.append(lost[-1] + start - times[-1])
            times.append(start)
        column = int(np.searchsorted(training.gpus, gpus))
        while times[-1] < end and phase < len(work):
            rate = float(training.rates[row, phase, column])
            needed = left / rate if rate else np.inf
            ends = times[-1] + needed <= end
            length = needed if ends else end - times[-1]
            lost.append(lost[-1] + length * (1.0 - rate / float(most[phase])))
            times.append(times[-1] + length)
            left -= rate * length
            if ends:
                phase += 1
                left = work[phase] if phase < len(work) else 0.0
    first, last = np.searchsorted(edges, [job.begin, times[-1]]).tolist()
    seconds = np.diff(np.interp(edges[first : last + 1], times, lost))
    return _Column(np.arange(first, last), seconds)
