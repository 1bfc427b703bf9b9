"""The choices of jobs that have modes, and their demand for a node.

As in `choices.py`, a job may stay idle, keep what it holds, or be placed anew on one node or on
several; placed anew, in any of its modes. What a choice takes is a vector: GPUs first, then every
resource of the cluster in the order of their names.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Choices, Kind, may_keep
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.array_types import Flags
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Kinds of job whose choices' places are remembered.
MOST_SHAPES = 64
#: Choices of a job that are compared at once.
AT_ONCE = 200


def node_capacity(instance: Instance) -> Float[Floats, "nodes demands"]:
    """Return the capacity of every node: shape (nodes, 1 + resources).

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.mode_rounds import node_capacity
    >>> instance = load_benchmark("tiny-cold")
    >>> (node_capacity(instance)[:, 0] == instance.cluster.node_gpus).all().item()
    True
    """
    gpus = instance.cluster.node_gpus[:, None].astype(np.float64)
    return np.hstack([gpus, instance.cluster.node_resources])


def choice_demand(instance: Instance, choices: Choices) -> Float[Floats, "choices demands"]:
    """Return the total demand of every choice: shape (choices, 1 + resources).

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.mode_rounds import choice_demand, enumerate_mode_choices
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> choices = enumerate_mode_choices(instance)
    >>> (choice_demand(instance, choices)[:, 0] == choices.replicas).all().item()  # GPUs
    True
    """
    return np.asarray(instance.mode_demand[choices.mode] * choices.replicas[:, None])


def held_amounts(instance: Instance) -> Float[Floats, "entries demands"]:
    """Return the demand of every entry of the current allocation: (entries, 1 + resources).

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.mode_rounds import held_amounts
    >>> held_amounts(load_benchmark("tiny-cold")).shape  # nothing runs
    (0, 1)
    """
    current = instance.current
    running = instance.mode_demand[instance.first_mode + current.mode]
    return np.asarray(running[current.job] * current.replicas[:, None])


def chosen_modes(instance: Instance, taken: Choices) -> Int[Indices, " jobs"] | None:
    """Return the modes of an allocation in which every job takes its choice; None where there are
    none.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.mode_rounds import chosen_modes, enumerate_mode_choices
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> choices = enumerate_mode_choices(instance)
    >>> first = [int((choices.job == job).argmax()) for job in range(4)]
    >>> len(chosen_modes(instance, choices.where(first)))
    4
    """
    if instance.plain:
        return None
    modes = np.zeros(instance.num_jobs, dtype=np.int64)
    modes[taken.job] = taken.mode - instance.first_mode[taken.job]
    return modes


def most_replicas(
    capacity: Float[Floats, "nodes demands"],
    demand: Float[Floats, " demands"],
    *,
    tolerance: float = RESOURCE_TOLERANCE,
) -> Int[Indices, " nodes"]:
    """Return the number of replicas that fit on an empty node, shape (nodes,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import most_replicas
    >>> capacity = np.array([[4.0, 12.0], [8.0, 12.0]])  # GPUs and cores of two nodes
    >>> most_replicas(capacity, demand=np.array([1.0, 2.0])).tolist()
    [4, 6]
    """
    takes = demand > 0
    room = capacity[:, takes] * (1 + tolerance) / demand[takes]
    return np.asarray(np.floor(room.min(axis=1)), dtype=np.int64)


def within_share(instance: Instance) -> Bool[Flags, " modes"]:
    """Return whether a mode takes no more than a GPU's share of any node it may run on, shape
    (modes,).

    Examples
    --------
    >>> from goodalloc.data.rounds import equip, generate
    >>> from goodalloc.formulations.mode_rounds import within_share
    >>> instance = equip(generate(0, jobs=4, nodes=2), 0, cores=16.0)  # a GPU's share is 4 cores
    >>> cores = instance.mode_resources[:, 0]
    >>> bool((within_share(instance) == (cores <= 4.0)).all())
    True
    """
    shares = instance.cluster.node_shares
    codes, first, code = np.unique(instance.mode_type, return_index=True, return_inverse=True)
    least = np.array(
        [
            np.min(shares, axis=0, where=instance.mode_nodes[row][:, None], initial=np.inf)
            for row in first
        ]
    )
    least = least.reshape(codes.size, shares.shape[1])[code]
    within: Flags = np.all(instance.mode_resources <= least * (1 + RESOURCE_TOLERANCE), axis=1)
    return within


def least_nodes(instance: Instance, choices: Choices) -> Int[Indices, " choices"]:
    """Return the least number of nodes of every choice, shape (choices,): 0 where nothing is held.

    Of a choice on several nodes, as many as it takes with nothing else on any, and at least 2; what
    is kept is on those where it is.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.mode_rounds import enumerate_mode_choices, least_nodes
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> choices = enumerate_mode_choices(instance)
    >>> set(least_nodes(instance, choices)[choices.replicas == 1].tolist())
    {1}
    """
    least: Indices = (choices.kind != Kind.IDLE).astype(np.int64)
    keep = choices.kind == Kind.KEEP
    least[keep] = instance.current.job_nodes[choices.job[keep]]
    capacity, demand = node_capacity(instance), instance.mode_demand
    known: dict[tuple[str, bytes], Indices] = {}
    for choice in choices.of(Kind.SEVERAL_NODES).tolist():
        row = int(choices.mode[choice])
        key = (instance.modes[row].gpu_type, demand[row].tobytes())
        if key not in known:
            most = most_replicas(capacity[instance.mode_nodes[row]], demand[row])
            known[key] = np.cumsum(np.sort(most)[::-1])
        nodes = int(np.searchsorted(known[key], choices.replicas[choice])) + 1
        least[choice] = max(nodes, 2)
    return least


def enumerate_mode_choices(
    instance: Instance, *, prune: bool = True, deadline: float = math.inf
) -> Choices:
    """Return all choices that the rules allow; dominated ones are dropped if `prune`.

    A choice goes if another of the same job is worth no less and fits wherever it fits: on GPUs of
    the same type or of any, and either both on several nodes with no more replicas and no more of
    anything for each, or the other on one node with no more of anything than this one takes of one
    of its nodes. So does a choice that is worth no more than idling.

    Parameters
    ----------
    instance
        The round.
    prune
        Whether dominated choices are dropped, …
    deadline
        … and by when, on the clock of `time.perf_counter`: jobs that are not looked through by then
        keep theirs.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.mode_rounds import enumerate_mode_choices
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> few, every = (enumerate_mode_choices(instance, prune=prune) for prune in (True, False))
    >>> len(few) < len(every), set(few.job.tolist())
    (False, {0, 1, 2, 3})
    """
    allowed = _allowed(instance)
    table, current = mode_utilities(instance), instance.current
    keep, idle = np.flatnonzero(may_keep(instance)), np.flatnonzero(~instance.pinned)
    running = (instance.first_mode + current.mode)[keep]
    nothing = np.zeros(idle.size, dtype=np.int64)
    rows = [
        (running, np.full(keep.size, Kind.KEEP), current.job_replicas[keep], table.kept[keep]),
        (
            instance.first_mode[idle],
            np.full(idle.size, Kind.IDLE),
            nothing,
            np.full(idle.size, instance.rules.idle),
        ),
    ]
    for spread, kind in ((0, Kind.ONE_NODE), (1, Kind.SEVERAL_NODES)):
        mode, replicas = np.nonzero(allowed[:, spread])
        utility = table.moved[mode, spread, replicas]
        rows.append((mode, np.full(mode.size, kind), replicas, utility))
    mode, kinds, replicas, utility = (np.concatenate(part) for part in zip(*rows, strict=True))
    order = np.lexsort((replicas, kinds, mode))
    mode, kinds, replicas, utility = (part[order] for part in (mode, kinds, replicas, utility))
    values = np.asarray(utility, dtype=np.float64)
    choices = Choices(instance.mode_job[mode], kinds, replicas, values, mode)
    return choices.where(~_dominated(instance, choices, deadline)) if prune else choices


def _allowed(instance: Instance) -> Bool[Flags, "modes 2 gpus"]:
    """Return which (one node | several, GPUs) a mode may be placed on anew: (modes, 2, width)."""
    width = mode_utilities(instance).moved.shape[-1]
    replicas, span = np.arange(width), instance.rules.max_nodes_per_job
    capacity, demand = node_capacity(instance), instance.mode_demand
    fits: dict[tuple[str, bytes], tuple[Flags, Flags]] = {}
    allowed: Flags = np.zeros((len(instance.mode_job), 2, width), dtype=np.bool_)
    for row, mode in enumerate(instance.modes):
        key = (mode.gpu_type, demand[row].tobytes())
        if key not in fits:
            most = np.sort(most_replicas(capacity[instance.mode_nodes[row]], demand[row]))[::-1]
            on_several = np.count_nonzero(most > 0) > 1 and span > 1
            together = int(most[:span].sum()) if on_several else 0
            fits[key] = replicas <= most[0], (replicas >= 2) & (replicas <= together)
        allowed[row] = fits[key]
    job = instance.mode_job
    within = (replicas >= instance.min_replicas[job][:, None]) & (
        replicas <= instance.max_replicas[job][:, None]
    )
    within &= ~instance.pinned[job][:, None]
    found: Flags = allowed & within[:, None]
    return found


def _dominated(instance: Instance, choices: Choices, deadline: float) -> Bool[Flags, " choices"]:
    """Return which choices another one of the job beats wherever they fit; see
    `enumerate_mode_choices`.

    Of two that beat each other the first stays. Where jobs have choices that take the same, what
    fits where is worked out once for all of them.
    """
    placed = (choices.kind == Kind.ONE_NODE) | (choices.kind == Kind.SEVERAL_NODES)
    out: Flags = np.asarray(placed & (choices.utility <= instance.rules.idle))
    fits, known = Fits(instance, choices), dict[bytes, Flags]()
    taken = np.column_stack([instance.mode_type, instance.mode_demand])
    taken = np.unique(taken, axis=0, return_inverse=True)[1].reshape(-1)[choices.mode]
    shape = np.column_stack([taken, choices.kind, choices.replicas])
    bounds = np.searchsorted(choices.job, np.arange(instance.num_jobs + 1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if time.perf_counter() >= deadline:
            break
        rows = first + np.flatnonzero(placed[first:last])
        key = shape[rows].tobytes()
        if key not in known:
            if len(known) >= MOST_SHAPES:
                known.clear()
            known[key] = fits.wherever(rows, rows).T
        out[np.delete(rows, _unbeaten(known[key], choices.utility[rows]))] = True
    return out


def _unbeaten(
    fits: Bool[Flags, "choices choices"], value: Float[Floats, " choices"]
) -> Int[Indices, " unbeaten"]:
    """Return the choices that no other one beats; the best are compared first, a few at a time.

    Parameters
    ----------
    fits
        Whether another (second axis) fits wherever one (first axis) does.
    value
        Value of every choice.
    """
    best_first = np.argsort(-value, kind="stable")
    left = best_first[:0]
    for start in range(0, value.size, AT_ONCE):
        left = np.sort(np.concatenate([left, best_first[start : start + AT_ONCE]]))
        worth = value[left]
        beats = fits[np.ix_(left, left)] & (worth[None] >= worth[:, None])
        beats &= ~beats.T | np.tri(left.size, k=-1, dtype=bool)
        left = left[~beats.any(axis=1)]
    return left


@dataclass(frozen=True)
class Fits:
    """Comparison of choices: which take no more than others, wherever these are.

    Parameters
    ----------
    instance, choices
        The round and what its jobs may do.
    """

    instance: Instance
    choices: Choices

    @cached_property
    def _total(self) -> Float[Floats, "choices demands"]:
        return choice_demand(self.instance, self.choices)

    @cached_property
    def _piece(self) -> Float[Floats, "choices demands"]:
        """Return the least demand of a choice for some node: all on one node, else its largest
        share.
        """
        choices, instance = self.choices, self.instance
        span = min(instance.rules.max_nodes_per_job, instance.cluster.num_nodes)
        spread = choices.kind == Kind.SEVERAL_NODES
        replicas = np.where(spread, -(-choices.replicas // span), choices.replicas)
        return np.asarray(instance.mode_demand[choices.mode] * replicas[:, None])

    def wherever(
        self, chosen: Int[Indices, " chosen"], others: Int[Indices, " others"]
    ) -> Bool[Flags, "chosen others"]:
        """Whether a choice could replace another one wherever that is, within its demand.

        On GPUs of a type that serves it; on one node, if it takes no more of anything than the
        other takes of some node; on several, if so does the other, no more replicas and no more of
        anything for each. To keep something, or nothing, fits where it is itself.

        Parameters
        ----------
        chosen, others
            Indices of choices.

        Returns
        -------
        Shape (chosen, others).
        """
        instance = self.instance
        own, theirs = self.choices.where(chosen), self.choices.where(others)
        code, wanted = instance.mode_type[theirs.mode], instance.mode_type[own.mode][:, None]
        each, wanted_each = instance.mode_demand[theirs.mode], instance.mode_demand[own.mode]
        served = (wanted == code) | (wanted == ANY_TYPE)
        one = served & ((theirs.kind == Kind.ONE_NODE) | (theirs.kind == Kind.SEVERAL_NODES))
        several = served & (theirs.kind == Kind.SEVERAL_NODES)
        several &= own.replicas[:, None] <= theirs.replicas
        for column in range(each.shape[1]):
            several &= wanted_each[:, column, None] <= each[:, column]
            one &= self._total[chosen, column][:, None] <= self._piece[others, column]
        fits = np.where((own.kind == Kind.SEVERAL_NODES)[:, None], several, one)
        for place in theirs.of(Kind.KEEP).tolist():
            fits[:, place] = self._where_kept(chosen, int(others[place]))
        fits[(own.kind == Kind.KEEP) | (own.kind == Kind.IDLE)] = False
        return np.asarray(fits | (chosen[:, None] == others))

    def _where_kept(self, chosen: Int[Indices, " chosen"], kept: int) -> Bool[Flags, " chosen"]:
        """Whether choices could be placed where a job keeps its placement."""
        instance, choices = self.instance, self.choices
        entries = np.flatnonzero(instance.current.job == choices.job[kept])
        held, each = held_amounts(instance)[entries], instance.mode_demand
        serves = instance.mode_nodes[choices.mode[chosen]][:, instance.current.node[entries]]
        one = (self._total[chosen][:, None] <= held).all(axis=2) & serves
        several = serves.all(axis=1) & (entries.size > 1)
        several &= choices.replicas[chosen] <= choices.replicas[kept]
        several &= (each[choices.mode[chosen]] <= each[choices.mode[kept]]).all(axis=1)
        return np.where(choices.kind[chosen] == Kind.SEVERAL_NODES, several, one.any(axis=1))
