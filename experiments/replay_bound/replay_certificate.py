"""Certificate of a bound on all replays: prices of GPUs, by which a checker decides every job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.hindsight.bound_file import problem_document
from goodalloc.experiments.verification import verify_hindsight, verify_replays
from goodalloc.solvers.hindsight.rounds_with_restarts import SPACING, parts_of

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound


def replay_bound_document(
    problem: OfflineProblem,
    bound: HindsightBound,
    rounds: Rounds,
    prices: Float[Floats, "intervals types"] | None = None,
    *,
    spacing: float = SPACING,
) -> dict[str, Any]:
    """Return a bound on all replays: what the checker proves by prices.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on all its schedules.
    rounds
        Rounds of the replays; of whole seconds.
    prices
        Price of a GPU-second of every type in every interval of the bound; its own by default.
    spacing
        Most seconds between two nodes of progress, as in `round_job_bounds`.

    Raises
    ------
    ValueError
        If the checker proves nothing by them, or a round has no whole seconds.
    """
    told = problem_document(problem)
    document: dict[str, Any] = {
        "format": verify_replays.FORMAT,
        "version": 1,
        "digest": verify_hindsight.digest(told),
        "bound": 0.0,
        "seconds": rounds.seconds,
        "restart": {training.name: rounds.lost(training.name) for training in problem.trainings},
        "parts": {
            training.name: parts_of(training, spacing).tolist() for training in problem.trainings
        },
        "edges": bound.edges.tolist(),
        "prices": (bound.prices if prices is None else prices).tolist(),
        "multipliers": {
            name: multipliers.values.tolist() for name, multipliers in bound.multipliers.items()
        },
    }
    proved = verify_replays.verify(told, None, document).proved
    if not math.isfinite(proved):
        raise ValueError("Bound on replays: the prices prove none; expected finite prices.")
    return document | {"bound": proved}
