"""Independent checker of allocations of rounds in columns, straight from the rules.

It counts in whole numbers and shares no code with the solvers; `models/round/feasibility.py` states
the rules, and checks the same rounds job by job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.feasibility import Violation

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
        The round.
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


def _first(wrong: Flags) -> int | None:
    """Return the first index at which something is wrong; None if nothing is."""
    return int(np.argmax(wrong)) if wrong.any() else None
