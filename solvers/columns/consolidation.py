"""Room on nodes for jobs that found none, by moving smaller jobs together.

A job that is to have *k* GPUs of one node, where no node has as many free, takes a node from which
smaller jobs move to other nodes with room for them. Jobs that do not stay anyway move at no cost;
those that stay lose what a restart costs, so that of all nodes the cheapest is taken, and only as
long as the job that gets room gains more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.columns.node_packing import NOWHERE

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.columns.node_packing import NodePacking

#: Nodes that are looked at for each job without a place, at a time.
TRIED = 200


def make_room(
    packing: NodePacking, loss: Float[Floats, " jobs"], gain: Float[Floats, " jobs"]
) -> None:
    """Place jobs that have no place, largest first, where smaller jobs can move away.

    Parameters
    ----------
    packing
        The placements, which change.
    loss
        What moving costs every job, 0 for those that do not stay; changes to 0 for those moved.
    gain
        What every job loses if it gets fewer GPUs than it is to have.
    """
    sizes = packing.replicas[packing.unplaced]
    for size in np.unique(sizes)[::-1].tolist():
        waiting = packing.unplaced
        waiting = waiting[packing.replicas[waiting] == size]
        waiting = waiting[np.argsort(-gain[waiting], kind="stable")]
        while waiting.size:
            placed = _place_some(packing, waiting, size, loss, gain)
            if not placed:
                break
            waiting = waiting[placed:]


def _place_some(
    packing: NodePacking, waiting: Indices, size: int, loss: Floats, gain: Floats
) -> int:
    """Place the first jobs of one size that wait, on a node each; return how many."""
    count = 0
    for node, movers in _cheapest(packing, size, loss, TRIED * waiting.size):
        job = int(waiting[count])
        if loss[movers].sum() >= gain[job]:
            break
        if packing.free[node] + packing.replicas[movers].sum() < size:
            continue  # it received a job that moved meanwhile
        if _moved(packing, node, movers):
            loss[movers] = 0.0
            packing.where[job] = node
            packing.free[node] -= size
            count += 1
            if count == waiting.size:
                break
    return count


def _cheapest(
    packing: NodePacking, size: int, loss: Floats, most: int
) -> list[tuple[int, Indices]]:
    """Return nodes with smaller jobs without which they have room for a size, cheapest first.

    The jobs of a node are taken in the order of their losses a GPU.
    """
    alone = np.flatnonzero((packing.where != NOWHERE) & (packing.replicas < size))
    own, node = packing.replicas[alone], packing.where[alone]
    order = np.lexsort((loss[alone] / own, node))
    alone, own, node = alone[order], own[order], node[order]
    first = np.searchsorted(node, node)  # of the node's jobs

    def running(values: Floats | Indices) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(values)])
        found: Floats = total[1:] - total[first]
        return found

    room = packing.free[node] + running(own)
    before = room - own
    last = np.flatnonzero((room >= size) & (before < size))
    last = last[np.argsort(running(loss[alone])[last], kind="stable")][:most]
    return [(int(node[end]), alone[first[end] : end + 1]) for end in last.tolist()]


def _moved(packing: NodePacking, node: int, movers: Indices) -> bool:
    """Move jobs off a node, largest first, each where least is left; return whether all can."""
    found: list[tuple[int, int, int]] = []
    for mover in movers[np.argsort(-packing.replicas[movers], kind="stable")].tolist():
        own = int(packing.replicas[mover])
        target = _target(packing.free, own, node)
        if target is None:
            break
        packing.free[target] -= own
        found.append((mover, target, own))
    if len(found) < movers.size:
        for _, target, own in found:
            packing.free[target] += own
        return False
    for mover, target, own in found:
        packing.where[mover] = target
        packing.free[node] += own
    return True


def _target(free: Indices, size: int, other: int) -> int | None:
    """Return the node other than one where least is left beside a job; None if none has room."""
    for room in range(size, int(free.max()) + 1):
        nodes = np.flatnonzero(free == room)
        nodes = nodes[nodes != other]
        if nodes.size:
            return int(nodes[0])
    return None
