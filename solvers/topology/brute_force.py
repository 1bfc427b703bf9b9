"""Brute force on a tree: every allocation matrix of a tiny round, as a test oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.topology.topology_round import topology_utilities
from goodalloc.solvers.exact.brute_force import enumerate_allocations

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound


def topology_brute_force(round_: TopologyRound) -> tuple[Allocation, float]:
    """Return the best allocation of a tiny round and its fitness, by trying every matrix.

    The rules are applied to matrices and the utilities computed row by row; no choice is left out
    as unpromising.

    Raises
    ------
    ValueError
        If there are too many matrices (`goodalloc.solvers.exact.brute_force`).

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.topology import topology_brute_force
    >>> instance = load_benchmark("tiny-cold")
    >>> _, fitness = topology_brute_force(TopologyRound(instance, Topology((), ())))
    >>> round(fitness / solve(instance).fitness, 9)
    1.0
    """
    found = enumerate_allocations(round_.instance)
    utility = np.empty(found.row.shape)
    allowed = np.ones(len(found.row), dtype=bool)
    limits = round_.topology.limited_levels
    used = {place: _no_uplinks(round_, place, len(found.row)) for place in limits}
    for job, rows in enumerate(found.rows):
        worth, fits, crosses = _rows_of(round_, job, rows)
        chosen = found.row[:, job]
        utility[:, job], allowed = worth[chosen], allowed & fits[chosen]
        for place in limits:
            used[place] += crosses[place][chosen]
    for place, most in limits.items():
        allowed &= (used[place] <= most).all(axis=1)
    fitness = np.where(allowed, power_mean(utility, round_.instance.rules.power), -np.inf)
    best = int(np.argmax(fitness))
    return found.allocation(best), float(fitness[best])


def _no_uplinks(round_: TopologyRound, place: int, count: int) -> Indices:
    """Return zero jobs on each uplink of a level, shape (count, domains)."""
    return np.zeros((count, int(round_.domain[place].max()) + 1), dtype=np.int64)


def _rows_of(
    round_: TopologyRound, job: int, rows: Indices
) -> tuple[Floats, Flags, dict[int, Indices]]:
    """Return the utility of each row of a job, whether it is allowed, and the uplinks it uses."""
    worth, fits = np.empty(len(rows)), np.empty(len(rows), dtype=bool)
    crosses = {
        place: _no_uplinks(round_, place, len(rows)) for place in round_.topology.limited_levels
    }
    shape = (round_.instance.num_jobs, round_.instance.cluster.num_nodes)
    for index, row in enumerate(rows):
        matrix = np.zeros(shape, dtype=np.int64)
        matrix[job] = row
        worth[index] = topology_utilities(round_, Allocation.from_matrix(matrix))[job]
        nodes = np.flatnonzero(row)
        touched = [set(domain[nodes].tolist()) for domain in round_.domain]
        fits[index] = len(touched[round_.required[job]]) <= 1
        for place, uplinks in crosses.items():
            if len(touched[place]) > 1:
                uplinks[index, list(touched[place])] = 1
    return worth, fits, crosses
