"""The knapsack as a solver: its proven bound, and its choices placed greedily."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.instance import require_whole_gpus
from goodalloc.solvers.heuristics.greedy_modes import priced_greedy
from goodalloc.solvers.heuristics.rounding import round_and_place
from goodalloc.solvers.heuristics.sharing import knapsack_replicas
from goodalloc.solvers.interface.result import Answer, Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance


def solve_knapsack(instance: Instance, *, stop: Stop | None = None, exact: bool = False) -> Answer:
    """Bound a round by the multiple-choice knapsack, and place what it chooses.

    Where jobs have modes the bound counts GPUs only, and what is placed is chosen by prices of all
    that they take.

    Parameters
    ----------
    instance
        The round, of whole GPUs; any power.
    stop
        Limits on the time, after which what prices chose is extended no more.
    exact
        Take the bound of the integer knapsack, by dynamic programming: tighter and slower.

    Raises
    ------
    ValueError
        If replicas take parts of a GPU.
    """
    watch = Watch(stop or Stop())
    require_whole_gpus(instance)
    allocation = _placed(instance, watch)
    try:
        bound = knapsack_bound(instance, exact=exact)
    except KeyboardInterrupt:
        return Answer(allocation, limit=Limit.INTERRUPTED)
    return Answer(allocation, bound, "knapsack", limit=None if instance.plain else watch.limit)


def _placed(instance: Instance, watch: Watch) -> Allocation:
    """What the knapsack, or prices, choose, on nodes."""
    if instance.plain:
        return round_and_place(instance, knapsack_replicas(instance))
    return priced_greedy(instance, time.perf_counter() + watch.left)[0]
