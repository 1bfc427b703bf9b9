r"""Mixed-integer programs over time shares: jobs that can have more, and promises to keep.

Over the shares (1) of `models/gavel/time_sharing.py`, with binary :math:`z_j` for the jobs. The
first, as published with Gavel, finds the jobs that can rise above a common level:

.. math:: \max_{X, z} \sum_j z_j \quad \text{s.t.} \quad \tau_j(X) \ge r_j (1 + \epsilon z_j).   (1)

By convexity all jobs that can rise can do so together, a little. The second finds the most promised
rates that can be kept together where not all can (Gavel then drops them all):

.. math:: \max_{X, z} \sum_{j : r_j > 0} z_j \quad \text{s.t.} \quad \tau_j(X) \ge r_j z_j.      (2)

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import cvxpy
import numpy as np
from scipy.sparse import diags_array

from goodalloc.formulations.gavel.share_program import incidence, rate_matrix
from goodalloc.models.gavel.time_sharing import largest_rates, real_rates
from goodalloc.solvers.milp.highs_program import TRUSTED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from goodalloc.models.gavel.share_goal import Level
    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats


#: CVXPY; most of its names are defined where type checkers do not see them.
cp: Any = cvxpy

#: Relative rise of a job that can rise, and relative part of a promise that rounding may take.
RISE, SLACK = 1e-4, 1e-6


def most_that_rise(sharing: TimeSharing, goal: Level, floor: Floats) -> NDArray[np.bool_]:
    """Return which jobs can have more than a level, the others no less: the program (1).

    Parameters
    ----------
    sharing
        The jobs and their rates.
    goal
        Level, of which the jobs with a positive step count.
    floor
        Rates *r* that the jobs have.
    """
    counts, units = np.flatnonzero(goal.step > 0), largest_rates(sharing)
    has = floor / units
    shares, within = _shares(sharing)
    rises = cp.Variable(counts.size, boolean=True)
    rate = rate_matrix(sharing, units) @ shares
    more = cp.multiply(has[counts], 1.0 + RISE * rises)
    problem = cp.Problem(
        cp.Maximize(cp.sum(rises)), [rate >= has * (1.0 - SLACK), rate[counts] >= more, *within]
    )
    problem.solve(solver="HIGHS", **TRUSTED)
    found = np.zeros(sharing.num_jobs, dtype=bool)
    if rises.value is not None:
        found[counts] = rises.value > 0.5
    return found


class KeptPromises(NamedTuple):
    """Promises that can be kept together.

    Attributes
    ----------
    kept
        Whether each promise is kept, shape (jobs,); false where nothing was promised.
    bound
        Upper bound on the number that can be kept.
    status
        ``"optimal"``, ``"feasible"``, or ``"unknown"`` if a solver failed, and none is kept.
    """

    kept: NDArray[np.bool_]
    bound: int
    status: Literal["optimal", "feasible", "unknown"]


def most_promises(
    sharing: TimeSharing, promised: ArrayLike, *, seconds: float | None = None
) -> KeptPromises:
    """Return the most promises that can be kept together, up to rounding: the program (2).

    Parameters
    ----------
    sharing
        The jobs and their rates.
    promised
        r: steps per second, shape (jobs,).
    seconds
        Time limit.

    Raises
    ------
    ValueError
        If the promises are not finite numbers of at least 0, one for each job.
    """
    rates = real_rates("Promised rates", promised, (sharing.num_jobs,))
    kept = np.zeros(sharing.num_jobs, dtype=bool)
    possible = np.flatnonzero((rates > 0) & (rates <= largest_rates(sharing)))
    if not possible.size:
        return KeptPromises(kept, 0, "optimal")
    shares, within = _shares(sharing)
    keeps = cp.Variable(possible.size, boolean=True)
    part = diags_array(1.0 / rates[possible]) @ rate_matrix(sharing, np.ones_like(rates))[possible]
    problem = cp.Problem(
        cp.Maximize(cp.sum(keeps)), [part @ shares >= (1.0 - SLACK) * keeps, *within]
    )
    try:
        limits = {} if seconds is None else {"time_limit": seconds}
        problem.solve(solver="HIGHS", **TRUSTED, **limits)
    except cp.SolverError:
        return KeptPromises(kept, possible.size, "unknown")
    if keeps.value is None:
        return KeptPromises(kept, possible.size, "unknown")
    kept[possible] = keeps.value > 0.5
    if problem.status != "optimal":
        return KeptPromises(kept, possible.size, "feasible")
    return KeptPromises(kept, int(kept.sum()), "optimal")


def _shares(sharing: TimeSharing) -> tuple[Any, list[Any]]:
    """Return the variables X, and the limits of time and GPUs."""
    time_of, gpus_of = incidence(sharing)
    shares = cp.Variable(sharing.num_lines * sharing.num_types, nonneg=True)
    return shares, [time_of @ shares <= 1.0, gpus_of @ shares <= sharing.gpus]
