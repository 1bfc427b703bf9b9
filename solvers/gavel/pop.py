"""POP (SOSP'21): jobs split at random into parts, each with its part of the GPUs, solved apart.

What comes out is feasible, and the loss grows with the number of parts, most where few jobs share a
part: the fullest part decides about max-min fairness. Parts with as many jobs each lose much less.
Parts get whole GPUs, rounded down as published, so that a few may stay idle. They are parts of
time: a job that takes more GPUs than its part has may take them of others' parts, for less of the
time.
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

    #: The goal of some of the jobs: who shares what among them, and their places.
    MakeGoal = Callable[[TimeSharing, Indices], Goal]


class Parts(NamedTuple):
    """What came of the parts.

    Attributes
    ----------
    result
        Of all together; its times are sums, its bound is that of no split but what the goal allows.
    seconds
        To solve each part, without building its program.
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
    """Split, solve and put together; with one part, exactly.

    Parameters
    ----------
    sharing
        Who shares what; without pairs, or with pairs that a split may tear apart.
    make_goal
        Gives the goal of a part.
    parts
        k, at most as many as jobs and as GPUs of any type.
    seed
        Of the split.
    even
        Whether parts have as many jobs each; as published every job falls into any of them.
    solver
        One that CVXPY finds.

    Raises
    ------
    ValueError
        If the number of parts, the seed or a goal makes no sense, or CVXPY does not find the
        solver.
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
