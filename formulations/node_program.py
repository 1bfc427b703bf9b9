"""The node-indexed program in matrix form: exact under every rule, a binary per choice and node.

It is what the pattern program avoids, kept for the rare rounds on few nodes where counting pieces
is not enough (see `patterns`), and for exporting the plain model. Equations:

    minimise  sum_i c_i x_i                                                                 (N1)
    sum_{i of j} x_i = 1                                       for every job j              (N2)
    sum_v l_iv = x_i                                           for every i on one node      (N3)
    sum_v a_jv = sum_K K x_{j,several,K}                       for every distributed j      (N4)
    z_jv <= a_jv <= F_v z_jv                                   for every j and node v       (N5)
    2 m_j <= sum_v z_jv <= N_max m_j,  m_j = sum_K x_{j,several,K}                          (N6)
    kept on v + sum K l_iv + sum a_jv <= F_v                   for every node v             (N7)
    distributed kept on v + sum_j z_jv <= 1                    interference avoidance       (N8)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.patterns import Limit
from goodalloc.formulations.program import Program, ProgramBuilder
from goodalloc.formulations.residents import FreeNodes, free_nodes
from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class NodeProgram:
    """The program with what decoding needs: column blocks of ``l`` and ``a``, node-minor."""

    program: Program
    choices: Choices
    one: Indices
    local: Indices
    distributed_jobs: Indices
    amount: Indices


def build_node_program(
    instance: Instance, choices: Choices, cost: Floats, *, limits: tuple[Limit, ...] = ()
) -> NodeProgram:
    """Build (N1)-(N8) over some choices; parameters as in `patterns.build_patterns`."""
    builder = ProgramBuilder()
    nodes = np.arange(instance.cluster.num_nodes)
    free = free_nodes(instance, choices)
    x = builder.add_columns("choice", len(choices), cost=cost, upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)  # (N2)
    builder.add_entries(jobs[choices.job], x, 1.0)
    capacity = builder.add_rows("capacity", nodes.size, upper=free.gpus)  # (N7)
    builder.add_entries(capacity[free.stay_node], free.stay_choice, free.stay_gpus)
    one = choices.of(Kind.ONE_NODE)
    local = builder.add_columns(
        "local", one.size * nodes.size, upper=1.0,
        label=lambda i: f"{choices.label(one[i // nodes.size])}_{i % nodes.size}",
    )  # fmt: skip
    linked = builder.add_rows(
        "linked", one.size, lower=0.0, upper=0.0, label=lambda i: choices.label(one[i])
    )  # (N3)
    builder.add_entries(linked, x[one], -1.0)
    builder.add_entries(np.repeat(linked, nodes.size), local, 1.0)
    sizes = np.repeat(choices.replicas[one], nodes.size)
    builder.add_entries(np.tile(capacity, one.size), local, sizes)
    distributed, amount = _add_distributed(builder, instance, free, choices, capacity)
    limit_rows = builder.add_rows("limit", len(limits), upper=[most for _, most in limits])
    for row, (weights, _) in zip(limit_rows, limits, strict=True):
        builder.add_entries(row, x, weights)
    return NodeProgram(builder.build(), choices, one, local, distributed, amount)


def _add_distributed(
    builder: ProgramBuilder, instance: Instance, free: FreeNodes, choices: Choices,
    capacity: Indices,
) -> tuple[Indices, Indices]:  # fmt: skip
    """Columns ``a``, ``z`` and rows (N4), (N5), (N6), (N8); returns the jobs and columns ``a``."""
    several = choices.of(Kind.SEVERAL_NODES)
    jobs, job_of = np.unique(choices.job[several], return_inverse=True)
    num_nodes = capacity.size

    def name_pair(i: int) -> str:
        return f"{jobs[i // num_nodes]}_{i % num_nodes}"

    def name_job(i: int) -> str:
        return str(jobs[i])

    amount = builder.add_columns("amount", jobs.size * num_nodes, label=name_pair)
    touched = builder.add_columns("touched", jobs.size * num_nodes, upper=1.0, label=name_pair)
    row_of, node_of = (
        np.repeat(np.arange(jobs.size), num_nodes),
        np.tile(np.arange(num_nodes), jobs.size),
    )
    total = builder.add_rows("total", jobs.size, lower=0.0, upper=0.0, label=name_job)  # (N4)
    builder.add_entries(total[job_of], several, -choices.replicas[several])
    builder.add_entries(total[row_of], amount, 1.0)
    least = builder.add_rows("least", amount.size, lower=0.0, label=name_pair)  # (N5)
    builder.add_entries(least, amount, 1.0)
    builder.add_entries(least, touched, -1.0)
    most = builder.add_rows("most", amount.size, upper=0.0, label=name_pair)
    builder.add_entries(most, amount, 1.0)
    builder.add_entries(most, touched, -free.gpus[node_of])
    few = builder.add_rows("few", jobs.size, lower=0.0, label=name_job)  # (N6)
    many = builder.add_rows("many", jobs.size, upper=0.0, label=name_job)
    builder.add_entries(few[job_of], several, -2.0)
    builder.add_entries(many[job_of], several, -instance.rules.max_nodes_per_job)
    builder.add_entries(few[row_of], touched, 1.0)
    builder.add_entries(many[row_of], touched, 1.0)
    builder.add_entries(capacity[node_of], amount, 1.0)
    if instance.rules.interference_avoidance:
        alone = builder.add_rows("interference", num_nodes, upper=1.0 - free.blocked)  # (N8)
        builder.add_entries(alone[node_of], touched, 1.0)
        spread = free.stay_spread
        builder.add_entries(alone[free.stay_node[spread]], free.stay_choice[spread], 1.0)
    return jobs, amount


def decode_nodes(instance: Instance, program: NodeProgram, solution: Floats) -> Allocation:
    """The allocation that a solution describes."""
    values = np.rint(solution).astype(np.int64)
    choices, current, num_nodes = program.choices, instance.current, instance.cluster.num_nodes
    taken = np.flatnonzero(values[: len(choices)] > 0)
    keepers = choices.job[taken[choices.kind[taken] == Kind.KEEP]]
    stays = np.isin(current.job, keepers)
    placed = np.flatnonzero(values[program.local] > 0)
    choice = program.one[placed // num_nodes]
    spread = np.flatnonzero(values[program.amount] > 0)
    return Allocation.from_entries(
        np.concatenate(
            [current.job[stays], choices.job[choice], program.distributed_jobs[spread // num_nodes]]
        ),
        np.concatenate([current.node[stays], placed % num_nodes, spread % num_nodes]),
        np.concatenate(
            [current.replicas[stays], choices.replicas[choice], values[program.amount[spread]]]
        ),
        instance.num_jobs,
        num_nodes,
    )
