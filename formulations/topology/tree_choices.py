"""The choices of every job on a tree: GPUs of one node, or of several that a level holds.

The choices are those of a round without a tree (`goodalloc.formulations.gpu_rounds.choices`), each
on several nodes once for every level; its mode (`TopologyRound.leveled`) tells the level. A choice
of a level says that some domain of it holds the job: also one whose domain of a lower level does,
which is worth no less, since no level is faster than one below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Choices, Kind, may_keep
from goodalloc.formulations.topology.tree_slots import most_of_domains
from goodalloc.models.round.objective import mode_utilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound


def topology_choices(round_: TopologyRound, *, prune: bool = True) -> Choices:
    """Return all choices that the rules allow, the dominated ones dropped if `prune`.

    Choices on one node are dropped as without a tree. *K* GPUs on several nodes of a level go if
    fewer of it, or one GPU anywhere, are worth as much: they fit wherever *K* do, through no other
    uplink. Where no level limits the jobs on its uplinks, they also go if no more GPUs of a higher
    level are worth as much.

    Parameters
    ----------
    round_, prune
        The round, and whether to drop dominated choices.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.topology import topology_choices
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> round_ = TopologyRound(load_benchmark("tiny-cold"), Topology((), ()))
    >>> len(topology_choices(round_)) <= len(topology_choices(round_, prune=False))
    True
    """
    instance = round_.instance
    table = mode_utilities(round_.leveled)
    levels = round_.domain.shape[0] - 1
    moved = table.moved.reshape(instance.num_jobs, levels, 2, -1)
    one, several = moved[:, 0, 0], moved[:, :, 1]
    fits_one, fits_several = _allowed(round_, one.shape[1])
    if prune:
        idle, limited = instance.rules.idle, bool(round_.topology.limited_levels)
        first = np.where(fits_one[:, 1], one[:, 1], -np.inf) if one.shape[1] > 1 else idle
        least = np.maximum(idle, first)
        fits_one &= one > _best_below(np.where(fits_one, one, -np.inf), idle)
        value = np.where(fits_several, several, -np.inf)
        above = value if limited else _from_above(value)
        fits_several &= several > np.maximum(_best_below(above, -np.inf), least[:, None, None])
        if not limited:
            higher = np.concatenate([above[:, 1:], np.full_like(above[:, :1], -np.inf)], axis=1)
            fits_several &= several > higher
    keep = np.flatnonzero(may_keep(instance) & round_.may_stay)
    idle_jobs = np.flatnonzero(~instance.pinned)
    job_one, gpus_one = np.nonzero(fits_one)
    job, level, gpus = np.nonzero(fits_several)
    held = instance.current
    parts = (
        (keep, Kind.KEEP, held.job_replicas[keep], table.kept[keep], _held_mode(round_, keep)),
        (idle_jobs, Kind.IDLE, 0, instance.rules.idle, 0),
        (job_one, Kind.ONE_NODE, gpus_one, one[job_one, gpus_one], 0),
        (job, Kind.SEVERAL_NODES, gpus, several[job, level, gpus], level),
    )
    columns = [np.broadcast_arrays(*part) for part in parts]
    jobs, kinds, replicas, utility, mode = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    order = np.lexsort((mode, replicas, kinds, jobs))
    jobs, mode = jobs[order], mode[order]
    return Choices(jobs, kinds[order], replicas[order], utility[order], jobs * levels + mode)


def level_of_choices(round_: TopologyRound, choices: Choices) -> Int[Indices, " choices"]:
    """Return the position of the level of every choice (`Topology.level_names`); 1 on one node."""
    level: Indices = choices.mode - choices.job * (round_.domain.shape[0] - 1) + 1
    return level


def _held_mode(round_: TopologyRound, jobs: Indices) -> Indices:
    """Return the mode in which jobs run now."""
    mode: Indices = np.maximum(round_.level_of(round_.instance.current)[jobs] - 1, 0)
    return mode


def _allowed(
    round_: TopologyRound, width: int
) -> tuple[Bool[Flags, "jobs gpus"], Bool[Flags, "jobs levels gpus"]]:
    """Return what may be placed anew: GPUs on one node, and on several nodes of each level."""
    instance, gpus = round_.instance, np.arange(width)
    within = (gpus >= instance.min_replicas[:, None]) & (gpus <= instance.max_replicas[:, None])
    within &= ~instance.pinned[:, None]
    nodes, limit = instance.cluster.node_gpus, instance.rules.max_nodes_per_job
    most = np.array([most_of_domains(nodes, level, limit).max() for level in round_.domain[1:]])
    holds = (gpus >= 2) & (gpus <= most[:, None])
    places = np.arange(1, round_.domain.shape[0])
    several = within[:, None] & holds & (places <= round_.required[:, None])[:, :, None]
    return within & (gpus <= instance.cluster.node_gpus.max()), several


def _best_below(value: Float[Floats, "... gpus"], least: float) -> Float[Floats, "... gpus"]:
    """Return the best value of any smaller number of GPUs, at least `least`."""
    best = np.maximum.accumulate(value, axis=-1)
    none = np.full((*value.shape[:-1], 1), least)
    below: Floats = np.maximum(np.concatenate([none, best[..., :-1]], axis=-1), least)
    return below


def _from_above(value: Float[Floats, "jobs levels gpus"]) -> Float[Floats, "jobs levels gpus"]:
    """Return the best value of a level and all that are higher."""
    best: Floats = np.maximum.accumulate(value[:, ::-1], axis=1)[:, ::-1]
    return best
