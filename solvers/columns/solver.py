"""Solver of rounds in columns: best price, whole numbers of GPUs, packing, and a certified gap."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    fitness_from_cost,
    power_cost,
)
from goodalloc.models.columns.column_feasibility import column_violations
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.columns.column_choices import chunks, column_costs
from goodalloc.solvers.columns.consolidation import make_room
from goodalloc.solvers.columns.level_search import search_level
from goodalloc.solvers.columns.node_packing import NodePacking
from goodalloc.solvers.columns.price_search import search_price

if TYPE_CHECKING:
    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.columns.utilities_by_kind import ColumnUtilities
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.columns.price_search import BestPrice

#: Times that the costs are scaled anew, and the ratio of two references beyond which they are.
MOST_SCALES, NEAR = 6, 2.0

#: Least power by which losses are weighed where room is made: beyond, they do not fit float64.
LEAST_POWER = -10.0

#: Times that jobs bid for GPUs that are left, and that jobs without a place are offered fewer.
MOST_BIDS, MOST_ROUNDS = 20, 8


class ColumnAnswer(NamedTuple):
    """Answer for a round in columns.

    Attributes
    ----------
    allocation
        Allocation that the checker has passed.
    fitness
        Its objective.
    bound
        Upper bound on the objective of every allocation.
    price
        Price of a GPU, in costs, that proves the bound; None where a level does (p = -inf).
    gap
        Relative gap, ``1 - fitness / bound``.
    seconds
        Seconds of the utility table, of the prices (or the level), of the packing, of the check.
    """

    allocation: Allocation
    fitness: float
    bound: float
    price: float | None
    gap: float
    seconds: dict[str, float]


def solve_columns(columns: RoundColumns) -> ColumnAnswer:
    """Decide a round, with a bound that its price certifies.

    The cluster counts as one pool of GPUs for the bound (the multiple-choice knapsack), which is
    nearly always tight where jobs are many: what remains is the gap of the packing.

    Parameters
    ----------
    columns
        The round, of any power but infinity.

    Raises
    ------
    ValueError
        If the power is infinity, or a goodput model is out of range.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models.columns import RoundColumns
    >>> from goodalloc.solvers.columns import solve_columns
    >>> instance = generate(seed=0, jobs=400, nodes=100, gpus_per_node=4, state="disturbed")
    >>> answer = solve_columns(RoundColumns.of(instance))
    >>> answer.gap < 1e-3
    True
    """
    if columns.rules.power == math.inf:
        raise ValueError("Round: power is inf; expected a finite number or -inf in columns.")
    watch = _Watch()
    utilities = column_utilities(columns)
    watch.end("table")
    if columns.rules.power == -math.inf:
        level = search_level(utilities)
        bound, price, replicas = level.bound, None, level.replicas
        watch.end("prices")
    else:
        bound, price, replicas = _priced(utilities)
        watch.end("prices")
    allocation = _packed(utilities, replicas)
    watch.end("packing")
    if broken := column_violations(columns, allocation):
        raise AssertionError(f"The packing breaks a rule: {broken[0]}")
    value = utilities.fitness(allocation)
    watch.end("check")
    gap = max(1.0 - value / bound, 0.0)
    return ColumnAnswer(allocation, value, bound, price, gap, watch.seconds)


class _Watch:
    """Seconds of the parts of a solution."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = time.perf_counter()

    def end(self, part: str) -> None:
        """End a part."""
        now = time.perf_counter()
        self.seconds[part] = now - self._begin
        self._begin = now


def _priced(utilities: ColumnUtilities) -> tuple[float, float, Indices]:
    """Return the bound on the fitness, the price that proves it, and whole numbers of GPUs."""
    columns, reference = utilities.columns, _first_mean(utilities)
    cost, found, bound = _at(utilities, reference)
    for _ in range(MOST_SCALES):
        if 1.0 / NEAR < bound / reference < NEAR:
            break
        reference = bound
        cost, found, bound = _at(utilities, reference)
    bound *= 1.0 + 1e-15 * (8.0 + 8.0 * abs(math.log(bound)))
    return bound, found.price, _filled(cost, columns.cluster.num_gpus, found)


def _at(utilities: ColumnUtilities, reference: float) -> tuple[Floats, BestPrice, float]:
    """Return the costs scaled by a reference, the best price, and the bound on the fitness."""
    columns = utilities.columns
    cost = column_costs(utilities, reference)
    found = search_price(cost, columns.cluster.num_gpus)
    power = columns.rules.power
    return cost, found, fitness_from_cost(found.bound, columns.num_jobs, power, reference)


def _packed(utilities: ColumnUtilities, replicas: Indices) -> Allocation:
    """Return an allocation that gives jobs these GPUs as far as they fit."""
    stays, spread, moved = _ways(utilities, replicas)
    packing = NodePacking(utilities.columns, replicas)
    stays = packing.keep(stays)
    waiting = packing.unplaced
    packing.spread(waiting[spread[waiting]])
    waiting = packing.unplaced
    packing.single(waiting[~spread[waiting]])
    if packing.unplaced.size:
        power, idle = max(utilities.columns.rules.power, LEAST_POWER), utilities.columns.rules.idle
        now = power_cost(np.where(stays, utilities.kept, moved), power)
        loss = np.where(stays, power_cost(moved, power) - now, 0.0)
        make_room(packing, loss, power_cost(idle, power) - now)
    for _ in range(MOST_ROUNDS):
        waiting = packing.unplaced
        if not waiting.size or not packing.largest:
            break
        packing.replicas[waiting] = _on_one_node(utilities, waiting, packing.largest)
        packing.single(waiting)
    return packing.allocation()


def _first_mean(utilities: ColumnUtilities) -> float:
    """Return the mean where as many jobs as there are GPUs have one each, the first."""
    columns = utilities.columns
    one = utilities.factor * utilities.speedup[columns.kind, 0, 1] + columns.rules.floor
    one = np.maximum(one, columns.rules.idle)
    one[columns.cluster.num_gpus :] = columns.rules.idle
    return float(power_mean(one, columns.rules.power))


def _filled(cost: Floats, gpus: int, found: BestPrice) -> Indices:
    """Return whole numbers of GPUs that fit: the fewest, then what remains where it helps most.

    Jobs whose responses differ at the price are indifferent there, so that any of them may have
    more; the largest raises are made first. What is left then goes to the best bids of all jobs.
    """
    replicas, left = found.fewest.copy(), gpus - int(found.fewest.sum())
    raises = found.most - found.fewest
    for size in np.unique(raises[raises > 0])[::-1].tolist():
        takers = np.flatnonzero(raises == size)[: left // size]
        replicas[takers] += size
        left -= size * takers.size
    for _ in range(MOST_BIDS):
        if left <= 0:
            break
        rate, more = _bids(cost, replicas, left)
        order = np.flatnonzero(rate > 0.0)
        order = order[np.argsort(-rate[order], kind="stable")[:left]]
        order = order[np.cumsum(more[order]) <= left]
        if not order.size:
            break
        replicas[order] += more[order]
        left -= int(more[order].sum())
    return replicas


def _bids(cost: Floats, replicas: Indices, left: int) -> tuple[Floats, Indices]:
    """Return what each job saves a GPU by its best raise, and the raise."""
    rate, more = np.zeros(len(cost)), np.zeros(len(cost), dtype=np.int64)
    width = np.arange(cost.shape[1])
    for part in chunks(len(cost)):
        raised = width - replicas[part, None]
        possible = (raised > 0) & (raised <= left)
        now = np.take_along_axis(cost[part], replicas[part, None], axis=1)
        saved = np.where(possible, (now - cost[part]) / np.where(possible, raised, 1), 0.0)
        bid = np.argmax(saved, axis=1)
        rate[part] = np.take_along_axis(saved, bid[:, None], axis=1)[:, 0]
        more[part] = np.maximum(bid - replicas[part], 0)
    return rate, more


def _ways(utilities: ColumnUtilities, replicas: Indices) -> tuple[Flags, Flags, Floats]:
    """Return how every job is to run, and what that is worth.

    Returns
    -------
    tuple
        Jobs that keep their placement; those for which several nodes are better than one; their
        utility on the better of the two, placed anew.
    """
    columns, current = utilities.columns, utilities.columns.current
    largest = int(columns.cluster.node_gpus.max())
    spread, worth = np.zeros(columns.num_jobs, dtype=bool), np.empty(columns.num_jobs)
    for part in chunks(columns.num_jobs):
        moved, given = utilities.moved(part), replicas[part, None, None]
        one, several = np.take_along_axis(moved, given, axis=2)[:, :, 0].T
        one = np.where(replicas[part] <= largest, one, -np.inf)
        several = np.where(replicas[part] > 1, several, -np.inf)
        spread[part], worth[part] = several > one, np.maximum(one, several)
    stays = (replicas > 0) & (replicas == current.job_replicas) & (utilities.kept >= worth)
    stays &= current.job_nodes <= columns.rules.max_nodes_per_job
    return stays, spread, worth


def _on_one_node(utilities: ColumnUtilities, jobs: Indices, most: int) -> Indices:
    """Return the best numbers of GPUs of jobs on one node, up to a number."""
    columns = utilities.columns
    width = np.arange(min(most, columns.most_replicas) + 1)
    rows = utilities.speedup[columns.kind[jobs], 0, : width.size]
    allowed = width <= columns.max_replicas[jobs, None]
    best: Indices = np.argmax(np.where(allowed, rows, -np.inf), axis=1)
    return best
