"""Makespan by bisection over programs without objective, as in Gavel's published code.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.formulations.gavel.share_certificate import certify, no_prices
from goodalloc.formulations.gavel.share_program import require_solver, solve_shares
from goodalloc.models.gavel.share_goal import Gain, Worst, require_goal
from goodalloc.models.gavel.time_sharing import isolated_shares, largest_rates
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_number
from goodalloc.solvers.gavel.time_shares import ShareResult, misses_promises, repaired

if TYPE_CHECKING:
    from goodalloc.models.gavel.time_sharing import TimeSharing


def makespan_by_bisection(
    sharing: TimeSharing,
    goal: Worst,
    *,
    ratio: float = 1.05,
    solver: str = CONE_SOLVER,
    **options: Any,
) -> ShareResult:
    """Minimise the worst delay by bisection, as Gavel publishes it for the makespan.

    Every step decides by a program without objective whether all jobs can end in time. It stops
    when the shortest time that is known to suffice is at most `ratio` times one that is not.

    Parameters
    ----------
    sharing, goal
        The jobs and their rates, and the delays.
    ratio
        Ratio above 1 at which to stop; Gavel's is 1.05.
    solver, options
        A solver that CVXPY finds, and settings of its own.

    Raises
    ------
    ValueError
        If `ratio` is not a finite number above 1, the goal is no worst delay of these jobs, or
        CVXPY does not find the solver.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, makespan
    >>> from goodalloc.solvers.gavel import makespan_by_bisection
    >>> sharing = TimeSharing(["a", "b"], [[2.0], [1.0]], [1], [1, 1])  # two jobs, one GPU
    >>> result = makespan_by_bisection(sharing, makespan([20.0, 10.0]))  # 10 s each, alone
    >>> 20.0 <= result.value <= 21.0
    True
    """
    require_goal(sharing, goal)
    if not isinstance(goal, Worst):
        raise ValueError(f"Bisection: goal is {type(goal).__name__}; expected Worst.")
    require_solver(solver)
    require_number("Bisection: ratio", ratio)
    if not 1.0 < ratio < math.inf:
        raise ValueError(f"Bisection: ratio is {ratio}; expected a finite number above 1.")
    best = isolated_shares(sharing)
    high = goal.value(sharing, best)
    low = float(np.max(goal.delay + goal.work / largest_rates(sharing)))
    nothing = Gain(np.zeros(best.shape))
    programs, built, solved = 0, 0.0, 0.0
    while high > low * ratio:
        middle = math.sqrt(low * high)
        wanted = goal.work / np.maximum(middle - goal.delay, np.finfo(float).tiny)
        found = solve_shares(sharing, nothing, wanted, solver=solver, **options)
        programs, built = programs + 1, built + found.build_seconds
        solved += found.solve_seconds
        shares = None if found.shares is None else repaired(sharing, found.shares)
        if shares is None or misses_promises(sharing, shares, wanted):
            low = middle
        else:
            best, high = shares, middle
    sure = certify(sharing, goal, no_prices(sharing))
    return ShareResult(
        shares=best,
        value=goal.value(sharing, best),
        bound=sure.bound,
        larger_is_better=False,
        message="bisection",
        build_seconds=built,
        solve_seconds=solved,
        programs=programs,
        prices=sure.prices,
    )
