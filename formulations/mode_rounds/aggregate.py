r"""The aggregate: choices of jobs that have modes, and the total capacity of the cluster.

.. math::

    \min \sum_i c_i x_i \quad \text{s.t.} \quad
    \sum_{i \in A_j} x_i = 1 \;\; \forall j, \qquad
    \sum_{i \text{ on } w} d_{ir} x_i \le \sum_{v \text{ of } w} R_{vr} \;\; \forall w, r, \qquad
    \sum_i d_{ir} x_i \le \sum_v R_{vr} \;\; \forall r, \qquad x \in \{0, 1\}                 (1)

for types of GPU *w* and resources *r*, the GPU first; and whatever cuts (`value_cut`) are known by
then. Where interference is avoided, also at most one of the jobs that would keep a distributed
placement on a node, and over the choices *i* on several nodes, of which each needs at least
:math:`n_i` (as many as it keeps),

.. math::

    \sum_{i \text{ on several nodes of } w} n_i x_i \le N_w \;\; \forall w, \qquad
    \sum_{i \text{ on several nodes}} n_i x_i \le N.                                          (2)

A *relaxation*, a multiple-choice knapsack: it forgets the nodes. Where its choices pack
(`solvers/modes/packing.py`) it is decided all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.formulations.mode_rounds.mode_choices import least_nodes, node_capacity
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.formulations.mode_rounds.resource_units import whole_amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.formulations.mode_rounds.value_cut import Cut
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def build_aggregate(
    instance: Instance,
    choices: Choices,
    cost: Float[Floats, " choices"],
    *,
    limits: Sequence[Limit] = (),
    cuts: Sequence[Cut] = (),
    spare: float = 0.0,
) -> Program:
    """Build program (1); its columns are the choices.

    Parameters
    ----------
    instance, choices
        The round and what its jobs may do.
    cost
        Cost of every choice.
    limits
        Additional rows: weights of the choices and an upper bound.
    cuts
        Cuts over these choices.
    spare
        Share of every capacity, and of every cut's, to leave unused: what is chosen then packs more
        easily, and is a little worse.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.mode_rounds import build_aggregate, enumerate_mode_choices
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> choices = enumerate_mode_choices(instance)
    >>> program = build_aggregate(instance, choices, power_cost(choices.utility, -1.0))
    >>> program.num_columns == len(choices)
    True
    """
    used = 1.0 - spare
    builder = ProgramBuilder()
    x = builder.add_columns("choice", len(choices), cost=cost, upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)
    builder.add_entries(jobs[choices.job], x, 1.0)
    _add_capacity(builder, instance, choices, used)
    if instance.rules.interference_avoidance:
        _add_interference(builder, instance, choices)
    for name, rows in (("limit", limits), ("cut", [(c.coefficient, c.upper * used) for c in cuts])):
        indices = builder.add_rows(name, len(rows), upper=[most for _, most in rows])
        for row, (weights, _) in zip(indices, rows, strict=True):
            wanted = np.flatnonzero(weights)
            builder.add_entries(row, x[wanted], weights[wanted])
    return builder.build()


def _add_capacity(
    builder: ProgramBuilder, instance: Instance, choices: Choices, used: float
) -> None:
    """Add the capacity of every resource: by type of GPU and in all."""
    each, capacity = whole_amounts(instance.mode_demand, node_capacity(instance))
    demand, capacity = each[choices.mode] * choices.replicas[:, None], capacity * used
    wanted = np.flatnonzero(demand.any(axis=0))
    total = builder.add_rows("capacity", wanted.size, upper=capacity.sum(axis=0)[wanted])
    builder.add_entries(total, np.arange(len(choices))[:, None], demand[:, wanted])
    mode_code, node_code = instance.mode_type, instance.cluster.node_type
    code = np.where(choices.kind == Kind.KEEP, ANY_TYPE, mode_code[choices.mode])
    current, keep_of = instance.current, keep_choices(instance, choices)
    stays = np.flatnonzero(keep_of[current.job] >= 0)
    kept = keep_of[current.job[stays]]
    known = np.unique(node_code)
    for kind in known.tolist() if known.size > 1 else []:
        of_type = capacity[node_code == kind].sum(axis=0)
        rows = builder.add_rows(f"capacity_{kind}", wanted.size, upper=of_type[wanted])
        chosen = np.flatnonzero(code == kind)
        builder.add_entries(rows, chosen[:, None], demand[chosen][:, wanted])
        here = node_code[current.node[stays]] == kind
        taken = each[choices.mode[kept[here]]][:, wanted] * current.replicas[stays[here], None]
        builder.add_entries(rows, kept[here][:, None], taken)


def _add_interference(builder: ProgramBuilder, instance: Instance, choices: Choices) -> None:
    """Add rows for nodes that several distributed jobs would keep, and (2)."""
    current, keep_of = instance.current, keep_choices(instance, choices)
    spread = np.flatnonzero((current.job_nodes[current.job] > 1) & (keep_of[current.job] >= 0))
    nodes, where, count = np.unique(current.node[spread], return_inverse=True, return_counts=True)
    rows = builder.add_rows("interference", nodes.size, upper=1.0)
    crowded = count[where] > 1
    builder.add_entries(rows[where[crowded]], keep_of[current.job[spread[crowded]]], 1.0)
    least, several = least_nodes(instance, choices), choices.of(Kind.SEVERAL_NODES)
    kept, kept_node = keep_of[current.job[spread]], current.node[spread]
    node_code = instance.cluster.node_type
    kinds = np.unique(node_code)
    for kind in [ANY_TYPE, *(kinds.tolist() if kinds.size > 1 else [])]:
        of_kind = (node_code == kind) | (kind == ANY_TYPE)
        here = several[(instance.mode_type[choices.mode[several]] == kind) | (kind == ANY_TYPE)]
        stays = kept[of_kind[kept_node]]
        row = builder.add_rows(
            "touched" if kind == ANY_TYPE else f"touched_{kind}", 1, upper=float(of_kind.sum())
        )
        builder.add_entries(row, here, least[here].astype(float))
        builder.add_entries(row, stays, 1.0)
