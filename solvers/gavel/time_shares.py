"""Time shares that are checked and certified, for every goal of Gavel, exactly.

A solver's shares are repaired to the last digit, priced again by the goal and checked by
`share_violations`; the bound is certified by the solver's prices
(`formulations/gavel/share_certificate.py`).

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from goodalloc.formulations.gavel.share_certificate import as_promises, certify, no_prices
from goodalloc.formulations.gavel.share_program import solve_shares
from goodalloc.models.gavel.share_goal import Gain, Level, require_goal
from goodalloc.models.gavel.time_sharing import (
    TimeSharing,
    rates,
    real_rates,
    share_violations,
)
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.gavel.share_certificate import SharePrices
    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.support.array_types import Floats


#: Status of shares; see `ShareResult.status`.
ShareStatus = Literal["optimal", "feasible", "infeasible", "unknown"]

#: Part of a promised rate that may be missing due to a solver's rounding.
PROMISE_TOLERANCE = 1e-6

#: Relative gap below which shares are called optimal.
OPTIMAL_GAP = 1e-5

#: Pairs for every job that a program begins with, and that enter at a time.
FIRST_PAIRS, MORE_PAIRS = 4, 4


@dataclass(frozen=True)
class ShareResult:
    """Checked shares, with their value and a proved bound.

    Parameters
    ----------
    shares
        X, shape (lines, types); None if none were found that pass the checker.
    value
        Value of the goal, computed from the shares; NaN without them.
    bound
        Proved bound on the value of any shares; -inf, or inf where less is better, if none keep the
        promises.
    larger_is_better
        Whether larger values are better, so that `bound` is an upper bound.
    message
        Message of the solver, or the violated condition.
    build_seconds, solve_seconds
        Time to build and translate programs, and to solve them.
    programs
        Number of programs solved.
    prices
        Prices that prove the bound or, if it is infinite, that no shares keep the promises; None
        where nothing is proved. `solvers/gavel/share_certificate_file.py` writes them to a file.
    """

    shares: Floats | None
    value: float
    bound: float
    larger_is_better: bool
    message: str = ""
    build_seconds: float = 0.0
    solve_seconds: float = 0.0
    programs: int = 1
    prices: SharePrices | None = None

    @property
    def gap(self) -> float:
        """Distance of bound and value, relative to the better of the two; NaN without shares."""
        if not math.isfinite(self.value):
            return math.nan
        better, worse = self.bound, self.value
        if not self.larger_is_better:
            better, worse = worse, better
        return max(better - worse, 0.0) / better if better > 0 else 0.0

    @property
    def status(self) -> ShareStatus:
        """Status by the gap to the bound.

        ``"optimal"`` with a gap of at most `OPTIMAL_GAP`, ``"feasible"`` with a larger one;
        without shares ``"infeasible"`` if it is proved that none keep the promises, else
        ``"unknown"``.
        """
        if self.shares is None:
            return "infeasible" if self.bound == _impossible(self.larger_is_better) else "unknown"
        return "optimal" if self.gap <= OPTIMAL_GAP else "feasible"


def best_shares(
    sharing: TimeSharing,
    goal: Goal,
    promised: Floats | None = None,
    *,
    solver: str = CONE_SOLVER,
    **options: Any,
) -> ShareResult:
    """Return the best time shares for a goal.

    Parameters
    ----------
    sharing
        The jobs and their rates.
    goal
        Goal of the shares.
    promised
        Least steps per second of every job, shape (jobs,). Where no shares are found that keep
        them, the largest part of them that can be kept decides whether there are any.
    solver, options
        A solver that CVXPY finds, and settings of its own.

    Raises
    ------
    ValueError
        If the goal or the promises are not of these jobs, or CVXPY does not find the solver.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> from goodalloc.solvers.gavel import best_shares
    >>> sharing = TimeSharing(["a", "b"], [[2.0], [1.0]], [1], [1, 1])  # two jobs, one GPU
    >>> result = best_shares(sharing, max_min(sharing))
    >>> result.shares.round(3).tolist(), result.status
    ([[0.5], [0.5]], 'optimal')
    """
    require_goal(sharing, goal)
    if promised is not None:
        promised = real_rates("Promised rates", promised, (sharing.num_jobs,))
    found = solve_shares(sharing, goal, promised, solver=solver, **options)
    shares = None if found.shares is None else repaired(sharing, found.shares)
    shares, value, message = _priced(sharing, goal, shares, promised, found.status)
    result = ShareResult(
        shares=shares,
        value=value,
        bound=found.bound,
        larger_is_better=goal.larger_is_better,
        message=message,
        build_seconds=found.build_seconds,
        solve_seconds=found.solve_seconds,
        prices=found.proof,
    )
    if shares is not None or promised is None or not np.any(promised):
        return result
    kept = best_shares(sharing, _promises(sharing, promised), solver=solver, **options)
    return _judged(sharing, goal, promised, result, kept)


def _promises(sharing: TimeSharing, promised: Floats) -> Level:
    """Return the goal of the largest part of the promised rates that can be kept."""
    return Level(np.zeros(sharing.num_jobs), promised)


def _judged(
    sharing: TimeSharing, goal: Goal, promised: Floats, result: ShareResult, kept: ShareResult
) -> ShareResult:
    """Return a result without shares, judged by the shares that keep most of the promises."""
    result = replace(
        result,
        build_seconds=result.build_seconds + kept.build_seconds,
        solve_seconds=result.solve_seconds + kept.solve_seconds,
        programs=result.programs + kept.programs,
    )
    if kept.bound < 1.0 and kept.prices is not None:
        message = f"at most {kept.bound:.6g} of the promised rates can be kept"
        bound, prices = _impossible(goal.larger_is_better), as_promises(kept.prices)
        return replace(result, bound=bound, message=message, prices=prices)
    shares, value, message = _priced(sharing, goal, kept.shares, promised, "failed")
    sure = certify(sharing, goal, no_prices(sharing))
    return replace(
        result, shares=shares, value=value, bound=sure.bound, message=message, prices=sure.prices
    )


def _impossible(larger_is_better: bool) -> float:
    """Return the objective value reported when no feasible shares exist (±inf)."""
    return -math.inf if larger_is_better else math.inf


def _priced(
    sharing: TimeSharing, goal: Goal, shares: Floats | None, promised: Floats | None, status: str
) -> tuple[Floats | None, float, str]:
    """Return shares that pass the checker and keep promises, their value, and a message."""
    message = f"solver: {status}"
    if shares is None:
        return None, math.nan, message
    if broken := share_violations(sharing, shares):
        return None, math.nan, broken[0]
    if promised is not None and misses_promises(sharing, shares, promised):
        return None, math.nan, f"{message}; promised rates are missed"
    return shares, goal.value(sharing, shares), message


def best_shares_with_pairs(
    sharing: TimeSharing,
    goal: Goal,
    promised: Floats | None = None,
    *,
    gap: float = OPTIMAL_GAP,
    solver: str = CONE_SOLVER,
) -> ShareResult:
    """Return the best time shares where pairs are many, by column generation.

    A program has some of the pairs. Its prices tell which other pairs would improve it; these
    enter, until none remains or the certificate, which is over *all* pairs, is close enough. Few
    pairs are ever useful.

    Parameters
    ----------
    sharing, goal, promised, solver
        As of `best_shares`.
    gap
        Relative gap at which to stop.

    Raises
    ------
    ValueError
        If the goal or the promises are not of these jobs, `gap` is negative, or CVXPY does not find
        the solver.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> from goodalloc.solvers.gavel import best_shares_with_pairs
    >>> sharing = TimeSharing(["a", "b"], [[2.0], [1.0]], [1], [1, 1])  # two jobs, one GPU
    >>> best_shares_with_pairs(sharing, max_min(sharing)).shares.round(3).tolist()
    [[0.5], [0.5]]
    """
    require_goal(sharing, goal)
    require_number("Time shares: gap", gap, minimum=0.0)
    jobs, better = sharing.num_jobs, min if goal.larger_is_better else max
    chosen = _first_pairs(sharing)
    sure = certify(sharing, goal, no_prices(sharing))
    found = ShareResult(
        None, math.nan, sure.bound, goal.larger_is_better, programs=0, prices=sure.prices
    )
    if promised is not None and np.any(promised):  # with the pairs that keeping them takes
        promised = real_rates("Promised rates", promised, (jobs,))
        kept = best_shares_with_pairs(sharing, _promises(sharing, promised), solver=solver)
        found = _judged(sharing, goal, promised, found, kept)
        if kept.shares is None or found.status == "infeasible":
            return found
        chosen |= kept.shares[jobs:].any(axis=1)
    while True:
        part = _with_pairs(sharing, chosen)
        mine = np.concatenate([np.ones(jobs, dtype=bool), chosen])
        own = Gain(goal.worth[mine]) if isinstance(goal, Gain) else goal
        solution = solve_shares(part, own, promised, solver=solver)
        found = replace(
            found,
            message=f"solver: {solution.status}",
            programs=found.programs + 1,
            build_seconds=found.build_seconds + solution.build_seconds,
            solve_seconds=found.solve_seconds + solution.solve_seconds,
        )
        if solution.shares is None or solution.prices is None:
            return found
        lines = np.zeros((sharing.num_lines, sharing.num_types))
        lines[mine] = repaired(part, solution.shares)
        certificate = certify(sharing, goal, solution.prices, promised)
        if certificate.bound == better(found.bound, certificate.bound):
            found = replace(found, bound=certificate.bound, prices=certificate.prices)
        shares, value, message = _priced(sharing, goal, lines, promised, solution.status)
        found = replace(found, shares=shares, value=value, message=message)
        excess = np.where(chosen, 0.0, certificate.excess)
        if found.gap <= gap or not excess.any():
            return found
        order = np.argsort(-excess, kind="stable")[: MORE_PAIRS * jobs]
        chosen[order[excess[order] > 0]] = True


def _first_pairs(sharing: TimeSharing) -> NDArray[np.bool_]:
    """Return the pairs that keep most of their speeds alone, some for each job."""
    jobs = sharing.num_jobs
    alone = np.maximum(sharing.line_rate[:jobs, :, 0].max(axis=1), np.finfo(float).tiny)
    worth = (sharing.pair_rate / alone[sharing.pairs][:, None, :]).sum(axis=2).max(axis=1)
    chosen = np.zeros(len(sharing.pairs), dtype=bool)
    chosen[np.argsort(-worth, kind="stable")[: FIRST_PAIRS * jobs]] = True
    return chosen


def _with_pairs(sharing: TimeSharing, chosen: NDArray[np.bool_]) -> TimeSharing:
    """Return the same time sharing with some of the pairs."""
    return TimeSharing(
        names=sharing.names,
        rate=sharing.rate,
        gpus=sharing.gpus,
        replicas=sharing.replicas,
        pairs=sharing.pairs[chosen],
        pair_rate=sharing.pair_rate[chosen],
        cluster_gpus=sharing.cluster_gpus,
    )


def misses_promises(sharing: TimeSharing, shares: Floats, promised: Floats) -> bool:
    """Return whether a rate falls short of the promised one by more than rounding."""
    return bool((rates(sharing, shares) < promised * (1.0 - PROMISE_TOLERANCE)).any())


def repaired(sharing: TimeSharing, shares: Floats) -> Floats:
    """Return shares that keep every limit, a rounding below those of a solver.

    Parameters
    ----------
    sharing
        The jobs and their rates.
    shares
        X, shape (lines, types).
    """
    found = np.maximum(np.nan_to_num(shares), 0.0)
    found = np.where(sharing.line_rate.max(axis=2) > 0, found, 0.0)
    time_of = np.zeros(sharing.num_jobs + 1)
    np.add.at(time_of, sharing.members, found.sum(axis=1)[:, None])
    time_of[-1] = 0.0  # of nobody
    found = found / np.maximum(time_of[sharing.members].max(axis=1), 1.0)[:, None]
    taken = sharing.line_replicas @ found
    fits: Floats = found / np.maximum(taken / sharing.gpus, 1.0)
    return fits
