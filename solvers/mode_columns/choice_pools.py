r"""Choices of jobs with modes, and what each takes of the pools of a cluster.

A *pool* is all that the nodes of one type of GPU have of one resource, the GPU first; where
interference is avoided, the nodes of a type are a pool of which a distributed job takes as many as
it is on. Shares of pools are what couples the jobs in the relaxation of
`formulations/mode_rounds/aggregate.py`, equations (1) and (2).

Kinds have choices, jobs have factors: a choice of mode *m* with *K* replicas may go where another
of the same kind and type of GPU fits wherever it fits and is no slower, whatever the factor. (One
node is no better than several of a size: pieces fit where the whole does not.)
Jobs of equal kind, factor and limit that do not run are one class, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import most_replicas, node_capacity
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.models.columns.utilities_by_mode import ModeColumnUtilities
    from goodalloc.models.support.array_types import Flags, Floats, Indices

#: Position of the choice to stay, in place of one in the list of the kind.
STAY = -1


@dataclass(frozen=True, eq=False)
class PooledChoices:
    """Choices of all classes of jobs.

    Parameters
    ----------
    columns
        The round.
    code
        Choices of every kind by number of replicas, the first of which is to run on nothing: index
        of mode, nodes (one, several) and replicas in one number, shape (kinds + 1, choices).
    length
        Choices of every kind with at most *K* replicas, shape (kinds + 1, most GPUs + 1).
    speedup
        Speedup of every choice, shape (kinds + 1, choices).
    demand
        Share of every pool that a choice takes, by code; shape (codes, pools).
    job_class
        Class of every job, shape (jobs,).
    count
        Jobs of every class, shape (classes,).
    kind, factor, most
        Kind, factor and most replicas of the jobs of a class, shape (classes,).
    kept
        Utility of staying, -inf for jobs that may not or do not run; shape (classes,).
    kept_way
        Row of `kept_code` and `kept_demand` of the jobs that may stay, 0 of others; shape
        (classes,).
    kept_code
        Present mode, nodes and replicas of jobs that may stay, the first 0; shape (ways,).
    kept_demand
        Share of every pool that staying takes, of the first none; shape (ways, pools).
    """

    columns: ModeColumns
    code: Int[Indices, "kinds choices"]
    length: Int[Indices, "kinds gpus"]
    speedup: Float[Floats, "kinds choices"]
    demand: Float[Floats, "codes pools"]
    job_class: Int[Indices, " jobs"]
    count: Int[Indices, " classes"]
    kind: Int[Indices, " classes"]
    factor: Float[Floats, " classes"]
    most: Int[Indices, " classes"]
    kept: Float[Floats, " classes"]
    kept_way: Int[Indices, " classes"]
    kept_code: Int[Indices, " ways"]
    kept_demand: Float[Floats, "ways pools"]

    @property
    def num_classes(self) -> int:
        """Number of classes of jobs."""
        return int(self.count.size)

    @property
    def choices_of(self) -> Int[Indices, " classes"]:
        """Number of choices of every class, without staying."""
        most = np.minimum(self.most, self.length.shape[1] - 1)
        return np.asarray(self.length[self.kind, most])

    def of_classes(self, some: Int[Indices, " some"]) -> PooledChoices:
        """Return the choices of some classes; jobs still have the classes that they had."""
        return replace(
            self,
            count=self.count[some],
            kind=self.kind[some],
            factor=self.factor[some],
            most=self.most[some],
            kept=self.kept[some],
            kept_way=self.kept_way[some],
        )

    def of_jobs(self, jobs: Int[Indices, " some"]) -> PooledChoices:
        """Return the choices of some jobs, whose classes are in this order."""
        found, job_class, count = np.unique(
            self.job_class[jobs], return_inverse=True, return_counts=True
        )
        return replace(self.of_classes(found), job_class=job_class.reshape(-1), count=count)

    def moving(self) -> PooledChoices:
        """Return the choices but for those to stay."""
        return replace(
            self,
            kept=np.full_like(self.kept, -np.inf),
            kept_way=np.zeros_like(self.kept_way),
        )

    def code_of(self, mode: Int[Indices, ...], replicas: Int[Indices, ...]) -> Int[Indices, ...]:
        """Return the codes of choices on one node."""
        width = self.length.shape[1]
        return np.asarray(2 * width * mode + replicas)

    def decode(
        self, code: Int[Indices, ...]
    ) -> tuple[Int[Indices, ...], Int[Indices, ...], Int[Indices, ...]]:
        """Return mode, nodes (0 for one, 1 for several) and replicas of choices."""
        width = self.length.shape[1]
        return code // (2 * width), code // width % 2, code % width


def pooled_choices(utilities: ModeColumnUtilities) -> PooledChoices:
    """Return the choices of a round.

    Parameters
    ----------
    utilities
        Utilities of the round.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.models.columns import mode_column_utilities
    >>> from goodalloc.solvers.mode_columns import pooled_choices
    >>> columns = generate_mode_columns(seed=0, jobs=40)
    >>> choices = pooled_choices(mode_column_utilities(columns))
    >>> choices.demand.shape[1]  # GPUs, cores and nodes of three types
    9
    """
    columns = utilities.columns
    least_nodes, demand = _pools(columns, utilities.speedup.shape[-1])
    useful = _useful(utilities, least_nodes)
    kinds = len(utilities.speedup)
    flat = useful.reshape(kinds, -1)
    counts = flat.sum(axis=1)
    replicas = np.broadcast_to(np.arange(useful.shape[-1]), useful.shape[1:]).ravel()
    order = np.argsort(replicas, kind="stable")
    # choices of a kind by replicas, the others after them
    place = np.argsort(~flat[:, order], axis=1, kind="stable")[:, : counts.max()]
    code = order[place]
    there = np.arange(code.shape[1]) < counts[:, None]
    code = np.where(there, code, 0)
    speedup = utilities.speedup.reshape(kinds, -1)
    speedup = np.where(there, np.take_along_axis(speedup, code, axis=1), 0.0)
    stays, code_now = _stays(columns, useful.shape[-1])
    kept_way, kept_code, kept_demand = _kept(columns, demand, code_now)
    own = np.where(stays, np.arange(columns.num_jobs), -1)
    kind = columns.kind % kinds  # the last one of jobs that never ran
    keys = np.column_stack([own, kind, utilities.factor, columns.max_replicas])
    _, first, job_class, count = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return PooledChoices(
        columns,
        code,
        np.cumsum(useful.sum(axis=(1, 2)), axis=1),
        speedup,
        demand,
        job_class=job_class.reshape(-1),
        count=count,
        kind=kind[first],
        factor=utilities.factor[first],
        most=columns.max_replicas[first],
        kept=np.where(stays, utilities.kept, -np.inf)[first],
        kept_way=kept_way[first],
        kept_code=kept_code,
        kept_demand=kept_demand,
    )


def most_per_node(columns: ModeColumns) -> Int[Indices, " modes"]:
    """Return the most replicas of every mode that some node holds.

    Parameters
    ----------
    columns
        The round.
    """
    prototype = columns.prototype
    capacity = node_capacity(prototype)
    modes = zip(prototype.mode_demand, prototype.mode_nodes, strict=True)
    found = [most_replicas(capacity[nodes], demand).max(initial=0) for demand, nodes in modes]
    return np.array(found, dtype=np.int64)


def _pools(columns: ModeColumns, width: int) -> tuple[Indices, Floats]:
    """Return the fewest nodes of every number of replicas, and shares of pools by code.

    Returns
    -------
    tuple
        Fewest nodes of every mode on *K* GPUs, 0 where no nodes hold it: shape (modes, width).
        Shares of pools, shape (modes * 2 * width, pools).
    """
    cluster, prototype, rules = columns.cluster, columns.prototype, columns.rules
    nodes_of = np.bincount(cluster.node_type, minlength=len(cluster.gpu_types))
    replicas, amounts = np.arange(width), 1 + len(cluster.resource_names)
    per_type = amounts + int(rules.interference_avoidance)
    has = np.zeros((nodes_of.size, per_type))
    np.add.at(has[:, 0], cluster.node_type, cluster.node_gpus)
    np.add.at(has[:, 1:amounts], cluster.node_type, cluster.node_resources)
    has[:, 1:amounts] *= 1.0 + RESOURCE_TOLERANCE
    if rules.interference_avoidance:
        has[:, amounts] = nodes_of
    most_on_node = most_per_node(columns)
    least_nodes = np.zeros((len(columns.modes), width), dtype=np.int64)
    demand = np.zeros((len(columns.modes), 2, width, nodes_of.size, per_type))
    for mode, each in enumerate(prototype.mode_demand):
        code = max(int(prototype.mode_type[mode]), 0)
        needed = -(-replicas // max(int(most_on_node[mode]), 1))
        held = most_on_node[mode] > 0
        fits = held & (needed <= min(rules.max_nodes_per_job, int(nodes_of[code])))
        least_nodes[mode] = np.where(fits, needed, 0)
        taken = replicas[:, None] * each
        there = np.where(has[code, :amounts] > 0, has[code, :amounts], np.inf)
        demand[mode, :, :, code, :amounts] = taken / there
        if rules.interference_avoidance:
            demand[mode, 1, :, code, amounts] = np.maximum(needed, 2) / nodes_of[code]
    return least_nodes, demand.reshape(len(columns.modes) * 2 * width, -1)


def _useful(utilities: ModeColumnUtilities, least_nodes: Indices) -> Flags:
    """Return which choices no other is as good as: shape (kinds, modes, 2, GPUs)."""
    columns, speedup = utilities.columns, utilities.speedup
    prototype = columns.prototype
    replicas = np.arange(speedup.shape[-1])
    on_one, on_several = least_nodes == 1, (least_nodes > 0) & (replicas >= 2)
    nodes_of = np.bincount(columns.cluster.node_type)[np.maximum(prototype.mode_type, 0)]
    on_several &= np.minimum(nodes_of, columns.rules.max_nodes_per_job)[:, None] > 1
    allowed = np.stack([on_one, on_several], axis=1)
    speed = np.where(allowed, speedup, 0.0)
    best = np.maximum.accumulate(speed, axis=-1)  # of no more replicas
    fewer = np.concatenate([np.zeros_like(best[..., :1]), best[..., :-1]], axis=-1)
    useful = (speed > fewer) & allowed
    useful[:, :, 1] &= speed[:, :, 1] > speed[:, :, 0, 1:2]
    for mode, taken in enumerate(prototype.mode_resources):
        for other, less in enumerate(prototype.mode_resources):
            alike = prototype.mode_type[mode] == prototype.mode_type[other]
            if mode == other or not alike or (less > taken).any():
                continue
            first = bool((less < taken).any()) or other < mode  # of equal ones the first stays
            reached = np.maximum(best[:, other], speed[:, other, :1, 1:2] * [[0.0], [1.0]])
            mine = speed[:, mode]
            useful[:, mode] &= (mine > reached) if first else (mine >= reached)
    if columns.least_utility > columns.rules.idle:  # one GPU is worth that, whatever the speed
        useful[:, :, 0, 1] |= on_one[:, 1]
    useful[:, 0, 0, 0] = True  # to hold nothing
    return np.asarray(useful)


def _stays(columns: ModeColumns, width: int) -> tuple[Flags, Indices]:
    """Return which jobs may stay where they are, and the code of what these have, 0 of others."""
    current = columns.current
    held, nodes = current.job_replicas, current.job_nodes
    stays = (held > 0) & (held <= columns.max_replicas)
    stays = stays & (nodes <= columns.rules.max_nodes_per_job)
    code = (current.mode * 2 + (nodes > 1)) * width + np.minimum(held, width - 1)
    return stays, np.where(stays, code, 0)


def _kept(
    columns: ModeColumns, demand: Floats, code_now: Indices
) -> tuple[Indices, Indices, Floats]:
    """Return `kept_way` of every job, `kept_code` and `kept_demand`."""
    current = columns.current
    keys = np.column_stack([code_now, np.where(code_now > 0, current.job_nodes, 0)])
    ways, way = np.unique(np.vstack([[0, 0], keys]), axis=0, return_inverse=True)
    code, nodes = ways.T
    width = len(demand) // (2 * len(columns.modes))
    found = demand[code]
    if columns.rules.interference_avoidance:
        # a distributed job that stays takes the nodes that it has, which may be more than it needs
        spread = np.flatnonzero(nodes > 1)
        mode = code[spread] // (2 * width)
        types = np.maximum(columns.prototype.mode_type[mode], 0)
        share = nodes[spread] / np.bincount(columns.cluster.node_type)[types]
        per_type = demand.shape[1] // len(columns.cluster.gpu_types)
        found[spread, (types + 1) * per_type - 1] = share
    return way.reshape(-1)[1:], code, found
