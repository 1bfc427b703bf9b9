r"""Bounds of jobs at given prices that do blocks of their phases one after the other.

The bound (3) of `formulations/hindsight/price_bound.py` relaxes the order of the phases. Here they
are in blocks of consecutive phases, :math:`\beta = 1, \dots, B`, with an order between the blocks
and none within. With :math:`h_{\mu \beta}` taken over the phases of a block and :math:`H_{\mu
\beta}` its integral over time, all that a job pays for GPUs until it ends block :math:`\beta` at
*m* is at least

.. math::

    F_\beta(m) = \min_{m' \le m - d_\beta} \Bigl[ F_{\beta - 1}(m') + \max_\mu \Bigl(
        \sum_{q \in \beta} \mu_q W_q - H_{\mu \beta}(m) + H_{\mu \beta}(m') \Bigr) \Bigr]      (1)

from :math:`F_0(b) = 0` on, where :math:`d_\beta` is the least time of the block; and the job costs
at least :math:`\min_C w (C - r) + F_B(C)`. Time is cut into cells of constant prices. In each the
programme keeps three linear functions that are nowhere above :math:`F_\beta`. For one of them and
one :math:`\mu`, (1) is linear in *m* and in *m'*, so that its minimum over a cell of *m'* is at one
of the two ends, and the minimum over all cells of *m'* is linear in *m* again. The :math:`\mu` kept
are those that are best at the start, in the middle and at the end of the cell of *m*; any others
are safe, too. Blocks of few cells lose by it more than their order gains.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.hindsight.phase_earnings import FAR, intervals_that_count, phase_earnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Seconds of a cell, most blocks of a training, and least seconds of a block in cells.
CELL, BLOCKS, CELLS = 30.0, 24, 4.0


class _Block(NamedTuple):
    """Consecutive phases.

    Attributes
    ----------
    seconds
        Least time that they take.
    worth
        Multipliers times work, summed over the phases; shape (patterns,).
    total
        Integral H of the earnings up to each edge of the cells; shape (patterns, edges).
    """

    seconds: float
    worth: Float[Floats, " patterns"]
    total: Float[Floats, "patterns edges"]


class _Lines(NamedTuple):
    """Lines at both ends of every cell, for each multipliers; shape (patterns, cells)."""

    at_start: Float[Floats, "patterns cells"]
    at_end: Float[Floats, "patterns cells"]

    def kept(self) -> list[_Lines]:
        """Return those that are greatest at the start, in the middle and at the end of each."""
        cell = np.arange(self.at_start.shape[1])
        aims = (self.at_start, self.at_start + self.at_end, self.at_end)
        best = [aim.argmax(axis=0) for aim in aims]
        return [_Lines(self.at_start[row, cell], self.at_end[row, cell]) for row in best]


def ordered_job_bounds(
    problem: OfflineProblem,
    bound: HindsightBound,
    *,
    cell: float = CELL,
    blocks: int = BLOCKS,
) -> Float[Floats, " jobs"]:
    """Return a bound of every job at the prices of a bound, no smaller than there.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules: prices, and multipliers of every training.
    cell
        Most seconds of a cell of time.
    blocks
        Most blocks of a training.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound, ordered_job_bounds
    >>> rates = np.array([[[1.0, 1.5], [1.0, 1.1]]])
    >>> training = Training("two", np.array([600.0, 900.0]), np.array([1.0, 2.0]), rates)
    >>> jobs = (OfflineJob("a", "two", 0.0, 0.0), OfflineJob("b", "two", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> bound = hindsight_bound(problem)
    >>> bool((ordered_job_bounds(problem, bound) >= bound.job_bounds).all())
    True
    """
    parts = np.maximum(np.ceil(np.diff(bound.edges) / cell - 1e-9).astype(int), 1)
    lengths = np.repeat(np.diff(bound.edges) / parts, parts)
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    found = bound.job_bounds.copy()
    for training in problem.trainings:
        rows = problem.jobs_of(training.name)
        cuts = _cuts(training, CELLS * float(lengths.max()), blocks)
        if not rows.size or len(cuts) < 3:
            continue
        own = [
            _block(training, bound, slice(start, end), parts, lengths)
            for start, end in pairwise(cuts)
        ]
        for row in rows.tolist():
            job = problem.jobs[row]
            far = FAR * found[row] / job.weight
            found[row] = max(found[row], _ordered(job, own, edges, far))
    return found


def _cuts(training: Training, least: float, blocks: int) -> list[int]:
    """Return the first phases of the blocks, and the number of phases."""
    total = np.cumsum(training.least_phase_seconds)
    number = max(min(blocks, training.num_phases, int(total[-1] / least)), 1)
    aims = total[-1] * np.arange(1, number) / number
    inner = np.searchsorted(total, aims * (1 - 1e-12)) + 1
    return sorted({0, training.num_phases, *inner.tolist()})


def _block(
    training: Training,
    bound: HindsightBound,
    phases: slice,
    parts: Int[Indices, " intervals"],
    lengths: Float[Floats, " cells"],
) -> _Block:
    """Return a block of phases."""
    values = bound.multipliers[training.name].values
    earned = np.repeat(phase_earnings(training, values, bound.prices, phases), parts, axis=1)
    total = np.zeros((len(values), lengths.size + 1))
    np.cumsum(earned * lengths, axis=1, out=total[:, 1:])
    worth = values[:, phases] @ training.work[phases]
    return _Block(float(training.least_phase_seconds[phases].sum()), worth, total)


def _ordered(
    job: OfflineJob, blocks: Sequence[_Block], edges: Float[Floats, " edges"], far: float
) -> float:
    """Return the bound of a job; behind so many seconds after its release it has ended."""
    first, stop, least = intervals_that_count(job, edges, far)
    if first >= stop:
        return least
    own = edges[first : stop + 1]
    lines = _first(job, blocks[0], own, first)
    for block in blocks[1:]:
        lines = _next(lines.kept(), block, own, first)
    cost = job.weight * (own - job.release)
    value = np.minimum(lines.at_start + cost[:-1], lines.at_end + cost[1:]).max(axis=0)
    return min(least, float(value.min()))


def _first(job: OfflineJob, block: _Block, edges: Float[Floats, " edges"], first: int) -> _Lines:
    """Return the lines of the first block."""
    total = block.total[:, first : first + edges.size]
    share = (job.begin - edges[0]) / (edges[1] - edges[0])
    begun = total[:, 0] + share * (total[:, 1] - total[:, 0])
    possible = edges[1:] >= job.begin + block.seconds * (1 - 1e-9)
    reached = np.where(possible, begun[:, None] + block.worth[:, None], np.inf)
    return _Lines(reached - total[:, :-1], reached - total[:, 1:])


def _next(
    before: Sequence[_Lines], block: _Block, edges: Float[Floats, " edges"], first: int
) -> _Lines:
    """Return the lines of a block, from those that were kept of the one before."""
    total = block.total[:, first : first + edges.size]
    reached = np.full((len(total), edges.size - 1), -np.inf)
    for at_start, at_end in before:
        least = np.minimum(at_start + total[:, :-1], at_end + total[:, 1:])
        np.maximum(reached, least, out=reached)
    np.minimum.accumulate(reached, axis=1, out=reached)
    # the last cell from which the block can be done by the end of each
    last = np.searchsorted(edges, edges[1:] - block.seconds * (1 - 1e-9), side="right") - 1
    reached = np.where(last >= 0, reached[:, last.clip(0)], np.inf) + block.worth[:, None]
    return _Lines(reached - total[:, :-1], reached - total[:, 1:])
