"""Placement of chosen shapes: the allocation that gives every job exactly its choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.packing import pack
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.node_indexed.node_program import build_node_program, decode_nodes
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance

#: Most columns of the node-indexed program that is tried when counting pieces does not suffice.
MOST_NODE_COLUMNS = 200_000


def place(instance: Instance, taken: Choices, watch: Watch | None = None) -> Allocation | None:
    """Return an allocation with these choices, one for each job; None if no nodes can hold them.

    First the pieces of equal distributed jobs are counted together, then those of each job by
    itself, then every node is indexed. The result depends on the choices alone (time permitting),
    so that equal choices get equal nodes.

    Parameters
    ----------
    instance
        The round.
    taken
        One choice for every job.
    watch
        A clock; without one there is no limit.
    """
    watch = watch or Watch(Stop())
    nothing = np.zeros(len(taken))
    distributed = taken.of(Kind.SEVERAL_NODES).size
    for exact in (False, True) if distributed else (False,):
        patterns = build_patterns(instance, taken, nothing, exact=exact)
        outcome = run_mixed_integer(patterns.program, watch, gap=0.5)
        if outcome.values is None:
            return None
        allocation = pack(instance, patterns, outcome.values)
        if allocation is not None:
            return allocation
    return place_by_node(instance, taken, watch)


def place_by_node(instance: Instance, taken: Choices, watch: Watch) -> Allocation | None:
    """Return an allocation as `place`, with every node indexed; None if that is too large."""
    jobs = taken.of(Kind.SEVERAL_NODES).size + taken.of(Kind.ONE_NODE).size
    if jobs * instance.cluster.num_nodes > MOST_NODE_COLUMNS:
        return None
    program = build_node_program(instance, taken, np.zeros(len(taken)))
    outcome = run_mixed_integer(program.program, watch, gap=0.5)
    return None if outcome.values is None else decode_nodes(instance, program, outcome.values)
