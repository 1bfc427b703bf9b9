r"""Utilities of a round's choices, from speedups by kind and a factor of every job.

In the notation of `models/round/objective.py` job *j* of kind *i* has

.. math:: u_j = \max(f_j \, s_i(N, K) + \mathrm{floor}, \mathrm{least}),                      (1)

where :math:`f_j` is the scale times its restart factor :math:`\rho_j` and :math:`s_i` the speedup
of its kind. Only s is stored, by kind; u is computed for some jobs at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.columns.round_columns import NEVER_RAN, stacked_model
from goodalloc.models.goodput.chunked import search_chunked
from goodalloc.models.round.generalised_mean import power_mean, restart_factor
from goodalloc.models.round.objective import LEAST_UTILITY, SMALL_TABLE
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class ColumnUtilities:
    """Utilities of all choices of all jobs of a round.

    Parameters
    ----------
    columns
        The round.
    speedup
        Speedup of every kind, and in the last row of a job that never ran: shape (kinds + 1, 2,
        most GPUs + 1), 0 for one node and 1 for several on the second axis.
    factor
        Scale times restart factor of every job, shape (jobs,).
    kept
        Utility with exactly the present placement, or of holding nothing; shape (jobs,).
    """

    columns: RoundColumns
    speedup: Float[Floats, "kinds 2 gpus"]
    factor: Float[Floats, " jobs"]
    kept: Float[Floats, " jobs"]

    @property
    def width(self) -> int:
        """Most GPUs that any job may have, and 1."""
        return int(self.speedup.shape[-1])

    def moved(self, jobs: slice | Int[Indices, " some"]) -> Float[Floats, "jobs 2 gpus"]:
        """Return the utility of some jobs on *K* GPUs placed anew, as `UtilityTable.moved`."""
        rules = self.columns.rules
        rows = self.speedup[self.columns.kind[jobs]]  # the last one for kind -1
        found = rows * self.factor[jobs, None, None]
        found += rules.floor
        np.maximum(found, rules.floor or LEAST_UTILITY, out=found)
        found[:, :, 0] = rules.idle
        return found

    def best(self, jobs: slice) -> Float[Floats, "jobs gpus"]:
        """Return the best utility of some jobs on *K* GPUs of any nodes; -inf if not allowed."""
        columns, moved = self.columns, self.moved(jobs)
        rules, nodes = columns.rules, np.sort(columns.cluster.node_gpus)[::-1]
        replicas = np.arange(moved.shape[-1])
        span = min(rules.max_nodes_per_job, nodes.size)
        several = (replicas >= 2) & (replicas <= nodes[:span].sum()) & (span >= 2)
        one = np.where(replicas <= nodes[0], moved[:, 0], -np.inf)
        found = np.maximum(one, np.where(several, moved[:, 1], -np.inf))
        found[replicas > columns.max_replicas[jobs, None]] = -np.inf
        current = columns.current
        held = current.job_replicas[jobs]
        may_keep = (held > 0) & (held <= columns.max_replicas[jobs])
        may_keep &= current.job_nodes[jobs] <= rules.max_nodes_per_job
        keep = np.flatnonzero(may_keep)
        found[keep, held[keep]] = np.maximum(found[keep, held[keep]], self.kept[jobs][keep])
        return found

    def of(self, allocation: Allocation) -> Float[Floats, " jobs"]:
        """Return the utility of every job under an allocation, shape (jobs,)."""
        rules, columns = self.columns.rules, self.columns
        several = (allocation.job_nodes > 1).astype(int)
        replicas = np.minimum(allocation.job_replicas, self.speedup.shape[-1] - 1)
        found = self.factor * self.speedup[columns.kind, several, replicas] + rules.floor
        found = np.maximum(found, rules.floor or LEAST_UTILITY)
        found[replicas == 0] = rules.idle
        return np.where(allocation.unchanged(columns.current), self.kept, found)

    def fitness(self, allocation: Allocation) -> float:
        """Return the objective of an allocation, the power mean of the utilities."""
        return float(power_mean(self.of(allocation), self.columns.rules.power))


def column_utilities(columns: RoundColumns) -> ColumnUtilities:
    """Return the utilities of a round.

    Parameters
    ----------
    columns
        The round.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models import fitness
    >>> from goodalloc.models.columns import RoundColumns, column_utilities
    >>> instance = generate(seed=0, jobs=8, nodes=2, gpus_per_node=4, state="running")
    >>> utilities = column_utilities(RoundColumns.of(instance))
    >>> utilities.fitness(instance.current) == fitness(instance, instance.current)
    True
    """
    rules, cluster = columns.rules, columns.cluster
    most, speedup = columns.most_replicas, kind_speedups(columns)
    scale = cluster.num_nodes / cluster.num_gpus if rules.speedup_scale == "node" else 1.0
    current = columns.current
    delay = np.full(columns.num_jobs, rules.restart_delay)
    rho = np.asarray(restart_factor(columns.age, columns.restarts.astype(float), delay))
    if rules.restart_penalty == "running":
        pays = (current.job_replicas > 0) & (columns.age >= delay)
        rho = np.where(pays, rho, 1.0)
    least = rules.floor or LEAST_UTILITY
    held = np.minimum(current.job_replicas, most)
    several = (current.job_nodes > 1).astype(int)
    kept = scale * speedup[columns.kind, several, held] + rules.floor
    kept = np.where(current.job_replicas > 0, np.maximum(kept, least), rules.idle)
    return ColumnUtilities(columns, speedup, scale * rho, kept)


def kind_speedups(columns: RoundColumns) -> Float[Floats, "kinds 2 gpus"]:
    """Return the speedup of every kind over the fair share, and in the last row of new jobs.

    Only what some job of a kind may have, or has, is computed; other entries are 0.

    Parameters
    ----------
    columns
        The round.
    """
    cluster, rules, most = columns.cluster, columns.rules, columns.most_replicas
    fair = 1 if rules.fair_share == "one_gpu" else columns.fair_share
    table = np.zeros((columns.num_kinds + 1, 2, most + 1))
    table[-1] = np.arange(most + 1) / fair
    table[-1, 1, :2] = 0.0
    if not columns.num_kinds:
        return table
    largest = int(cluster.node_gpus.max())
    ran = columns.kind != NEVER_RAN
    wanted = np.maximum(columns.max_replicas, columns.current.job_replicas)[ran]
    need = np.zeros(columns.num_kinds, dtype=np.int64)
    np.maximum.at(need, columns.kind[ran], np.minimum(wanted, most))
    several = rules.fair_share == "packed" and fair > largest
    base = _goodput(columns, np.arange(columns.num_kinds), 1 + several, fair)
    weak = np.flatnonzero(base <= 0.0)  # cannot run on the fair share: the best on fewer GPUs
    for replicas in range(1, fair):
        for nodes in (1, 2) if weak.size else ():
            found = _goodput(columns, weak, nodes, replicas)
            base[weak] = np.maximum(base[weak], found)
    base = np.where(base > 0.0, base, 1.0)
    for spread, (least, limit) in enumerate(((1, largest), (2, most))):
        counts = np.maximum(np.minimum(need, limit) - least + 1, 0)
        kind = np.repeat(np.arange(columns.num_kinds), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        replicas = np.arange(kind.size) - first + least
        table[kind, spread, replicas] = _goodput(columns, kind, 1 + spread, replicas) / base[kind]
    return table


def _goodput(
    columns: RoundColumns, kind: Indices, nodes: int, replicas: Indices | int
) -> Float[Floats, " rows"]:
    """Return the goodput of kinds at their best batch sizes."""
    rules = columns.rules
    leaf = [np.asarray(one, dtype=float)[kind] for one in leaves(columns.models)]
    found = search_chunked(
        stacked_model(leaf),
        np.asarray(float(nodes)),
        np.broadcast_to(np.asarray(replicas, dtype=float), kind.shape),
        rules.batch_search,
        rules.grid_points,
        "numpy" if kind.size <= SMALL_TABLE else "jax",
    )
    return np.asarray(found.goodput)
