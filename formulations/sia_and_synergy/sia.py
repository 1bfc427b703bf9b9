r"""Sia's program: the type and the number of GPUs of every job, without nodes.

Sia (the objective and the shapes are its artifact's) decides a round by one configuration
*i* for every job: a type *t* of GPU, one node or several, and *K* GPUs,

.. math::

    \min_x \sum_j \sum_{i \in A_j} c_{ji} x_{ji}
    \quad \text{s.t.} \quad \sum_{i \in A_j} x_{ji} = 1 \;\; \forall j, \qquad
    \sum_j \sum_{i \in A_j} d_{jit} x_{ji} \le G_t \;\; \forall t, \qquad x \in \{0, 1\},   (1)

where :math:`d_{jit}` are the GPUs of type *t* that the configuration takes and :math:`G_t` those
there are. Staying idle and keeping exactly what the job holds are configurations too; a pinned job
has only the latter. In Sia's objective a configuration costs

.. math::

    c_{ji} = (r_{ji} G_{ji})^p \text{ for } p < 0, \qquad \lambda \text{ for staying idle},   (2)

with the goodput *G* over that of the job's worst shape and the restart factor *r*; rounded to two
decimals and no more than 3000. By the rules of the preset ``sia`` that is :math:`u^p` of the
utility, idle jobs included; here it is divided by :math:`|p|` and shifted by a constant
(`formulations/basics/power_mean_cost.py`), which holds for every finite power.

With Sia's whole-node shapes (`models/round/job_shapes.py`) the program is a *restriction* as to
shapes and forgets the nodes; where these have a power of two of GPUs, all equal within a type, and
jobs take GPUs only, what it chooses can always be placed. With every number of GPUs it is a
*relaxation*, as long as no mode may span types (see `is_relaxation`).

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import largest_ratio, power_cost
from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind, may_keep
from goodalloc.models.round.job_shapes import allowed_shapes
from goodalloc.models.round.objective import mode_utilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


#: Largest power of a utility in Sia's objective.
LARGEST_COEFFICIENT = 3000.0


@dataclass(frozen=True)
class Configurations:
    """Configurations of all jobs, sorted by job; one entry of each array is a configuration.

    Parameters
    ----------
    job
        Job of every configuration.
    mode
        Which row of `Instance.modes`.
    kind
        A `Kind`.
    gpu_type
        Which of `Cluster.gpu_types` it is on; that of its first node for what is kept, 0 for idle.
    replicas
        GPUs it takes.
    utility
        The job's utility ``u`` under it.
    demand
        GPUs of every type that it takes, shape (configurations, types).
    """

    job: Int[Indices, " configurations"]
    mode: Int[Indices, " configurations"]
    kind: Int[Indices, " configurations"]
    gpu_type: Int[Indices, " configurations"]
    replicas: Int[Indices, " configurations"]
    utility: Float[Floats, " configurations"]
    demand: Int[Indices, "configurations types"]

    def __len__(self) -> int:
        return self.job.size

    def where(
        self, chosen: Bool[Flags, " configurations"] | Int[Indices, " chosen"]
    ) -> Configurations:
        """Return the configurations with these indices or flags."""
        return Configurations(
            job=self.job[chosen],
            mode=self.mode[chosen],
            kind=self.kind[chosen],
            gpu_type=self.gpu_type[chosen],
            replicas=self.replicas[chosen],
            utility=self.utility[chosen],
            demand=self.demand[chosen],
        )


def enumerate_configurations(instance: Instance, *, whole_nodes: bool = True) -> Configurations:
    """Return every configuration worth more than idling, idling, and keeping the current GPUs.

    But none that takes more GPUs than there are besides those of pinned jobs: what is left is in
    some solution of (1).

    Parameters
    ----------
    instance
        The round.
    whole_nodes
        Only Sia's shapes; otherwise every number of GPUs, on one node and on several.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.sia_and_synergy import enumerate_configurations
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> set(enumerate_configurations(instance).job.tolist())
    {0, 1, 2, 3}
    """
    table, first = mode_utilities(instance), instance.first_mode
    idle, keep = np.flatnonzero(~instance.pinned), np.flatnonzero(may_keep(instance))
    shapes = allowed_shapes(instance, whole_nodes=whole_nodes)
    shapes &= ~instance.pinned[instance.mode_job, None, None, None]
    shapes &= (table.moved > instance.rules.idle)[:, None]
    mode, gpu_type, spread, replicas = np.nonzero(shapes)
    held = _held_by_type(instance)
    num_types = held.shape[1]
    placed = np.zeros((mode.size, num_types), dtype=np.int64)
    placed[np.arange(mode.size), gpu_type] = replicas
    found = Configurations(
        job=np.concatenate([idle, keep, instance.mode_job[mode]]),
        mode=np.concatenate([first[idle], (first + instance.current.mode)[keep], mode]),
        kind=np.concatenate(
            [
                np.full(idle.size, Kind.IDLE),
                np.full(keep.size, Kind.KEEP),
                np.where(spread == 0, Kind.ONE_NODE, Kind.SEVERAL_NODES),
            ]
        ),
        gpu_type=np.concatenate(
            [np.zeros(idle.size, int), np.argmax(held[keep] > 0, axis=1), gpu_type]
        ),
        replicas=np.concatenate(
            [np.zeros(idle.size, int), instance.current.job_replicas[keep], replicas]
        ),
        utility=np.concatenate(
            [
                np.full(idle.size, instance.rules.idle),
                table.kept[keep],
                table.moved[mode, spread, replicas],
            ]
        ),
        demand=np.concatenate(
            [np.zeros((idle.size, num_types), dtype=np.int64), held[keep], placed]
        ),
    )
    left = type_capacity(instance) - held[instance.pinned].sum(axis=0)
    fits = instance.pinned[found.job] | (found.demand <= left).all(axis=1)
    found = found.where(fits)
    return found.where(np.argsort(found.job, kind="stable"))


def _held_by_type(instance: Instance) -> Int[Indices, "jobs types"]:
    """Return the GPUs of every type that every job holds now, shape (jobs, types)."""
    current = instance.current
    held = np.zeros((instance.num_jobs, len(instance.cluster.gpu_types)), dtype=np.int64)
    np.add.at(held, (current.job, instance.cluster.node_type[current.node]), current.replicas)
    return held


def type_capacity(instance: Instance) -> Int[Indices, " types"]:
    """Return the GPUs of every type, shape (types,).

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.sia_and_synergy import type_capacity
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> dict(zip(instance.cluster.gpu_types, type_capacity(instance).tolist()))
    {'a100': 16, 'rtx2080ti': 24, 't4': 24}
    """
    return np.array(list(instance.cluster.type_gpus.values()), dtype=np.int64)


def is_relaxation(instance: Instance, *, whole_nodes: bool) -> bool:
    """Whether every allocation is a solution of (1), so that its value bounds the fitness.

    With every number of GPUs, and where no mode may run on several types at once.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.sia_and_synergy import is_relaxation
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> [is_relaxation(instance, whole_nodes=whole) for whole in (True, False)]
    [False, True]
    """
    one_type = len(instance.cluster.gpu_types) == 1
    typed = all(mode.gpu_type for mode in instance.modes)
    return not whole_nodes and (one_type or typed)


def published_cost(
    utility: Float[Floats, ...], power: float, decimals: int, reference: float = 1.0
) -> Float[Floats, ...]:
    """Return the cost (2): powers clipped at 3000 and rounded, divided by ``|p|``; logarithms at p
    = 0.

    All sums of such costs are multiples of ``10^-decimals / |p|``, but for a constant.

    Parameters
    ----------
    utility
        Utilities, above 0, of any shape.
    power
        The power *p*, finite.
    decimals
        Digits after the point; the artifact has 2.
    reference
        The unit of the utilities; the artifact has 1.

    Raises
    ------
    ValueError
        If the power is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import published_cost
    >>> published_cost(np.array([1.0, 2.0, 3.0]), power=-0.5, decimals=2).round(2).tolist()
    [-0.0, -0.58, -0.84]
    """
    if power < 0:
        least = reference / largest_ratio(power, LARGEST_COEFFICIENT)
        utility = np.maximum(utility, least)
    cost = power_cost(utility, power, reference)
    if power == 0:
        return np.round(cost, decimals)
    return (1.0 - np.round(1.0 - power * cost, decimals)) / power


def build_sia_program(
    job: Int[Indices, " configurations"],
    cost: Float[Floats, " configurations"],
    demand: Int[Indices, "configurations types"],
    capacity: Int[Indices, " types"],
) -> Program:
    """Build program (1).

    Parameters
    ----------
    job
        Whose configuration it is, ascending from 0 without a gap, shape (configurations,).
    cost
        Cost of every configuration, shape (configurations,).
    demand
        Demand of every configuration for every resource (in Sia, type of GPU), shape
        (configurations, types).
    capacity
        Capacity of every resource, shape (types,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import build_sia_program
    >>> program = build_sia_program(
    ...     job=np.array([0, 0, 1]),
    ...     cost=np.array([2.0, 1.0, 1.0]),
    ...     demand=np.array([[0], [2], [1]]),  # GPUs of the only type
    ...     capacity=np.array([2]),
    ... )
    >>> program.num_columns, program.num_rows
    (3, 3)
    """
    builder = ProgramBuilder()
    columns = builder.add_columns("configuration", job.size, cost=cost, upper=1.0)
    one_each = builder.add_rows("one_each", int(job[-1]) + 1, lower=1.0, upper=1.0)
    gpus = builder.add_rows("gpus", capacity.size, upper=capacity)
    builder.add_entries(one_each[job], columns, 1.0)
    column, resource = np.nonzero(demand)
    builder.add_entries(gpus[resource], columns[column], demand[column, resource])
    return builder.build()


def encode_rows(table: Int[Indices, "rows columns"]) -> Int[Indices, " rows"]:
    """Return a number for every row of a table of whole numbers; equal rows have equal numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import encode_rows
    >>> code = encode_rows(np.array([[1, 2], [3, 4], [1, 2]]))
    >>> (code[:, None] == code).astype(int).tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    """
    least, greatest = table.min(axis=0), table.max(axis=0)
    sizes = (greatest - least + 1).tolist()
    if math.prod(sizes) >= 2**62:
        return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    strides = np.cumprod([1, *sizes[:-1]])
    return np.asarray((table - least) @ strides)
