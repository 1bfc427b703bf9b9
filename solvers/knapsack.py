"""The knapsack as a solver: its proven bound, and its choices placed greedily."""

from goodalloc.formulations.knapsack import knapsack_bound
from goodalloc.models.instance import Instance
from goodalloc.solvers.result import Answer, Limit
from goodalloc.solvers.rounding import round_and_place
from goodalloc.solvers.sharing import knapsack_replicas


def solve_knapsack(instance: Instance, *, exact: bool = False) -> Answer:
    """Bound a round by the multiple-choice knapsack, and place what it chooses.

    Parameters
    ----------
    instance
        The round; any power.
    exact
        Take the bound of the integer knapsack, by dynamic programming: tighter and slower.
    """
    allocation = round_and_place(instance, knapsack_replicas(instance))
    try:
        bound = knapsack_bound(instance, exact=exact)
    except KeyboardInterrupt:
        return Answer(allocation, limit=Limit.INTERRUPTED)
    return Answer(allocation, bound, "knapsack")
