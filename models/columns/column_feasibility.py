"""Independent checker of allocations of rounds in columns, straight from the rules.

It shares no code with the solvers; `models/round/feasibility.py` states the rules, and checks the
same rounds job by job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.round.feasibility import Violation
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags


def column_violations(columns: RoundColumns, allocation: Allocation) -> tuple[Violation, ...]:
    """Return the rules that an allocation breaks, each with the first job or node that breaks it.

    Parameters
    ----------
    columns
        The round, with modes or without.
    allocation
        The allocation.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models import Allocation
    >>> from goodalloc.models.columns import RoundColumns, column_violations
    >>> columns = RoundColumns.of(generate(seed=0, jobs=2, nodes=1, gpus_per_node=4))
    >>> [broken.rule for broken in column_violations(columns, Allocation.from_matrix([[4], [4]]))]
    ['max_replicas', 'capacity']
    """
    return tuple(_found(columns, allocation))


def _found(columns: RoundColumns, allocation: Allocation) -> Iterator[Violation]:
    """Generate the violations."""
    jobs, nodes = columns.num_jobs, columns.cluster.num_nodes
    if (allocation.num_jobs, allocation.num_nodes) != (jobs, nodes):
        yield Violation(
            "shape",
            f"The allocation is {allocation.num_jobs} jobs by {allocation.num_nodes} nodes; the "
            f"round is {jobs} by {nodes}.",
        )
        return
    replicas, spans, used = np.zeros(jobs, int), np.zeros(jobs, int), np.zeros(nodes, int)
    np.add.at(replicas, allocation.job, allocation.replicas)
    np.add.at(spans, allocation.job, 1)
    np.add.at(used, allocation.node, allocation.replicas)
    distributed = np.zeros(nodes, int)
    np.add.at(distributed, allocation.node[spans[allocation.job] > 1], 1)
    rules, gpus = columns.rules, columns.cluster.node_gpus
    if (job := _first(replicas > columns.max_replicas)) is not None:
        text = f"Job {job} has {replicas[job]} replicas; max_replicas is "
        yield Violation("max_replicas", f"{text}{columns.max_replicas[job]}.")
    if (job := _first(spans > rules.max_nodes_per_job)) is not None:
        text = f"Job {job} spans {spans[job]} nodes; max_nodes_per_job is "
        yield Violation("max_nodes_per_job", f"{text}{rules.max_nodes_per_job}.")
    if (node := _first(used > gpus)) is not None:
        text = f"Node {node} holds {used[node]} replicas; it has {gpus[node]} GPUs."
        yield Violation("capacity", text)
    if rules.interference_avoidance and (node := _first(distributed > 1)) is not None:
        text = f"Node {node} is shared by {distributed[node]} distributed jobs."
        yield Violation("interference", text)
    if (allocation.replicas < 1).any():
        yield Violation("entry", "An entry of the allocation has no replica.")
    if isinstance(columns, ModeColumns):
        yield from _in_modes(columns, allocation)


def _in_modes(columns: ModeColumns, allocation: Allocation) -> Iterator[Violation]:
    """Generate the violations of types of GPU and of resources."""
    unknown = (allocation.mode < 0) | (allocation.mode >= len(columns.modes))
    if (job := _first(unknown)) is not None:
        text = f"Job {job} is in mode {allocation.mode[job]}; it has {len(columns.modes)} modes."
        yield Violation("mode", text)
        return
    cluster, names = columns.cluster, columns.cluster.resource_names
    used, mode = np.zeros((cluster.num_nodes, len(names))), allocation.mode[allocation.job]
    for index, one in enumerate(columns.modes):
        there = mode == index
        node = allocation.node[there]
        for name, amount in one.resources:
            taken = amount * allocation.replicas[there]
            np.add.at(used[:, names.index(name)], node, taken)
        if one.gpu_type:
            types = np.array([group.gpu_type for group in cluster.groups])
            wrong = types[cluster.node_group[node]] != one.gpu_type
            if (entry := _first(wrong)) is not None:
                job = int(allocation.job[there][entry])
                text = f"Job {job} is on node {node[entry]} in mode '{one.name}', which runs on "
                yield Violation("gpu_type", f"{text}'{one.gpu_type}'.")
    had = cluster.node_resources
    for index, name in enumerate(names):
        over = used[:, index] > had[:, index] * (1.0 + RESOURCE_TOLERANCE)
        if (node := _first(over)) is not None:
            text = f"Node {node} holds {used[node, index]:g} {name}; it has {had[node, index]:g}."
            yield Violation("resource", text)


def _first(wrong: Flags) -> int | None:
    """Return the first index at which something is wrong; None if nothing is."""
    return int(np.argmax(wrong)) if wrong.any() else None
