"""POP: jobs split at random into parts, each with its part of the GPUs, solved apart.

The result is feasible, and its loss grows with the number of parts, most where few jobs share a
part: the fullest part decides max-min fairness. Parts with equally many jobs lose much less. Parts
get whole GPUs, rounded down as published, so that a few may stay idle. They are parts of time: a
job that takes more GPUs than its part has may take them from other parts, for less of the time.

References
----------
Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP",
    SOSP 2021. doi:10.1145/3477132.3483588
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.gavel.time_sharing import share_violations
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_count
from goodalloc.solvers.gavel.time_shares import ShareResult, best_shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Indices

    #: Function that returns the goal of some of the jobs from their time sharing and their places.
    MakeGoal = Callable[[TimeSharing, Indices], Goal]


class Parts(NamedTuple):
    """Outcome of a split.

    Attributes
    ----------
    result
        Result of all parts together. Its times are sums; its bound is trivial (infinite, or 0 where
        less is better) unless there is one part.
    seconds
        Time to solve each part, without building its program.
    """

    result: ShareResult
    seconds: tuple[float, ...]


def solve_in_parts(
    sharing: TimeSharing,
    make_goal: MakeGoal,
    parts: int,
    seed: int,
    *,
    even: bool = False,
    solver: str = CONE_SOLVER,
) -> Parts:
    """Split the jobs, solve the parts and join their shares; with one part, exactly.

    Parameters
    ----------
    sharing
        The jobs and their rates; a split drops the pairs whose jobs are in different parts.
    make_goal
        Function that returns the goal of a part.
    parts
        Number of parts *k*, at most the number of jobs and the GPUs of each type.
    seed
        Seed of the split.
    even
        Whether parts have equally many jobs; as published, every job falls into any part.
    solver
        Name of a solver that CVXPY finds.

    Raises
    ------
    ValueError
        If `parts` is not from 1 to the number of jobs or of GPUs of a type, `seed` is negative, a
        goal is not of its jobs, or CVXPY does not find the solver.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> from goodalloc.solvers.gavel import solve_in_parts
    >>> sharing = TimeSharing(["a", "b"], [[2.0], [1.0]], [2], [1, 1])
    >>> parts = solve_in_parts(sharing, lambda part, _: max_min(part), parts=1, seed=0)
    >>> parts.result.shares.round(3).tolist()  # a GPU each, all of the time
    [[1.0], [1.0]]
    """
    most = min(sharing.num_jobs, int(sharing.gpus.min()))
    require_count("POP: parts", parts, 1, most)
    require_count("POP: seed", seed, 0)
    random = np.random.default_rng(seed)
    part_of = random.integers(parts, size=sharing.num_jobs)
    if even:
        part_of = random.permutation(np.arange(sharing.num_jobs) % parts)
    shares = np.zeros((sharing.num_lines, sharing.num_types))
    pairs = {tuple(pair): index for index, pair in enumerate(sharing.pairs.tolist())}
    found: list[ShareResult] = []
    for index in range(parts):
        mine = np.flatnonzero(part_of == index)
        if not mine.size:
            continue
        part = sharing.of_jobs(mine.tolist(), sharing.gpus // parts)
        result = best_shares(part, make_goal(part, mine), solver=solver)
        found.append(result)
        if result.shares is None:
            continue
        whose = [pairs[tuple(pair)] for pair in mine[part.pairs].tolist()]
        lines = np.concatenate([mine, sharing.num_jobs + np.array(whose, dtype=np.int64)])
        shares[lines] = result.shares
    goal = make_goal(sharing, np.arange(sharing.num_jobs))
    broken = share_violations(sharing, shares)
    failed = [one.message for one in found if one.shares is None]
    bound = found[0].bound if parts == 1 else math.inf if goal.larger_is_better else 0.0
    result = ShareResult(
        shares=None if broken else shares,
        value=math.nan if broken else goal.value(sharing, shares),
        bound=bound,
        larger_is_better=goal.larger_is_better,
        message=next(iter((*broken, *failed)), ""),
        build_seconds=sum(one.build_seconds for one in found),
        solve_seconds=sum(one.solve_seconds for one in found),
        programs=len(found),
        prices=found[0].prices if parts == 1 else None,
    )
    return Parts(result, tuple(one.solve_seconds for one in found))
