"""Whether a decision is possible: known jobs and nodes, no GPU and no core used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goodalloc.models.validation import require_count
from goodalloc.solvers.decided_modes import check_modes
from goodalloc.solvers.policy import Decision

if TYPE_CHECKING:
    from goodalloc.solvers.policy import Round


def check_decision(round_: Round, decision: Decision) -> None:
    """Refuse a decision that names an unknown job or node, a node twice, or uses a GPU twice.

    Raises
    ------
    ValueError
        With the time, the item and what was expected.
    """
    names = {job.name for job in round_.jobs}
    used: Counter[int] = Counter()
    at = f"Decision at {round_.time} s"
    if not isinstance(decision, Decision):
        raise ValueError(f"{at} is of type {type(decision).__name__}; expected a Decision.")
    if not isinstance(decision.placements, Mapping):
        raise ValueError(
            f"{at}: placements are a {type(decision.placements).__name__}; "
            "expected a mapping from names of jobs."
        )
    for name, placement in decision.placements.items():
        if name not in names:
            raise ValueError(f"{at}: job '{name}' is not active.")
        pairs = isinstance(placement, Sequence)
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in placement):
            raise ValueError(
                f"{at}: placement of job '{name}' is {placement!r}; expected (node, GPUs) pairs."
            )
        for node, gpus in placement:
            require_count(f"{at}: GPUs of job '{name}' on node {node}", gpus, minimum=1)
            require_count(f"{at}: node of job '{name}'", node, 0, round_.cluster.num_nodes - 1)
            used[node] += gpus
        if len({node for node, _ in placement}) < len(placement):
            raise ValueError(
                f"{at}: placement of job '{name}' is {placement!r}; expected each node once."
            )
    if decision.nodes is not None:
        require_count(f"{at}: nodes", decision.nodes, minimum=1)
    capacity = round_.cluster.node_gpus
    for node, gpus in used.items():
        if gpus > capacity[node]:
            raise ValueError(
                f"{at}: node {node} is to hold {gpus} GPUs; it has {int(capacity[node])}."
            )
    if not isinstance(decision.modes, Mapping):
        raise ValueError(
            f"{at}: modes are a {type(decision.modes).__name__}; expected a mapping from names of "
            "jobs to names of modes."
        )
    for name, mode in decision.modes.items():
        if name not in names:
            raise ValueError(f"{at}: job '{name}' has a mode and is not active.")
        if not isinstance(mode, str):
            raise ValueError(f"{at}: mode of job '{name}' is {mode!r}; expected its name.")
    check_modes(at, round_, decision)
