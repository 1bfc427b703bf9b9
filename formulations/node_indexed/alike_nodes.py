r"""Symmetry breaking among equal nodes by the jobs on them.

Where nodes have the same of everything and nobody is on them, exchanging two of them changes
nothing, and a solver that branches on single nodes refutes the same packing once for every order of
the nodes. Let the jobs that have choices on one node be ranked, :math:`r_j = 0, 1, \dots`, and the
nodes of a kind be numbered, :math:`k_v = 0, 1, \dots` Then some optimum of the node-indexed program
satisfies, for every choice *i* of job *j* on one node,

.. math::

    l_{iv} = 0 \quad \text{wherever } k_v > r_j.                                            (1)

For of any solution number the nodes of a kind anew, in the order of the first job in rank that is
on each by a choice on one node: as such a job is on one node only, these are all different, so the
node numbered *k* has none before rank *k*. (An asymmetric representatives formulation.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import choice_demand, node_capacity
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.node_indexed.node_program import NodeProgram
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices


def node_numbers(instance: Instance) -> Int[Indices, " nodes"]:
    """Return the number of every node among its equals, shape (nodes,).

    Nodes on which anything runs are like no other, for it may stay.
    """
    cluster = instance.cluster
    used = np.zeros(cluster.num_nodes, dtype=np.int64)
    busy = np.unique(instance.current.node)
    used[busy] = 1 + np.arange(busy.size)
    keys = np.column_stack([used, cluster.node_type, node_capacity(instance)])
    kind = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], kind[order])
    numbers = np.empty_like(order)
    numbers[order] = np.arange(order.size) - first
    return numbers


def job_ranks(instance: Instance, choices: Choices) -> Int[Indices, " jobs"]:
    """Return the rank of every job that has a choice on one node, shape (jobs,); of the others, the
    last.

    First comes the one that may take most of anything.
    """
    one = choices.where(choices.of(Kind.ONE_NODE))
    total = np.maximum(node_capacity(instance).sum(axis=0), SMALLEST_DIVISOR)
    largest = np.zeros(instance.num_jobs)
    np.maximum.at(largest, one.job, np.max(choice_demand(instance, one) / total, axis=1))
    ranks = np.empty(instance.num_jobs, dtype=np.int64)
    ranks[np.argsort(-largest, kind="stable")] = np.arange(instance.num_jobs)
    return ranks


def told_apart(instance: Instance, built: NodeProgram) -> Program:
    """Return the node-indexed program with (1); its optimum is the same.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.node_indexed import build_node_program, told_apart
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> built = build_node_program(instance, choices, power_cost(choices.utility, -1.0))
    >>> told_apart(instance, built).num_rows >= built.program.num_rows
    True
    """
    numbers = node_numbers(instance)
    rank = job_ranks(instance, built.choices)[built.choices.job[built.one]]
    barred = (numbers[None] > rank[:, None]).ravel()
    upper = built.program.upper.copy()
    upper[built.local[barred]] = 0.0
    return replace(built.program, upper=upper)
