"""POP for rounds: nodes and jobs are split at random, and each part is decided for itself.

Every part has about as many nodes of each group and as many jobs as any other; a running job goes
with its first node, and one whose nodes fall into several parts is placed anew. What is lost is
what jobs could have had in another part. (Rounds in columns have `solvers/columns/split.py`.)

References
----------
Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP",
    SOSP 2021. doi:10.1145/3477132.3483588
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.instance import Instance
from goodalloc.models.support.validation import require_count
from goodalloc.solvers.columns.split import cluster_of
from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.job import Job
    from goodalloc.models.support.array_types import Indices


class RoundPart(NamedTuple):
    """Part of a round.

    Attributes
    ----------
    instance
        The round of its jobs and nodes.
    jobs, nodes
        Their indices in the whole round, in order.
    """

    instance: Instance
    jobs: Indices
    nodes: Indices


def split_instance(instance: Instance, parts: int, seed: int) -> Iterator[RoundPart]:
    """Generate the parts of a round; those without jobs are left out.

    A part whose types of GPU or resources do not suit all modes of a job leaves those modes out; a
    job without any mode left is in no part.

    Parameters
    ----------
    instance
        The round, without jobs that must keep what they have.
    parts
        Number of parts, at most that of the nodes.
    seed
        Seed of the split.

    Raises
    ------
    ValueError
        If `parts` is out of range, or a job must keep what it has.
    """
    require_count("POP: parts", parts, 1, instance.cluster.num_nodes)
    for job in instance.jobs:
        if job.pinned:
            raise ValueError(f"POP: job '{job.name}' is not preemptible; expected none such.")
    random = np.random.default_rng(seed)
    of_node = _even_parts(instance.cluster, parts, random)
    of_job = np.full(instance.num_jobs, -1)
    for index, job in enumerate(instance.jobs):
        if job.placement:
            of_job[index] = of_node[job.placement[0][0]]
    counts = np.bincount(of_job[of_job >= 0], minlength=parts)
    for index in random.permutation(np.flatnonzero(of_job < 0)).tolist():
        of_job[index] = int(np.argmin(counts))
        counts[of_job[index]] += 1
    for part in range(parts):
        nodes = np.flatnonzero(of_node == part)
        cluster = cluster_of(instance.cluster, nodes)
        found: dict[int, Job] = {}
        for index in np.flatnonzero(of_job == part).tolist():
            inner = _job_of(instance.jobs[index], cluster, nodes)
            if inner is not None:
                found[index] = inner
        if found:
            inside = Instance(cluster, tuple(found.values()), instance.rules, instance.name)
            yield RoundPart(inside, np.array(list(found)), nodes)


def _even_parts(cluster: Cluster, parts: int, random: np.random.Generator) -> Indices:
    """Return the part of every node: each group is dealt out evenly, on from where the last ended.

    So every part has a node where there are enough of all groups together.
    """
    dealt, given = np.arange(cluster.num_nodes) % parts, []
    first = 0
    for group in cluster.groups:
        given.append(random.permutation(dealt[first : first + group.nodes]))
        first += group.nodes
    return np.concatenate(given)


def _job_of(job: Job, cluster: Cluster, nodes: Indices) -> Job | None:
    """Return a job as it is in a part; None if none of its modes suits the part."""
    placement: Placement = ()
    if job.placement and all(node in nodes for node, _ in job.placement):
        placement = tuple((int(np.searchsorted(nodes, node)), k) for node, k in job.placement)
    if not job.modes:
        return job.replace(placement=placement)
    types, names = {*cluster.node_types, ""}, set(cluster.resource_names)
    modes = tuple(
        mode
        for mode in job.modes
        if mode.gpu_type in types and {name for name, _ in mode.resources} <= names
    )
    if not modes:
        return None
    kept = job.mode if any(mode.name == job.mode for mode in modes) else ""
    return job.replace(modes=modes, mode=kept if placement else "", placement=placement)


def solve_in_parts(
    instance: Instance,
    solver: Callable[..., Answer],
    *,
    stop: Stop | None = None,
    seed: int = 0,
    parts: int = 4,
) -> Answer:
    """Decide a round in parts, one after the other.

    Parameters
    ----------
    instance
        The round.
    solver
        Solver of each part, called with the part and ``stop``; exact in POP.
    stop
        Limits; every part has its share of the time that is left.
    seed
        Seed of the split.
    parts
        Number of parts, or that of the nodes if that is less.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.exact import solve_highs, solve_in_parts
    >>> instance = generate(seed=0, jobs=20, nodes=8)
    >>> apart = solve(instance, lambda instance: solve_in_parts(instance, solve_highs))
    >>> apart.fitness <= solve(instance).fitness
    True
    """
    stop = stop or Stop()
    watch = Watch(stop)
    parts = min(parts, instance.cluster.num_nodes)
    split = list(split_instance(instance, parts, seed))
    answers = []
    for index, part in enumerate(split):
        limit = stop
        if stop.seconds is not None:
            share = max(watch.left / (len(split) - index), 1e-3)
            limit = stop.replace(seconds=share)
        answers.append(solver(part.instance, stop=limit).allocation)
    return Answer(_joined(instance, split, answers), message=f"{len(split)} parts")


def _joined(
    instance: Instance, parts: Sequence[RoundPart], found: Sequence[Allocation | None]
) -> Allocation:
    """Return the allocation of a round from those of its parts; None of a part leaves it idle."""
    placements: list[Placement] = [() for _ in range(instance.num_jobs)]
    modes = np.zeros(instance.num_jobs, dtype=np.int64)
    for part, allocation in zip(parts, found, strict=True):
        if allocation is None:
            continue
        for inside, job in enumerate(part.jobs.tolist()):
            placement = allocation.placement(inside)
            placements[job] = tuple((int(part.nodes[node]), gpus) for node, gpus in placement)
            names = [mode.name for mode in instance.jobs[job].modes]
            if names:
                own = part.instance.jobs[inside].modes[int(allocation.mode[inside])]
                modes[job] = names.index(own.name)
    return Allocation.from_placements(placements, instance.cluster.num_nodes, modes)
