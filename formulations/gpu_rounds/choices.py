"""The choices of every job, and the utility of each.

Speed depends on whether a job sits on one node or on several and on its number of GPUs, never on
which nodes. So a job has four kinds of choice: stay *idle*, *keep* exactly what it holds, or be
placed anew on *one node* or on *several* with some number of GPUs.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.objective import utility_table

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


class Kind(IntEnum):
    """Kind of choice."""

    KEEP = 0
    IDLE = 1
    ONE_NODE = 2
    SEVERAL_NODES = 3


@dataclass(frozen=True)
class Choices:
    """Choices of all jobs, sorted by job, kind and GPUs; one entry of each array is a choice.

    Parameters
    ----------
    job
        Job of every choice.
    kind
        A `Kind`.
    replicas
        GPUs it takes.
    utility
        The job's utility ``u`` under it.
    mode
        Row of the mode (`Instance.modes`) in which it runs; where nothing but GPUs counts, the job.
    """

    job: Int[Indices, " choices"]
    kind: Int[Indices, " choices"]
    replicas: Int[Indices, " choices"]
    utility: Float[Floats, " choices"]
    mode: Int[Indices, " choices"]

    def __len__(self) -> int:
        return self.job.size

    def where(self, chosen: Bool[Flags, " choices"] | Int[Indices, " chosen"]) -> Choices:
        """Return the choices with these indices or flags."""
        return Choices(
            self.job[chosen],
            self.kind[chosen],
            self.replicas[chosen],
            self.utility[chosen],
            self.mode[chosen],
        )

    def label(self, index: int) -> str:
        """Return the name of a choice in a file: job, kind and GPUs, as ``7_one_node_4``; then,
        where jobs have modes, the row of the mode.
        """
        kind = Kind(self.kind[index]).name.lower()
        mode = "" if np.array_equal(self.mode, self.job) else f"_{self.mode[index]}"
        return f"{self.job[index]}_{kind}_{self.replicas[index]}{mode}"

    def of(self, kind: Kind) -> Int[Indices, " chosen"]:
        """Return the indices of the choices of one kind."""
        return np.flatnonzero(self.kind == kind)


def enumerate_choices(instance: Instance, *, prune: bool = True) -> Choices:
    """Return all choices that the rules allow, the dominated ones dropped if `prune`.

    Those without dominated ones are enumerated once per instance.

    Dominance is *piece by piece*, because what couples the jobs is packing: a choice goes only if
    another of no less utility fits wherever it fits. So *K* GPUs on one node go if fewer on one
    node are worth as much; *K* on several nodes go if fewer on several are worth as much, or if one
    GPU (which fits where any piece did) is. Never because of more GPUs, and never across one node
    and several: a piece of one fits where a four does not.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> instance = load_benchmark("tiny-cold")
    >>> few, every = enumerate_choices(instance), enumerate_choices(instance, prune=False)
    >>> len(few) <= len(every)
    True
    """
    known = instance.memo.get("choices") if prune else None
    if isinstance(known, Choices):
        return known
    found = _enumerated(instance, prune=prune)
    if prune:
        instance.memo["choices"] = found
    return found


def _enumerated(instance: Instance, *, prune: bool) -> Choices:
    """Return the choices, enumerated anew."""
    table = utility_table(instance)
    moved = table.moved
    width = moved.shape[2]
    allowed = _allowed(instance, width)
    if prune:
        allowed &= ~_dominated(moved, allowed, instance.rules.idle)
    rows = [_keep_choices(instance, table.kept), _idle_choices(instance)]
    for spread, kind in ((0, Kind.ONE_NODE), (1, Kind.SEVERAL_NODES)):
        job, replicas = np.nonzero(allowed[:, spread])
        utility = moved[job, spread, replicas]
        rows.append((job, np.full(job.size, kind), replicas, utility))
    job, kinds, replicas, utility = (np.concatenate(part) for part in zip(*rows, strict=True))
    order = np.lexsort((replicas, kinds, job))
    return Choices(job[order], kinds[order], replicas[order], utility[order], job[order])


def keep_choices(instance: Instance, choices: Choices) -> Int[Indices, " jobs"]:
    """Return the choice of every job to keep its placement, -1 where there is none; shape
    (jobs,).

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices, keep_choices
    >>> instance = load_benchmark("tiny-cold")  # in which nothing runs
    >>> set(keep_choices(instance, enumerate_choices(instance)).tolist())
    {-1}
    """
    found = np.full(instance.num_jobs, -1)
    keep = choices.of(Kind.KEEP)
    found[choices.job[keep]] = keep
    return found


def may_keep(instance: Instance) -> Bool[Flags, " jobs"]:
    """Return which running jobs may keep their placement under the rules, shape (jobs,).

    Not those that the rules have come to forbid, nor a distributed job beside a pinned one where
    interference is avoided.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import may_keep
    >>> may_keep(load_benchmark("tiny-cold")).any().item()  # in which nothing runs
    False
    """
    current = instance.current
    held, nodes = current.job_replicas, current.job_nodes
    beside = np.zeros(instance.num_jobs, dtype=bool)
    if instance.rules.interference_avoidance:
        distributed = nodes[current.job] > 1
        pinned = instance.pinned[current.job]
        blocked = np.isin(current.node, current.node[distributed & pinned])
        beside[current.job[distributed & ~pinned & blocked]] = True
    return (
        ~beside
        & (held > 0)
        & (held >= instance.min_replicas)
        & (held <= instance.max_replicas)
        & (nodes <= instance.rules.max_nodes_per_job)
    )


def _allowed(instance: Instance, width: int) -> Bool[Flags, "jobs 2 gpus"]:
    """Return which (one node | several, GPUs) a job may be placed on anew: (jobs, 2, width)."""
    gpus = np.sort(instance.cluster.node_gpus)[::-1]
    replicas = np.arange(width)
    within = (replicas >= instance.min_replicas[:, None]) & (
        replicas <= instance.max_replicas[:, None]
    )
    within &= ~instance.pinned[:, None]
    most_on_several = int(gpus[: instance.rules.max_nodes_per_job].sum())
    several = (replicas >= 2) & (replicas <= most_on_several)
    if instance.rules.max_nodes_per_job < 2 or gpus.size < 2:
        several[:] = False
    return np.stack([within & (replicas <= gpus[0]), within & several], axis=1)


def _dominated(
    moved: Float[Floats, "jobs 2 gpus"], allowed: Bool[Flags, "jobs 2 gpus"], idle: float
) -> Bool[Flags, "jobs 2 gpus"]:
    """Return which allowed placements another one beats piece by piece; see `enumerate_choices`."""
    value = np.where(allowed, moved, -np.inf)
    best = np.maximum.accumulate(value, axis=2)
    best_below = np.concatenate([np.full((*best.shape[:2], 1), -np.inf), best[:, :, :-1]], axis=2)
    best_below = np.maximum(best_below, idle)
    if value.shape[2] > 1:
        best_below[:, 1] = np.maximum(best_below[:, 1], value[:, 0, 1][:, None])
    return np.asarray(moved <= best_below)


def _keep_choices(instance: Instance, kept: Floats) -> tuple[Indices, Indices, Indices, Floats]:
    """Return the choice to keep the placement, for every running job that may."""
    job = np.flatnonzero(may_keep(instance))
    return job, np.full(job.size, Kind.KEEP), instance.current.job_replicas[job], kept[job]


def _idle_choices(instance: Instance) -> tuple[Indices, Indices, Indices, Floats]:
    """Return the choice to hold nothing, for every job that is not pinned."""
    job = np.flatnonzero(~instance.pinned)
    nothing = np.zeros(job.size, dtype=np.int64)
    return job, np.full(job.size, Kind.IDLE), nothing, np.full(job.size, instance.rules.idle)
