r"""DeDe on rounds in columns: subproblems of resources and of demands in turn, by ADMM.

A share :math:`x_{bj}` is the GPUs that job *j* has of block *b* of the nodes. The blocks' own
constraints (what they hold) and the jobs' own terms (the cost of all GPUs that a job has, made
convex) are decoupled by a copy *z* of *x*, and solved in turn:

.. math::

    x_b &= \arg\min \|x_b - z_b + u_b\|^2 \quad \text{s.t.} \quad
        \textstyle\sum_j x_{bj} \le G_b, \; x_b \ge 0,                                       (1) \\
    z_j &= \arg\min c_j\bigl(\textstyle\sum_b z_{bj}\bigr)
        + \tfrac{\rho}{2} \|z_j - x_j - u_j\|^2, \qquad u \mathrel{+}= x - z,                (2)

each for all blocks and for all jobs at once. The penalty follows the residuals, and iterations end
when both are small, within the tolerance and the range of DeDe's published code; shares are then
rounded, and placed as in `placing.py`.

References
----------
Xu, Yu and Yan, "Decouple and Decompose: Scaling Resource Allocation with DeDe", OSDI 2025.
    https://www.usenix.org/conference/osdi25/presentation/xu
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.columns.placing import place_replicas
from goodalloc.solvers.columns.priced_greedy import costs_below_best

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Most blocks of nodes: equal nodes that share a block change nothing but the time.
MOST_BLOCKS = 16

#: Iterations at most, and the relative residuals that end them.
MOST_ITERATIONS, TOLERANCE = 10_000, 0.005

#: Iterations after which the penalty is doubled or halved where one residual is this many times the
#: other; its range; what stands for a residual of nothing.
BALANCED, APART = 10, 10.0
LEAST_PENALTY, GREATEST_PENALTY, TINY = 0.05, 100.0, 1e-300


def decouple(
    utilities: RoundUtilities,
    *,
    penalty: float = 1.0,
    alternate: Callable[[Floats, Floats], Floats] | None = None,
) -> Allocation:
    r"""Return the allocation that the alternating subproblems come to.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.
    penalty
        First :math:`\rho`, in units of the mean saving of a job's first GPU.
    alternate
        Another implementation of the iterations: from the slopes, shape (jobs, steps), and the GPUs
        of every block, shape (blocks,), to the GPUs of every job, shape (jobs,).

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models import violations
    >>> from goodalloc.solvers.columns import TabulatedUtilities, decouple
    >>> instance = generate(seed=0, jobs=100, nodes=16, gpus_per_node=4)
    >>> violations(instance, decouple(TabulatedUtilities(instance)))
    ()
    """
    cost, cluster = costs_below_best(utilities), utilities.columns.cluster
    slope = convex_slopes(cost)
    slope /= np.abs(slope[:, 0]).mean() or 1.0  # 0 where no job gains from a GPU
    blocks = np.array_split(cluster.node_gpus, min(cluster.num_nodes, MOST_BLOCKS))
    gpus = np.array([float(block.sum()) for block in blocks])
    shares = _alternate(slope, gpus, penalty) if alternate is None else alternate(slope, gpus)
    return place_replicas(utilities, _rounded(shares, cost, cluster.num_gpus))


def convex_slopes(cost: Float[Floats, "jobs gpus"]) -> Float[Floats, "jobs steps"]:
    """Return the slopes of the greatest convex function below the cost of every job.

    Parameters
    ----------
    cost
        Cost of every job on *K* GPUs, shape (jobs, most GPUs + 1); infinite where not allowed.

    Returns
    -------
    ndarray
        Saving, below 0, or 0 of the next GPU: shape (jobs, most GPUs), never falling in a row.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.columns import convex_slopes
    >>> convex_slopes(np.array([[0.0, -1.0, -4.0, -3.0]])).tolist()
    [[-2.0, -2.0, 0.0]]
    """
    jobs, width = cost.shape
    slope = np.zeros((jobs, width - 1))
    reached = np.zeros(jobs, dtype=np.int64)
    step = np.arange(width)
    for _ in range(width - 1):
        now = cost[np.arange(jobs), reached][:, None]
        ahead = step > reached[:, None]
        rate = np.where(ahead, (cost - now) / np.where(ahead, step - reached[:, None], 1), np.inf)
        best = np.argmin(rate, axis=1)
        steepest = rate[np.arange(jobs), best]
        going = steepest < 0.0
        if not going.any():
            break
        inside = (step[1:] > reached[:, None]) & (step[1:] <= best[:, None]) & going[:, None]
        slope = np.where(inside, steepest[:, None], slope)
        reached = np.where(going, best, reached)
    return slope


def _alternate(slope: Floats, gpus: Floats, penalty: float) -> Floats:
    """Return the GPUs of every job that the iterations end with."""
    blocks, jobs = gpus.size, len(slope)
    copies = shares = np.tile((gpus / jobs)[:, None], (1, jobs))
    dual = np.zeros((blocks, jobs))
    below = np.arange(slope.shape[1])
    for iteration in range(1, MOST_ITERATIONS + 1):
        shares = _within(copies - dual, gpus)
        target = shares + dual
        total = target.sum(axis=0)
        sought = total[:, None] - (blocks / penalty) * slope - below
        wanted = np.clip(sought, 0.0, 1.0).sum(axis=1)
        before, copies = copies, target + (wanted - total) / blocks
        dual += shares - copies
        apart = float(np.linalg.norm(shares - copies))
        moved = penalty * float(np.linalg.norm(copies - before))
        size = max(float(np.linalg.norm(shares)), float(np.linalg.norm(copies)))
        if apart <= TOLERANCE * size and moved <= TOLERANCE * penalty * np.linalg.norm(dual):
            break
        if iteration % BALANCED == 0 and not 1.0 / APART < apart / max(moved, TINY) < APART:
            factor = 2.0 if apart > moved else 0.5
            factor = min(max(penalty * factor, LEAST_PENALTY), GREATEST_PENALTY) / penalty
            penalty, dual = penalty * factor, dual / factor
    return np.asarray(shares.sum(axis=0))


def _within(shares: Floats, gpus: Floats) -> Floats:
    """Return the nearest shares of every block that are at least 0 and add up to what it holds."""
    positive = np.maximum(shares, 0.0)
    over = positive.sum(axis=1) > gpus
    if over.any():
        ordered = -np.sort(-shares[over], axis=1)
        excess = np.cumsum(ordered, axis=1) - gpus[over, None]
        level = excess / np.arange(1, shares.shape[1] + 1)
        last = np.count_nonzero(ordered > level, axis=1) - 1
        positive[over] = np.maximum(shares[over] - level[np.arange(last.size), last][:, None], 0.0)
    return positive


def _rounded(shares: Floats, cost: Floats, gpus: int) -> Indices:
    """Return whole numbers of GPUs that are allowed and fit: down, then the largest remainders."""
    whole = np.floor(shares + 1e-9).astype(np.int64)
    left = gpus - int(whole.sum())
    order = np.argsort(whole - shares, kind="stable")[: max(left, 0)]
    order = order[shares[order] - whole[order] > 1e-9]
    whole[order] += 1
    allowed = np.isfinite(cost) & (np.arange(cost.shape[1]) <= whole[:, None])
    return np.asarray(cost.shape[1] - 1 - np.argmax(allowed[:, ::-1], axis=1))
