"""Modes that a decision gives its jobs, and checks that their nodes have room for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Mode
    from goodalloc.solvers.policies.policy import ActiveJob, Decision, Round


def check_modes(at: str, round_: Round, decision: Decision) -> None:
    """Refuse modes that a job does not have or that its nodes have no GPUs or no room for.

    Raises
    ------
    ValueError
        If a mode is unknown, asks for another type of GPU than its nodes have, or exceeds a
        resource of a node.
    """
    cluster = round_.cluster
    used = np.zeros(cluster.node_resources.shape)
    for name, mode in decided_modes(round_, decision).items():
        taken = dict(mode.resources)
        row = np.array([taken.get(resource, 0.0) for resource in cluster.resource_names])
        for node, gpus in decision.placements[name]:
            if mode.gpu_type not in ("", cluster.node_types[node]):
                raise ValueError(
                    f"{at}: job '{name}' is to run in mode '{mode.name}' on node "
                    f"'{cluster.node_names[node]}', whose GPUs are '{cluster.node_types[node]}'; "
                    f"expected '{mode.gpu_type}'."
                )
            used[node] += gpus * row
    over = used > cluster.node_resources * (1 + RESOURCE_TOLERANCE)
    if over.any():
        node, index = (int(i) for i in np.argwhere(over)[0])
        raise ValueError(
            f"{at}: node {node} is to give {used[node, index]:g} of "
            f"{cluster.resource_names[index]}; it has {cluster.node_resources[node, index]:g}."
        )


def decided_modes(round_: Round, decision: Decision) -> dict[str, Mode]:
    """Return the mode of every job that is to run, by name; empty where jobs have none.

    Raises
    ------
    ValueError
        If a mode is unknown, or none of a job's modes suits its nodes.
    """
    found = {}
    for job in round_.jobs:
        placement = decision.placements.get(job.name, ())
        if not placement or not (modes := job.modes()):
            continue
        by_name = {mode.name: mode for mode in modes}
        wanted, nodes = decision.modes.get(job.name), [node for node, _ in placement]
        mode = by_name.get(wanted) if wanted is not None else share_of(round_.cluster, nodes, modes)
        if mode is None:
            given = "none on all of its nodes" if wanted is None else f"'{wanted}'"
            raise ValueError(
                f"Decision at {round_.time} s: mode of job '{job.name}' is {given}; expected one "
                f"of {', '.join(by_name)}."
            )
        found[job.name] = mode
    return found


def with_shares(round_: Round) -> Round:
    """Return the round with one mode for each type of GPU, that of a GPU's share of its node.

    It is the round as policies see it that know GPUs only. A job that runs in another mode keeps
    that, too.
    """
    cluster = round_.cluster
    groups = [
        [node for node, found in enumerate(cluster.node_types) if found == kind]
        for kind in cluster.gpu_types
    ]

    def limited(job: ActiveJob) -> ActiveJob:
        def modes() -> tuple[Mode, ...]:
            every = job.modes()
            usual = [share_of(cluster, nodes, every) for nodes in groups]
            return tuple(mode for mode in every if mode in usual or mode.name == job.mode)

        return replace(job, modes=modes)

    return replace(round_, jobs=tuple(map(limited, round_.jobs)))


def share_of(cluster: Cluster, nodes: Sequence[int], modes: Sequence[Mode]) -> Mode | None:
    """Return the mode with the most resources within a GPU's share of all these nodes."""
    shares = cluster.node_shares[nodes].min(axis=0)
    most = dict(zip(cluster.resource_names, shares * (1 + RESOURCE_TOLERANCE), strict=True))
    types = {cluster.node_types[node] for node in nodes}
    within = [
        mode
        for mode in modes
        if types <= {mode.gpu_type or cluster.node_types[nodes[0]]}
        and all(amount <= most[name] for name, amount in mode.resources)
    ]
    return max(within, key=lambda mode: [amount for _, amount in mode.resources], default=None)
