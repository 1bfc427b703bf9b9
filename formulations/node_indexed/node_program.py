"""The node-indexed program in matrix form: exact under every rule, a binary per choice and node.

It is what the pattern program and the aggregate avoid, kept for the rare rounds on few nodes where
counting pieces is not enough (see `patterns`), for placing what they chose, and for exporting the
plain model. Equations, in which *m* is a mode of a job (the job itself where GPUs are all that
counts), d_m what a replica takes in it, a vector with the GPU first, n_mK the nodes that K replicas
need, F_v what pinned jobs leave of everything on node *v*, M_mv the replicas that it can hold; as a
job is in one mode, (N5) and (N6) count its modes together:

    minimise  sum_i c_i x_i                                                                 (N1)
    sum_{i of j} x_i = 1                                       for every job j              (N2)
    sum_v l_iv = x_i                                           for every i on one node      (N3)
    sum_v a_mv = sum_K K x_{m,several,K}                       for every distributed m      (N4)
    sum_m a_mv / M_mv <= z_jv <= sum_m a_mv                    for every j and node v       (N5)
    sum_mK n_mK x_{m,several,K} <= sum_v z_jv <= N_max sum_mK x_{m,several,K}               (N6)
    kept on v + sum d_m K l_iv + sum d_m a_mv <= F_v           for every node v             (N7)
    distributed kept on v + sum_j z_jv <= 1                    interference avoidance       (N8)

Columns l and a of nodes without the mode's type of GPU are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.kept_placements import free_nodes
from goodalloc.formulations.mode_rounds.mode_choices import chosen_modes, least_nodes, node_capacity
from goodalloc.formulations.mode_rounds.resource_units import whole_amounts
from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.kept_placements import FreeNodes
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


@dataclass(frozen=True)
class NodeProgram:
    """The program with what decoding needs: column blocks of ``l`` and ``a``, node-minor."""

    program: Program
    choices: Choices
    one: Int[Indices, " local_choices"]
    local: Int[Indices, " local_columns"]
    distributed_modes: Int[Indices, " distributed_modes"]
    amount: Int[Indices, " amount_columns"]


@dataclass(frozen=True)
class _Room:
    """Capacity of the nodes, in units that keep whole amounts whole.

    Parameters
    ----------
    free
        Capacity that the pinned jobs leave, shape (nodes, 1 + resources).
    demand
        Demand of a replica in every mode, shape (modes, 1 + resources).
    rows
        The rows (N7), shape (nodes, 1 + resources).
    fits
        Whether a node has the GPUs of a mode, shape (modes, nodes).
    """

    free: Float[Floats, "nodes demands"]
    demand: Float[Floats, "modes demands"]
    rows: Int[Indices, "nodes demands"]
    fits: Bool[Flags, "modes nodes"]


def build_node_program(
    instance: Instance,
    choices: Choices,
    cost: Float[Floats, " choices"],
    *,
    limits: tuple[Limit, ...] = (),
) -> NodeProgram:
    """Build (N1)-(N8) over some choices; parameters as in `patterns.build_patterns`.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.node_indexed import build_node_program
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> built = build_node_program(instance, choices, power_cost(choices.utility, -1.0))
    >>> built.program.num_columns > len(choices)
    True
    """
    builder = ProgramBuilder()
    num_nodes = instance.cluster.num_nodes
    free = free_nodes(instance, choices)
    x = builder.add_columns("choice", len(choices), cost=cost, upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)  # (N2)
    builder.add_entries(jobs[choices.job], x, 1.0)
    room = _add_capacity(builder, instance, choices, free)
    one = choices.of(Kind.ONE_NODE)
    node = np.tile(np.arange(num_nodes), one.size)
    local = builder.add_columns(
        "local",
        one.size * num_nodes,
        upper=room.fits[choices.mode[one]].ravel(),
        label=lambda i: f"{choices.label(one[i // num_nodes])}_{i % num_nodes}",
    )
    linked = builder.add_rows(
        "linked", one.size, lower=0.0, upper=0.0, label=lambda i: choices.label(one[i])
    )  # (N3)
    builder.add_entries(linked, x[one], -1.0)
    builder.add_entries(np.repeat(linked, num_nodes), local, 1.0)
    taken = room.demand[choices.mode[one]] * choices.replicas[one][:, None]
    builder.add_entries(room.rows[node], local[:, None], np.repeat(taken, num_nodes, axis=0))
    distributed, amount = _add_distributed(builder, instance, free, choices, room)
    limit_rows = builder.add_rows("limit", len(limits), upper=[most for _, most in limits])
    for row, (weights, _) in zip(limit_rows, limits, strict=True):
        builder.add_entries(row, x, weights)
    return NodeProgram(builder.build(), choices, one, local, distributed, amount)


def _add_capacity(
    builder: ProgramBuilder, instance: Instance, choices: Choices, free: FreeNodes
) -> _Room:
    """Add the rows (N7), with what may be kept on every node."""
    current = instance.current
    demand, capacity = whole_amounts(instance.mode_demand, node_capacity(instance))
    running = demand[instance.first_mode + current.mode][current.job] * current.replicas[:, None]
    pinned = instance.pinned[current.job]
    np.subtract.at(capacity, current.node[pinned], running[pinned])
    names = ("gpu", *instance.cluster.resource_names)

    def name_row(i: int) -> str:
        return f"{i // len(names)}" + (f"_{names[i % len(names)]}" if i % len(names) else "")

    rows = builder.add_rows("capacity", capacity.size, upper=capacity.ravel(), label=name_row)
    rows = rows.reshape(capacity.shape)
    kept = demand[choices.mode[free.stay_choice]] * free.stay_gpus[:, None]
    builder.add_entries(rows[free.stay_node], free.stay_choice[:, None], kept)
    return _Room(capacity, demand, rows, instance.mode_nodes)


def _add_distributed(
    builder: ProgramBuilder, instance: Instance, free: FreeNodes, choices: Choices, room: _Room
) -> tuple[Indices, Indices]:
    """Add columns ``a``, ``z`` and rows (N4), (N5), (N6), (N8); return the modes and columns
    ``a``.
    """
    several = choices.of(Kind.SEVERAL_NODES)
    modes, mode_of = np.unique(choices.mode[several], return_inverse=True)
    jobs, job_of = np.unique(instance.mode_job[modes], return_inverse=True)
    num_nodes = instance.cluster.num_nodes
    row, node = np.divmod(np.arange(modes.size * num_nodes), num_nodes)
    most = np.minimum(instance.most_on_node[modes], free.gpus).clip(min=0) * room.fits[modes]
    amount = builder.add_columns(
        "amount", row.size, upper=most.ravel(), label=lambda i: f"{modes[row[i]]}_{node[i]}"
    )
    pairs = jobs.size * num_nodes

    def name_pair(i: int) -> str:
        return f"{jobs[i // num_nodes]}_{i % num_nodes}"

    def name_job(i: int) -> str:
        return str(jobs[i])

    touched = builder.add_columns("touched", pairs, upper=1.0, label=name_pair)
    total = builder.add_rows(
        "total", modes.size, lower=0.0, upper=0.0, label=lambda i: str(modes[i])
    )  # (N4)
    builder.add_entries(total[mode_of], several, -choices.replicas[several])
    builder.add_entries(total[row], amount, 1.0)
    least = builder.add_rows("least", pairs, lower=0.0, label=name_pair)  # (N5)
    at_most = builder.add_rows("most", pairs, upper=0.0, label=name_pair)
    pair = job_of[row] * num_nodes + node
    builder.add_entries(least[pair], amount, 1.0)
    builder.add_entries(at_most[pair], amount, 1.0 / np.maximum(most.ravel(), 1))
    builder.add_entries(least, touched, -1.0)
    builder.add_entries(at_most, touched, -1.0)
    few = builder.add_rows("few", jobs.size, lower=0.0, label=name_job)  # (N6)
    many = builder.add_rows("many", jobs.size, upper=0.0, label=name_job)
    choice_job = job_of[mode_of]
    builder.add_entries(few[choice_job], several, -least_nodes(instance, choices)[several])
    builder.add_entries(many[choice_job], several, -instance.rules.max_nodes_per_job)
    whose = np.repeat(np.arange(jobs.size), num_nodes)
    builder.add_entries(few[whose], touched, 1.0)
    builder.add_entries(many[whose], touched, 1.0)
    builder.add_entries(room.rows[node], amount[:, None], room.demand[modes[row]])
    if instance.rules.interference_avoidance:
        alone = builder.add_rows("interference", num_nodes, upper=1.0 - free.blocked)  # (N8)
        builder.add_entries(alone[np.tile(np.arange(num_nodes), jobs.size)], touched, 1.0)
        spread = free.stay_spread
        builder.add_entries(alone[free.stay_node[spread]], free.stay_choice[spread], 1.0)
    return modes, amount


def decode_nodes(
    instance: Instance, program: NodeProgram, solution: Float[Floats, " columns"]
) -> Allocation:
    """Return the allocation that a solution describes.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.node_indexed import build_node_program, decode_nodes
    >>> from goodalloc.models import fitness
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.interface import Stop, Watch
    >>> from goodalloc.solvers.milp import run_mixed_integer
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> built = build_node_program(instance, choices, power_cost(choices.utility, -1.0))
    >>> outcome = run_mixed_integer(built.program, Watch(Stop()), gap=1e-9)
    >>> found = fitness(instance, decode_nodes(instance, built, outcome.values))
    >>> round(found / solve(instance).fitness, 6)
    1.0
    """
    values = np.rint(solution).astype(np.int64)
    choices, current, num_nodes = program.choices, instance.current, instance.cluster.num_nodes
    taken = np.flatnonzero(values[: len(choices)] > 0)
    keepers = choices.job[taken[choices.kind[taken] == Kind.KEEP]]
    stays = np.isin(current.job, keepers)
    placed = np.flatnonzero(values[program.local] > 0)
    choice = program.one[placed // num_nodes]
    spread = np.flatnonzero(values[program.amount] > 0)
    spread_job = instance.mode_job[program.distributed_modes[spread // num_nodes]]
    return Allocation.from_entries(
        np.concatenate([current.job[stays], choices.job[choice], spread_job]),
        np.concatenate([current.node[stays], placed % num_nodes, spread % num_nodes]),
        np.concatenate(
            [current.replicas[stays], choices.replicas[choice], values[program.amount[spread]]]
        ),
        instance.num_jobs,
        num_nodes,
        chosen_modes(instance, choices.where(taken)),
    )
