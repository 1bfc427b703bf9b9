r"""Utilities of the choices of a round of modes, from speedups by kind and mode.

As `utilities_by_kind.py`, with a speedup for every mode: job *j* of kind *i* in mode *m* has

.. math:: u_j = \max(f_j \, s_{im}(N, K) + \mathrm{floor}, \mathrm{least}),                   (1)

the fair share being priced in the mode in which the kind is worth most, as in
`models/round/objective.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.speedup import goodput_table
from goodalloc.models.round.generalised_mean import power_mean, restart_factor
from goodalloc.models.round.objective import SMALL_TABLE

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.models.goodput.chunked import Backend
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats


@dataclass(frozen=True, eq=False)
class ModeColumnUtilities:
    """Utilities of all choices of all jobs of a round of modes.

    Parameters
    ----------
    columns
        The round.
    speedup
        Speedup of every kind in every mode, and in the last row of a job that never ran: shape
        (kinds + 1, modes, 2, most GPUs + 1), the third axis 0 for one node and 1 for several.
    factor
        Scale times restart factor of every job, shape (jobs,).
    kept
        Utility with exactly the present placement and mode, or of holding nothing; shape (jobs,).
    """

    columns: ModeColumns
    speedup: Float[Floats, "kinds modes 2 gpus"]
    factor: Float[Floats, " jobs"]
    kept: Float[Floats, " jobs"]

    def of(self, allocation: Allocation) -> Float[Floats, " jobs"]:
        """Return the utility of every job under an allocation, shape (jobs,)."""
        rules, columns = self.columns.rules, self.columns
        several = (allocation.job_nodes > 1).astype(int)
        replicas = np.minimum(allocation.job_replicas, self.speedup.shape[-1] - 1)
        speedup = self.speedup[columns.kind, allocation.mode, several, replicas]
        found = np.maximum(self.factor * speedup + rules.floor, columns.least_utility)
        found[replicas == 0] = rules.idle
        return np.where(allocation.unchanged(columns.current), self.kept, found)

    def fitness(self, allocation: Allocation) -> float:
        """Return the objective of an allocation, the power mean of the utilities."""
        return float(power_mean(self.of(allocation), self.columns.rules.power))


def mode_column_utilities(columns: ModeColumns) -> ModeColumnUtilities:
    """Return the utilities of a round of modes.

    Parameters
    ----------
    columns
        The round.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.models import fitness
    >>> from goodalloc.models.columns import mode_column_utilities
    >>> columns = generate_mode_columns(seed=0, jobs=40, state="running")
    >>> value = mode_column_utilities(columns).fitness(columns.current)
    >>> abs(value / fitness(columns.instance(), columns.current) - 1.0) < 1e-12
    True
    """
    rules, cluster, current = columns.rules, columns.cluster, columns.current
    speedup = mode_speedups(columns)
    scale = cluster.num_nodes / cluster.num_gpus if rules.speedup_scale == "node" else 1.0
    delay = np.full(columns.num_jobs, rules.restart_delay)
    rho = np.asarray(restart_factor(columns.age, columns.restarts.astype(float), delay))
    if rules.restart_penalty == "running":
        pays = (current.job_replicas > 0) & (columns.age >= delay)
        rho = np.where(pays, rho, 1.0)
    held = np.minimum(current.job_replicas, speedup.shape[-1] - 1)
    several = (current.job_nodes > 1).astype(int)
    kept = scale * speedup[columns.kind, current.mode, several, held] + rules.floor
    kept = np.maximum(kept, columns.least_utility)
    kept = np.where(current.job_replicas > 0, kept, rules.idle)
    return ModeColumnUtilities(columns, speedup, scale * rho, kept)


def mode_speedups(columns: ModeColumns) -> Float[Floats, "kinds modes 2 gpus"]:
    """Return the speedup of every kind in every mode over its fair share, and that of new jobs.

    Parameters
    ----------
    columns
        The round.
    """
    rules, most, modes = columns.rules, columns.most_replicas, len(columns.modes)
    fair = 1 if rules.fair_share == "one_gpu" else columns.fair_share
    table = np.zeros((columns.num_kinds + 1, modes, 2, most + 1))
    table[-1] = np.arange(most + 1) / fair
    table[-1, :, 1, :2] = 0.0
    if not columns.num_kinds:
        return table
    search, points = rules.batch_search, rules.grid_points
    backend: Backend = "numpy" if table.size <= SMALL_TABLE else "jax"
    goodput = goodput_table(columns.models, most, search, points, backend)
    several = int(rules.fair_share == "packed" and fair > int(columns.cluster.node_gpus.max()))
    if fair <= most:
        base = goodput[:, several, fair]
    else:
        rows = len(goodput)
        best = best_batch_size(
            columns.models,
            np.full(rows, 1 + several),
            np.full(rows, fair),
            search=search,
            grid_points=points,
        )
        base = np.asarray(best.goodput)
    attainable = goodput[:, :, : fair + 1].max(axis=(1, 2))
    base = np.where(base > 0, base, attainable).reshape(-1, modes).max(axis=1)
    by_kind = goodput.reshape(-1, modes, 2, most + 1)
    table[:-1] = by_kind / np.where(base > 0, base, 1.0)[:, None, None, None]
    return table
