"""Decision of a round on a tree by placing the optimum of the round without its tree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.topology.kueue_placement import greedy_placement

if TYPE_CHECKING:
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.interface.stop import Stop
    from goodalloc.solvers.topology.kueue_placement import Algorithm


def place_flat_optimum(
    round_: TopologyRound, algorithm: Algorithm = "best_fit", *, stop: Stop
) -> Result:
    """Place the optimum of a round without its tree by a scheduler's algorithm.

    Parameters
    ----------
    round_
        The round.
    algorithm
        Algorithm of `greedy_placement`.
    stop
        Limits of the search for that optimum; without it in time, the result has no allocation.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.topology import place_flat_optimum, solve_tree
    >>> round_ = generate_on_tree(1, nodes=16, load=0.5)
    >>> placed = place_flat_optimum(round_, "best_fit", stop=Stop(seconds=10.0))
    >>> placed.fitness <= solve_tree(round_).bound
    True
    """
    from goodalloc.solvers.topology.exact_tree import flat_optimum, tree_result  # a long chain

    watch = Watch(stop)
    wanted = flat_optimum(round_, stop)
    placed = None if wanted is None else greedy_placement(round_, wanted, algorithm)
    return tree_result(round_, algorithm, placed, math.inf, source="", watch=watch)
