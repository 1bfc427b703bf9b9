"""Certificate of the better of two bounds on all replays of an offline problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.solvers.hindsight.round_prices import round_prices

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.solvers.hindsight.best_prices import HindsightBound


def best_replay_bound(
    problem: OfflineProblem, bound: HindsightBound, rounds: Rounds
) -> dict[str, Any]:
    """Return the greater of the bounds by the prices of schedules, and by prices for replays.

    Parameters
    ----------
    problem, bound, rounds
        As of `replay_bound_document`.

    Raises
    ------
    ValueError
        If the checker proves nothing by the prices, or a round has no whole seconds.

    Examples
    --------
    Each of two jobs loses 30 s in the round in which it begins, and one of them waits:

    >>> import numpy as np
    >>> from goodalloc.experiments.replay_bound import best_replay_bound
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound
    >>> training = Training("one", np.array([90.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = tuple(OfflineJob(name, "one", 0.0, 30.0, 0.5) for name in ("a", "b"))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> bound = hindsight_bound(problem)
    >>> bound.value < best_replay_bound(problem, bound, Rounds(60.0, {"one": 30.0}))["bound"]
    True
    """
    prices = round_prices(problem, bound, rounds)
    found = [replay_bound_document(problem, bound, rounds, told) for told in (None, prices)]
    return max(found, key=lambda document: float(document["bound"]))
