"""Knapsack as a solver: its proven bound, and its choices placed greedily."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.requirements import require_whole_gpus
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
    """Bound a round by the multiple-choice knapsack, and place its choices.

    Where jobs have modes the bound counts GPUs only, and the placed choices are those by prices of
    all resources.

    Parameters
    ----------
    instance
        The round, of whole GPUs; any power.
    stop
        Limits on the time, after which the choices by prices are not extended.
    exact
        Whether to take the bound of the integer knapsack, by dynamic programming: tighter and
        slower.

    Raises
    ------
    ValueError
        If replicas take parts of a GPU.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import solve_knapsack
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> answer = solve_knapsack(Instance(Cluster.uniform(1, 2), (Job("a", table),), rules))
    >>> answer.allocation.placements(), round(answer.bound, 2)
    ([((0, 2),)], 1.8)
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
    """Return the choices of the knapsack, or of prices, on nodes."""
    if instance.plain:
        return round_and_place(instance, knapsack_replicas(instance))
    return priced_greedy(instance, time.perf_counter() + watch.left)[0]
