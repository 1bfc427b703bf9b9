"""Use of idle GPUs by running jobs in Gandiva: gathering on one server, and growth.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goodalloc.solvers.shared_gpus.server_slices import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.round.allocation import Placement


def gather(node_gpus: Sequence[int], placements: Mapping[str, Placement]) -> dict[str, Placement]:
    """Move every job on several servers to the tightest one with room for all of it, if any.

    Parameters
    ----------
    node_gpus
        GPUs of every server.
    placements
        Placements of the jobs.
    """
    found, free = dict(placements), idle_gpus(node_gpus, placements)
    for name, placement in placements.items():
        held, wanted = Counter(dict(placement)), size_of(placement)
        room = {node: free[node] + held[node] for node in free}
        whole = [node for node in free if room[node] >= wanted]
        if len(held) > 1 and whole:
            node = min(whole, key=room.__getitem__)
            free.update(held)
            free[node] -= wanted
            found[name] = ((node, wanted),)
    return found


def grow(
    node_gpus: Sequence[int], placements: Mapping[str, Placement], most: Mapping[str, int]
) -> dict[str, Placement]:
    """Give idle GPUs one by one to the job on their server that has grown least for its size.

    On one server a job never has fewer GPUs when more are idle: it restarts only to grow, or for
    other jobs.

    Parameters
    ----------
    node_gpus
        GPUs of every server.
    placements
        Placements of the jobs, with their requested GPUs.
    most
        Most GPUs of the jobs that may grow.
    """
    held = {name: Counter(dict(placement)) for name, placement in placements.items()}
    asked = {name: size_of(placement) for name, placement in placements.items()}
    for node, idle in idle_gpus(node_gpus, placements).items():
        for _ in range(idle):
            able = [n for n, gpus in held.items() if gpus[node] and gpus.total() < most.get(n, 0)]
            if not able:
                break
            held[min(able, key=lambda name: held[name].total() / asked[name])][node] += 1
    return {name: tuple(gpus.items()) for name, gpus in held.items()}


def idle_gpus(node_gpus: Sequence[int], placements: Mapping[str, Placement]) -> Counter[int]:
    """Return the GPUs of every server that no job has."""
    free = Counter(dict(enumerate(node_gpus)))
    for placement in placements.values():
        free.subtract(dict(placement))
    return free
