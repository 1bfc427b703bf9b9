r"""Time shares level by level: hierarchical max-min fairness of Gavel, section 4.3.

All jobs rise together, each by its weight, until some cannot have more; these keep their rates and
the others go on:

.. math::

    \max_X \min_{j : w_j > 0} \frac{\tau_j(X) - \tau_j^{before}}{w_j \bar\tau_j / s_j}
    \quad \text{s.t.} \quad \tau(X) \ge \tau^{before}.                                        (1)

In a hierarchy the weight is that of an entity (a team, say), shared among those of its jobs that
can still rise: equally, or all of it to the first one that was submitted.

The prices of (1) tell which jobs cannot have more: a job whose rate has a price has the same rate
in every optimum, and an interior-point method finds prices for all of those. Gavel's code solves a
mixed-integer program instead, which is an option here (`bottlenecks`).

On GPUs of one type, which jobs take alone, the rate of a job tells its share of time, and no
program is needed: all shares rise until a job has all its time or no GPU is left.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4.3. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from goodalloc.formulations.gavel.share_program import require_solver, solve_shares
from goodalloc.models.gavel.share_goal import Level, max_min
from goodalloc.models.gavel.time_sharing import rates, share_violations
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_choice, require_number
from goodalloc.solvers.gavel.share_choices import most_that_rise
from goodalloc.solvers.gavel.time_shares import repaired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.gavel.share_program import ShareSolution
    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats


#: Least part of the price of the level at which a job counts as holding it back.
PRICED = 1e-6

#: Parts of a job's rate that a solver may take from it, tried in turn until it succeeds.
SLACKS = (1e-6, 1e-5, 1e-4)

#: Rises below this, relative to the highest level, count as none.
NEGLIGIBLE = 1e-6

#: Ways in which the jobs of an entity share its weight.
Within = Literal["fairness", "fifo"]


class Entity(NamedTuple):
    """Jobs that share a weight.

    Attributes
    ----------
    jobs
        Places of the jobs, in order of submission.
    weight
        Weight of all jobs together.
    within
        ``"fairness"``: the jobs that can still rise share it; ``"fifo"``: the first of them has it.
    """

    jobs: tuple[int, ...]
    weight: float = 1.0
    within: Within = "fairness"


class Filled(NamedTuple):
    """Outcome of `fill_levels`.

    Attributes
    ----------
    shares
        X, shape (lines, types); None if they do not pass the checker.
    levels
        Rate of every job over its due, shape (jobs,).
    rounds
        Number of levels, a program solved for each unless there is one type of GPU.
    gap
        Largest shortfall of a level, relative to the highest level; NaN where a solver failed.
    message
        The violated condition, if any.
    """

    shares: Floats | None
    levels: Floats
    rounds: int
    gap: float
    message: str


def fill_levels(
    sharing: TimeSharing,
    entities: Sequence[Entity] | None = None,
    *,
    bottlenecks: Literal["prices", "program"] = "prices",
    solver: str = CONE_SOLVER,
) -> Filled:
    """Fill level after level.

    Parameters
    ----------
    sharing
        The jobs and their rates.
    entities
        Jobs that share weights; every job alone, with weight 1, if None.
    bottlenecks
        Way to find the jobs that cannot have more: by prices, in closed form on GPUs of one type
        that jobs take alone; or by a mixed-integer program as published.
    solver
        Name of a solver that CVXPY finds.

    Raises
    ------
    ValueError
        If not every job is in exactly one entity, a weight <= 0, or CVXPY does not find the solver.
    """
    require_choice("Filling: bottlenecks", bottlenecks, ("prices", "program"))
    jobs = sharing.num_jobs
    groups = [Entity((job,)) for job in range(jobs)] if entities is None else list(entities)
    _check(groups, jobs)
    due = max_min(sharing).step
    if bottlenecks == "prices" and sharing.num_types == 1 and not len(sharing.pairs):
        require_solver(solver)
        return _filled_on_one_type(sharing, groups, due)
    floor, rising = np.zeros(jobs), np.ones(jobs, dtype=bool)
    shares = np.zeros((sharing.num_lines, sharing.num_types))
    gaps: list[float] = []
    highest, message = 0.0, ""
    while rising.any():
        weights = _weights(groups, rising)
        had = rates(sharing, shares)
        found, goal = _kept(sharing, Level(floor, weights * due), had, solver)
        floor = goal.floor
        if found is None or found.shares is None:  # these rise no more, for all that is known
            rising, message = rising & (weights == 0), "a solver failed"
            gaps.append(math.nan)
            continue
        shares = repaired(sharing, found.shares)
        level = goal.value(sharing, shares)
        highest = max(highest, float(np.max((floor + goal.step * level) / due)))
        gaps.append((found.bound - level) * float(np.max(weights)) / highest)
        if level * float(np.max(weights)) > NEGLIGIBLE * highest:
            floor = floor + goal.step * level
        stopped = (found.tight >= PRICED) & (weights > 0)
        if bottlenecks == "program":
            stopped = (weights > 0) & ~most_that_rise(sharing, goal, floor)
        if not stopped.any():
            stopped = found.tight == found.tight.max()
        rising &= ~stopped
    if broken := share_violations(sharing, shares):
        return Filled(None, floor / due, len(gaps), math.nan, broken[0])
    worst = max(gaps) if not message else math.nan
    return Filled(shares, rates(sharing, shares) / due, len(gaps), max(worst, 0.0), message)


def _filled_on_one_type(sharing: TimeSharing, groups: list[Entity], due: Floats) -> Filled:
    """Fill level after level on GPUs of one type that jobs take alone."""
    a_level = due / sharing.rate[:, 0]  # share of time that a level is, for the weight 1
    shares, rising = np.zeros(sharing.num_jobs), np.ones(sharing.num_jobs, dtype=bool)
    left, levels = float(sharing.gpus[0]), 0
    while rising.any():
        rise = _weights(groups, rising) * a_level
        rises = rise > 0
        until_whole = (1.0 - shares[rises]) / rise[rises]
        until_none, levels = left / float(sharing.replicas @ rise), levels + 1
        shares += rise * min(float(until_whole.min()), until_none)
        if until_none <= until_whole.min():
            break
        whole = np.flatnonzero(rises)[until_whole <= until_whole.min()]
        shares[whole], rising[whole] = 1.0, False
        left = max(float(sharing.gpus[0]) - float(sharing.replicas @ shares), 0.0)
    found = repaired(sharing, shares[:, None])
    broken = share_violations(sharing, found)
    kept, message = (None, broken[0]) if broken else (found, "")
    return Filled(kept, rates(sharing, found) / due, levels, 0.0, message)


def _kept(
    sharing: TimeSharing, goal: Level, had: Floats, solver: str
) -> tuple[ShareSolution | None, Level]:
    """Return the program (1), None if jobs lose rates with every solver; and its goal.

    Where nearly all is promised an interior is hard to find, and the simplex method is used. If
    that fails too, rounding has promised more than there is, and the jobs' previous rates are kept
    instead.
    """
    for slack in SLACKS:
        for one in (solver, "HIGHS"):
            found = solve_shares(sharing, goal, (1.0 - slack) * goal.floor, solver=one)
            if found.shares is None:
                continue
            has = rates(sharing, repaired(sharing, found.shares))
            if (has >= (1.0 - 2.0 * slack) * goal.floor).all():
                return found, goal
        goal = Level(np.minimum(goal.floor, had), goal.step)
    return None, goal


def _weights(groups: Sequence[Entity], rising: NDArray[np.bool_]) -> Floats:
    """Return the weights of the jobs that can rise now."""
    weights = np.zeros(rising.size)
    for group in groups:
        left = [job for job in group.jobs if rising[job]]
        if left and group.within == "fifo":
            weights[left[0]] = group.weight
        elif left:
            weights[left] = group.weight / len(left)
    return weights


def _check(groups: Sequence[Entity], jobs: int) -> None:
    for group in groups:
        if not isinstance(group, Entity):
            raise ValueError(f"Filling: {group!r} is no Entity; expected Entity((0, 1), 2.0).")
        if not isinstance(group.jobs, Sequence):
            raise ValueError(f"Entity: jobs are {group.jobs!r}; expected their places.")
        require_number("Entity: weight", group.weight, minimum=0.0, strict=True)
        require_choice("Entity: within", group.within, ("fairness", "fifo"))
    found = Counter(job for group in groups for job in group.jobs)
    for job in (*range(jobs), *found):
        if found[job] != 1 or job not in range(jobs):
            raise ValueError(
                f"Entities: job {job} is in {found[job]} of them; expected each of jobs 0 to "
                f"{jobs - 1} in one."
            )
