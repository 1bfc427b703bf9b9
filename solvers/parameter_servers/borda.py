r"""One queue for predictable and unpredictable jobs: AITurbo's Borda count.

AITurbo merges two orders by a "Borda-count based multi-level feedback queue"; the formula could not
be read. The documented reading follows a follow-on's code (github.com/MaoZzzzz/ Aiturbo-vGPU,
commit 11ab921). Attained service is the one criterion that all jobs share, so for jobs that cannot
be predicted it counts twice:

.. math::

    B_j = \begin{cases}
        r_j(\text{marginal effect}) + r_j(\text{attained service}) & j \text{ predictable} \\
        2 \, r_j(\text{attained service}) & \text{otherwise.}
    \end{cases}                                                                                (1)

Ranks *r* are normalised, 0 for the first and 1 for the last, so that scores of both kinds lie
between 0 and 2 whatever the number of jobs: by attained service, the least first, among all jobs;
by marginal effect, the largest first, among the predictable ones. Jobs that are equal share the
mean of their ranks. The least score is served first.

The follow-on differs: its counter grows by one for every job whenever it sorts, so that its scores
and their bounds (30 and 180) are of another kind; it ranks small gains first, jobs that gain by a
unit less by that, and serves within a level by score.

The scores are cut into levels; within a level the job that was submitted first is served first, so
that small differences in score do not preempt. A job that has waited `promote` times as long as it
has run goes to the first level, before all others there (Tiresias's knob against starvation); 0
never promotes.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from goodalloc.models.support.array_types import Flags, Floats


#: Scores at which the next level begins: thirds of the range, as the follow-on has three levels.
LEVELS = (2.0 / 3.0, 4.0 / 3.0)


def normalised_ranks(values: ArrayLike) -> Floats:
    """Return ranks from 0 for the least to 1 for the largest; ties share the mean.

    Raises
    ------
    ValueError
        If a value is NaN.
    """
    numbers = np.asarray(values, dtype=float)
    if np.isnan(numbers).any():
        raise ValueError("Borda count: a value to rank is nan; expected numbers.")
    if numbers.size < 2:
        return np.zeros(numbers.size)
    return np.asarray((rankdata(numbers) - 1.0) / (numbers.size - 1.0))


def borda_scores(effect: ArrayLike, attained: ArrayLike, predictable: ArrayLike) -> Floats:
    """Return the scores (1), shape (jobs,).

    Parameters
    ----------
    effect
        Marginal effect: reduction of a job's remaining service by one more unit. It is ignored for
        unpredictable jobs.
    attained
        Service attained so far.
    predictable
        Whether each job is predictable.

    Raises
    ------
    ValueError
        If shapes differ, or an attained service or the effect of a predictable job is NaN.
    """
    effects, served = np.asarray(effect, dtype=float), np.asarray(attained, dtype=float)
    known = np.asarray(predictable, dtype=bool)
    if not effects.shape == served.shape == known.shape:
        raise ValueError(
            f"Borda count: shapes are {effects.shape}, {served.shape} and {known.shape}; expected "
            "one for every job."
        )
    by_service = normalised_ranks(served)
    scores = 2.0 * by_service
    scores[known] = normalised_ranks(-effects[known]) + by_service[known]
    return scores


def service_order(
    scores: ArrayLike,
    *,
    executed: ArrayLike,
    waited: ArrayLike,
    levels: Sequence[float] = LEVELS,
    promote: float = 0.0,
) -> NDArray[np.int64]:
    """Return the order of service of jobs listed by submission: by level, then as submitted.

    Parameters
    ----------
    scores
        Scores (1).
    executed, waited
        Seconds that every job ran, and waited after it first ran.
    levels
        Scores at which a lower level begins, ascending.
    promote
        Ratio of waiting to running time at which a job goes first; 0 for never.

    Raises
    ------
    ValueError
        If the levels do not ascend, or `promote` is negative.
    """
    if list(levels) != sorted(set(levels)):
        raise ValueError(f"Borda count: levels are {tuple(levels)}; expected ascending numbers.")
    level = np.searchsorted(np.asarray(levels, dtype=float), np.asarray(scores), side="right")
    level = np.where(starving(executed, waited, promote), -1, level)
    return np.argsort(level, kind="stable")


def starving(executed: ArrayLike, waited: ArrayLike, promote: float) -> Flags:
    """Return which jobs have waited `promote` times as long as they ran, shape (jobs,); 0 is never.

    Raises
    ------
    ValueError
        If `promote` is negative.
    """
    require_number("Borda count: promote", promote, 0.0)
    ran, idled = np.asarray(executed, dtype=float), np.asarray(waited, dtype=float)
    return np.asarray((idled > 0) & (idled >= promote * ran) & (promote > 0))
