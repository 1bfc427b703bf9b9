"""POP for rounds in columns: the round is split at random, and each part decided for itself.

Nodes are shared out at random; a running job goes with its first node, the others where jobs are
fewest, so that all parts have equally many nodes and about equally many jobs. Parts are as quick to
solve as they are small, and may be solved side by side; what is lost is what jobs could have had in
another part.

References
----------
Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP",
    SOSP 2021. doi:10.1145/3477132.3483588
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int

    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.support.array_types import Indices


class Part(NamedTuple):
    """Part of a round.

    Attributes
    ----------
    columns
        The round of its jobs and nodes.
    jobs, nodes
        Their indices in the whole round, in order.
    """

    columns: RoundColumns
    jobs: Int[Indices, " jobs"]
    nodes: Int[Indices, " nodes"]


def split_round(columns: RoundColumns, parts: int, seed: int) -> Iterator[Part]:
    """Generate the parts of a round; those without jobs or GPUs are left out.

    Parameters
    ----------
    columns
        The round.
    parts
        Number of parts, at most that of the nodes.
    seed
        Seed of the split.

    Raises
    ------
    ValueError
        If `parts` < 1 or exceeds the number of nodes.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns
    >>> from goodalloc.solvers.columns import split_round
    >>> columns = generate_columns(seed=0, jobs=10, nodes=4)
    >>> sum(part.columns.num_jobs for part in split_round(columns, 2, seed=0))
    10
    """
    cluster, current = columns.cluster, columns.current
    require_count("POP: parts", parts, 1, cluster.num_nodes)
    random = np.random.default_rng(seed)
    of_node = random.permutation(np.arange(cluster.num_nodes) % parts)
    of_job = np.full(columns.num_jobs, -1)
    running, first = np.unique(current.job, return_index=True)
    of_job[running] = of_node[current.node[first]]
    waiting = random.permutation(np.flatnonzero(of_job < 0))
    of_job[waiting] = _evened(np.bincount(of_job[running], minlength=parts), waiting.size)
    stays = np.ones(columns.num_jobs, dtype=bool)
    stays[current.job[of_node[current.node] != of_job[current.job]]] = False
    for part in range(parts):
        jobs, nodes = np.flatnonzero(of_job == part), np.flatnonzero(of_node == part)
        if not jobs.size or not cluster.node_gpus[nodes].any():
            continue
        kept = (of_job[current.job] == part) & stays[current.job]
        placed = Allocation.from_entries(
            np.searchsorted(jobs, current.job[kept]),
            np.searchsorted(nodes, current.node[kept]),
            current.replicas[kept],
            jobs.size,
            nodes.size,
        )
        yield Part(
            replace(
                columns,
                cluster=cluster_of(cluster, nodes),
                kind=columns.kind[jobs],
                age=columns.age[jobs],
                restarts=columns.restarts[jobs],
                max_replicas=columns.max_replicas[jobs],
                current=placed,
            ),
            jobs,
            nodes,
        )


def cluster_of(cluster: Cluster, nodes: Int[Indices, " nodes"]) -> Cluster:
    """Return the groups of some nodes of a cluster, in order.

    Parameters
    ----------
    cluster, nodes
        The cluster, and indices of nodes, some with GPUs.
    """
    counts = np.bincount(cluster.node_group[nodes], minlength=len(cluster.groups)).tolist()
    pairs = zip(cluster.groups, counts, strict=True)
    return Cluster(tuple(replace(group, nodes=count) for group, count in pairs if count))


def _evened(counts: Indices, more: int) -> Indices:
    """Return parts for further jobs so that the numbers of jobs come out as even as they can."""
    level = np.sort(counts)
    held = np.arange(1, counts.size + 1) * level - np.cumsum(level)  # to bring the least to a level
    lowest = int(np.searchsorted(held, more, side="right"))
    total = int(level[:lowest].sum()) + more
    goal = np.zeros_like(counts)
    goal[np.argsort(counts, kind="stable")[:lowest]] = total // lowest
    goal[np.argsort(counts, kind="stable")[: total % lowest]] += 1
    return np.repeat(np.arange(counts.size), np.maximum(goal - counts, 0))


def joined(
    columns: RoundColumns, parts: Sequence[Part], allocations: Sequence[Allocation]
) -> Allocation:
    """Return the allocation of a round from those of its parts.

    Parameters
    ----------
    columns
        The round.
    parts
        Its parts.
    allocations
        An allocation of every part.
    """
    entries = [
        (part.jobs[found.job], part.nodes[found.node], found.replicas)
        for part, found in zip(parts, allocations, strict=True)
    ]
    job, node, replicas = (np.concatenate(column) for column in zip(*entries, strict=True))
    return Allocation.from_entries(job, node, replicas, columns.num_jobs, columns.cluster.num_nodes)
