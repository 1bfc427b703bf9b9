r"""Offline problem on a grid of time, as a mixed-integer program: exact on small cases.

Every job holds the same GPUs from one edge of the grid to the next, interval *t* of length
:math:`\Delta_t`. One where job *j* is on *k* GPUs of type *a* in interval *t*:
:math:`x_{jtak}`; seconds of it in which phase *q* is done: :math:`z_{jtqak}`; one where phase *q*
is done by the end of interval *t*: :math:`c_{jtq}`; seconds of the interval in which job *j* is
there: :math:`u_{jt}`. With :math:`g`, :math:`W`, :math:`w` and :math:`G` of
`models/hindsight/offline_problem.py`:

.. math::

    \min \sum_j w_j \Bigl( b_j - r_j + \sum_{t \ge b_j} u_{jt} \Bigr)                         (1)

    \sum_{a,k} x_{jtak} \le 1                                            \quad \forall j, t   (2)

    \sum_{j,k} k \, x_{jtak} \le G_{at}                                  \quad \forall a, t   (3)

    \sum_q z_{jtqak} \le \Delta_t \, x_{jtak}                      \quad \forall j, t, a, k   (4)

    \sum_{s \le t} \sum_{a,k} g_{aq}(k) \, z_{jsqak} \ge W_q \, c_{jtq}  \quad \forall j, t, q (5)

    \sum_{a,k} z_{jt,q+1,ak} \le \Delta_t \, c_{jtq}                     \quad \forall j, t, q (6)

    u_{jt} \ge \Delta_t (1 - c_{jtQ}), \quad
    u_{jt} \ge \sum_{q,a,k} z_{jtqak}                                    \quad \forall j, t   (7)

or, where jobs are due, by :math:`d_j` at the end of interval :math:`t_j`,

.. math:: \min \sum_j w_j (1 - c_{j t_j Q}) \quad \text{with (2) to (6)}                     (8)

The last interval of a job counts to the second in which it ends, (7); its GPUs are free at the next
edge. *Exact* for schedules that change at edges only; (2) to (7) without integrality are a bound,
but a weak one. A job may need :math:`c = 1` in the last interval, so that the horizon has to be
long enough for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.hindsight.offline_schedule import Segment

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class TimeIndexed:
    """Program with what decoding needs.

    Parameters
    ----------
    program
        The program, as a minimisation.
    edges
        Seconds of the grid.
    held
        Columns *x* of every job; -1 before it can train; shape (intervals, types, counts) each.
    """

    program: Program
    edges: Float[Floats, " edges"]
    held: tuple[Int[Indices, "intervals types counts"], ...]


def time_indexed_program(
    problem: OfflineProblem,
    edges: Float[Floats, " edges"],
    *,
    constant: bool = True,
    due: Float[Floats, " jobs"] | None = None,
) -> TimeIndexed:
    """Build the program (1) to (7), or (8).

    Parameters
    ----------
    problem
        The problem; jobs begin at edges, and the supply changes there.
    edges
        Seconds of the grid, ascending from 0.
    constant
        Whether jobs hold whole numbers of GPUs through an interval; else *x* is continuous, which
        gives a bound where time and GPUs can be shared at will, though phases keep their order.
    due
        Edges by which the jobs are due, for the least weight of late jobs, (8); None for (1).

    Raises
    ------
    ValueError
        If a job begins between two edges, or behind the last but one, or is due between two.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import time_indexed_program
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> job = OfflineJob("a", "one", 0.0, 30.0)
    >>> problem = OfflineProblem((training,), (job,), Supply.constant({"t4": 2.0}))
    >>> time_indexed_program(problem, np.array([0.0, 30.0, 60.0, 90.0])).program.num_columns
    12
    """
    builder = ProgramBuilder()
    lengths, supply = np.diff(edges), problem.supply.mean(edges)
    intervals, types = supply.shape
    free = builder.add_rows("free", intervals * types, upper=supply.ravel())
    free = free.reshape(intervals, types)
    offset, held = 0.0, []
    for row, job in enumerate(problem.jobs):
        training = problem.training(job.training)
        first = int(np.searchsorted(edges, job.begin))
        if first >= intervals or edges[first] != job.begin:
            raise ValueError(
                f"Job '{job.name}': begin is {job.begin:g} s; expected one of the edges of the "
                "grid but the last."
            )
        length, cost = lengths[first:], _Cost(job.weight, np.zeros(intervals - first))
        if due is None:
            offset += job.weight * (job.begin - job.release)
        else:
            offset += job.weight
            cost = _late_cost(job, float(due[row]), edges[first:])
        columns = _add_columns(builder, job, training, length, cost, constant=constant)
        builder.add_entries(free[first:, :, None], columns.hold, training.gpus)
        _add_allocation(builder, job, columns, length)
        _add_progress(builder, job, training, columns, length)
        _add_completion(builder, job, columns, length)
        padding = np.full((first, types, training.gpus.size), -1)
        held.append(np.concatenate([padding, columns.hold]))
    return TimeIndexed(builder.build(offset), edges, tuple(held))


class _Cost(NamedTuple):
    """Costs of a job: of a second in which it is there, and of *c* of its last phase."""

    there: float
    done: Float[Floats, " intervals"]


def _late_cost(job: OfflineJob, due: float, edges: Float[Floats, " edges"]) -> _Cost:
    """Return the costs of a job in (8), but for the constant.

    Raises
    ------
    ValueError
        If it is due between two edges.
    """
    done = np.zeros(edges.size - 1)
    if due > edges[0]:
        last = int(np.searchsorted(edges, due))
        if last == edges.size or edges[last] != due:
            raise ValueError(
                f"Job '{job.name}': it is due at {due:g} s; expected an edge of the grid."
            )
        done[last - 1] = -job.weight
    return _Cost(0.0, done)


class _Columns(NamedTuple):
    """Columns of a job: *x*, *z*, *c* and *u*."""

    hold: Int[Indices, "intervals types counts"]
    work: Int[Indices, "intervals phases types counts"]
    done: Int[Indices, "intervals phases"]
    there: Int[Indices, " intervals"]


def _add_columns(
    builder: ProgramBuilder,
    job: OfflineJob,
    training: Training,
    length: Float[Floats, " intervals"],
    cost: _Cost,
    *,
    constant: bool,
) -> _Columns:
    """Add the columns of a job, with their part of (1) or (8)."""
    types, phases, counts = training.rates.shape
    left, name = length.size, job.name
    size = left * types * counts
    hold = builder.add_columns(f"hold_{name}", size, upper=1.0, integer=constant)
    work = builder.add_columns(f"work_{name}", phases * size, integer=False)
    each = np.zeros((left, phases))
    each[:, -1] = cost.done
    done = builder.add_columns(f"done_{name}", left * phases, cost=each.ravel(), upper=1.0)
    return _Columns(
        hold.reshape(left, types, counts),
        work.reshape(left, phases, types, counts),
        done.reshape(left, phases),
        builder.add_columns(f"there_{name}", left, cost=cost.there, upper=length, integer=False),
    )


def _add_allocation(
    builder: ProgramBuilder, job: OfflineJob, columns: _Columns, length: Float[Floats, " intervals"]
) -> None:
    """Add the rows (2) and (4) of a job."""
    hold = columns.hold
    one = builder.add_rows(f"one_{job.name}", len(hold), upper=1.0)
    builder.add_entries(one[:, None, None], hold, 1.0)
    time = builder.add_rows(f"time_{job.name}", hold.size, upper=0.0).reshape(hold.shape)
    builder.add_entries(time, hold, -length[:, None, None])
    builder.add_entries(time[:, None], columns.work, 1.0)


def _add_progress(
    builder: ProgramBuilder,
    job: OfflineJob,
    training: Training,
    columns: _Columns,
    length: Float[Floats, " intervals"],
) -> None:
    """Add the rows (5) and (6) of a job."""
    work, done, phases = columns.work, columns.done, training.num_phases
    for index in range(length.size):
        rows = builder.add_rows(f"progress_{job.name}_{index}", phases, lower=0.0)
        rates = training.rates.transpose(1, 0, 2)
        builder.add_entries(rows[None, :, None, None], work[: index + 1], rates)
        builder.add_entries(rows, done[index], -training.work)
        order = builder.add_rows(f"order_{job.name}_{index}", phases - 1, upper=0.0)
        builder.add_entries(order[:, None, None], work[index, 1:], 1.0)
        builder.add_entries(order, done[index, :-1], -length[index])


def _add_completion(
    builder: ProgramBuilder, job: OfflineJob, columns: _Columns, length: Float[Floats, " intervals"]
) -> None:
    """Add the rows (7) of a job, and one by which it ends."""
    _, work, done, there = columns
    whole = builder.add_rows(f"whole_{job.name}", length.size, lower=length)
    builder.add_entries(whole, there, 1.0)
    builder.add_entries(whole, done[:, -1], length)
    part = builder.add_rows(f"part_{job.name}", length.size, lower=0.0)
    builder.add_entries(part, there, 1.0)
    builder.add_entries(part[:, None, None, None], work, -1.0)
    ended = builder.add_rows(f"ended_{job.name}", 1, lower=1.0)
    builder.add_entries(ended, done[-1:, -1], 1.0)


def decode_schedule(
    problem: OfflineProblem, grid: TimeIndexed, values: Float[Floats, " columns"]
) -> OfflineSchedule:
    """Return the schedule of a solution of the program with whole *x*."""
    schedule: OfflineSchedule = {}
    for job, held in zip(problem.jobs, grid.held, strict=True):
        gpus = problem.training(job.training).gpus
        segments: list[Segment] = []
        for index, cell in enumerate(held):
            if cell[0, 0] < 0 or not (taken := np.argwhere(values[cell] > 0.5)).size:
                continue
            row, column = map(int, taken[0])
            start, end = float(grid.edges[index]), float(grid.edges[index + 1])
            segments.append(Segment(start, end, row, float(gpus[column])))
        schedule[job.name] = tuple(segments)
    return schedule
