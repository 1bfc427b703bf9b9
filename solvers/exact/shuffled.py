"""Exact decisions of a round with jobs and equal nodes in an order that is drawn.

Of equally good allocations the exact solver takes one by a stated rule, in the order of jobs and
nodes (`ties.py`). Another order is another rule of the same kind: how much results vary over such
orders tells how much of them is due to ties.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.interface.base import find_solver

if TYPE_CHECKING:
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices
    from goodalloc.solvers.interface.result import Answer
    from goodalloc.solvers.interface.stop import Stop


def solve_shuffled(
    instance: Instance,
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
) -> Answer:
    """Decide a round as `solve_highs` does, with jobs and equal nodes in an order that is drawn.

    Parameters
    ----------
    instance
        The round.
    stop, start
        As in `solve_highs`.
    seed
        Seed of the order.

    Returns
    -------
    Answer
        The allocation, of the jobs and nodes in their own order; without certificate.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.exact import solve_shuffled
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = tuple(Job(name, table, age=3600.0) for name in "abc")
    >>> instance = Instance(Cluster.uniform(2, 2), jobs)  # four GPUs: one of three jobs has two
    >>> found = [solve_shuffled(instance, seed=seed).allocation for seed in range(9)]
    >>> sorted({tuple(one.job_replicas.tolist()) for one in found})
    [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    """
    generator = np.random.default_rng(seed)
    jobs = generator.permutation(instance.num_jobs)
    nodes = _within_groups(instance.cluster, generator)
    present = instance.current.placements()
    order = tuple(
        replace(instance.jobs[job], placement=_moved(present[job], nodes)) for job in jobs
    )
    fallback = None if start is None else _reordered(start, jobs, nodes)
    solve = find_solver("highs")
    answer: Answer = solve(replace(instance, jobs=order), stop=stop, start=fallback)
    found = answer.allocation
    if found is not None:
        found = _reordered(found, np.argsort(jobs), np.argsort(nodes))
    return replace(answer, allocation=found, history=(), certificate=None)


def _within_groups(cluster: Cluster, generator: np.random.Generator) -> Indices:
    """Return the new index of every node, one of its group."""
    moved, first = [], 0
    for group in cluster.groups:
        moved.append(first + generator.permutation(group.nodes))
        first += group.nodes
    return np.concatenate(moved)


def _moved(placement: tuple[tuple[int, int], ...], nodes: Indices) -> tuple[tuple[int, int], ...]:
    """Return a placement on the nodes' new indices."""
    return tuple(sorted((int(nodes[node]), replicas) for node, replicas in placement))


def _reordered(allocation: Allocation, jobs: Indices, nodes: Indices) -> Allocation:
    """Return the rows `jobs` of an allocation, on the nodes' new indices."""
    placements = allocation.placements()
    rows = [_moved(placements[job], nodes) for job in jobs]
    return Allocation.from_placements(rows, allocation.num_nodes, allocation.mode[jobs])
