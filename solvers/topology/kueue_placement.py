"""Placement of jobs one after the other, as Kubernetes' schedulers do on a tree.

The numbers of GPUs are given. Jobs are placed in descending order of them, each within the lowest
level at which a domain has room, up to the level that it requires: Kueue's search for a preferred
level, with the node preferred. The algorithms are those that Kueue's design document describes,
with GPUs for pods:

- *best fit*: the domain with the least free capacity that holds the job; below it, domains from the
  most free capacity on, except that the last is the one of least capacity that suffices;
- *least free capacity*: the same domain, and below it domains from the least free capacity on;
- *most free capacity*: domains of the most free capacity throughout, as an earlier profile did;
- *balanced*: the same domain; the nodes are the fewest that suffice, of these the least capacity,
  and the GPUs are spread evenly over them.

The document tells the order of domains and two examples, which the tests repeat; how ties are
broken it does not; here the domain named first counts as the one of more free capacity. Its
balanced placement also looks for the domain in which the smallest part is largest, which is left
out.

References
----------
Kueue enhancement proposal 2724, "Topology Aware Scheduling", sections "Computing the assignment"
    and "Balanced placement". https://github.com/kubernetes-sigs/kueue
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Flags, Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Name of an algorithm.
Algorithm = Literal["best_fit", "least_free", "most_free", "balanced"]

#: All of them.
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def greedy_placement(
    round_: TopologyRound, wanted: Allocation, algorithm: Algorithm = "best_fit"
) -> Allocation:
    """Return an allocation with the numbers of GPUs of another, placed by an algorithm.

    Jobs whose placement is the present one in `wanted` keep it where the tree allows that, the
    first ones first; a job for which no domain has room gets the largest number of GPUs for which
    one has, no fewer than it needs (Kueue's partial admission), or nothing.

    Parameters
    ----------
    round_, wanted, algorithm
        The round, an allocation that says how many GPUs each job gets and which jobs stay, and the
        name of the algorithm.

    Raises
    ------
    ValueError
        If there is no such algorithm.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, NodeGroup
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> from goodalloc.solvers.topology import greedy_placement
    >>> groups = tuple(NodeGroup(f"n{gpus}{i}", 1, gpus) for i, gpus in enumerate((3, 3, 2, 1)))
    >>> round_ = TopologyRound(Instance(Cluster(groups), (Job("a"),)), Topology((), ()))
    >>> wanted = Allocation.from_matrix([[3, 3, 1, 0]])
    >>> for name in ("best_fit", "least_free"):  # the example of the document, of 7 pods
    ...     print(greedy_placement(round_, wanted, name).matrix().tolist())
    [[3, 3, 0, 1]]
    [[1, 3, 2, 1]]
    """
    require_choice("Algorithm", algorithm, ALGORITHMS)
    instance = round_.instance
    state = _Placing(round_, algorithm, instance.cluster.node_gpus.copy())
    current, stays = instance.current, wanted.unchanged(instance.current)
    placements: list[Placement] = [()] * instance.num_jobs
    level, order = round_.level_of(current), np.argsort(-wanted.job_replicas, kind="stable")
    first = sorted(order.tolist(), key=lambda job: not instance.pinned[job])
    for job in first:
        held = current.placement(job)
        if stays[job] and held and level[job] <= round_.required[job] and state.fits(held):
            placements[job] = held
            state.hold(held)
    for job in order.tolist():
        gpus = int(wanted.job_replicas[job])
        if gpus and not placements[job]:
            fewest, highest = int(instance.min_replicas[job]), int(round_.required[job])
            tries = (state.place(part, highest) for part in range(gpus, fewest - 1, -1))
            placements[job] = next(filter(None, tries), ())
            state.hold(placements[job])
    return Allocation.from_placements(placements, instance.cluster.num_nodes)


@dataclass
class _Placing:
    """Cluster while jobs are being placed.

    Parameters
    ----------
    round_, algorithm
        The round, and the algorithm.
    free
        Free GPUs of every node.
    uses
        Jobs on the uplink of every domain of a limited level, by level and domain.
    """

    round_: TopologyRound
    algorithm: Algorithm
    free: Indices
    uses: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spread: Flags = np.zeros(self.free.size, dtype=bool)

    def hold(self, placement: Placement) -> None:
        """Take the GPUs of a placement."""
        for node, gpus in placement:
            self.free[node] -= gpus
        if len(placement) > 1:
            self.spread[[node for node, _ in placement]] = True
            self.uses.update(self._uplinks(placement))

    def fits(self, placement: Placement) -> bool:
        """Return whether nodes, the rule against interference and uplinks allow a placement."""
        rules, nodes = self.round_.instance.rules, [node for node, _ in placement]
        if any(self.free[node] < gpus for node, gpus in placement):
            return False
        if len(nodes) == 1:
            return True
        limits = self.round_.topology.limited_levels
        crowded = any(self.uses[key] >= limits[key[0]] for key in self._uplinks(placement))
        shared = rules.interference_avoidance and self.spread[nodes].any()
        return not (crowded or shared or len(nodes) > rules.max_nodes_per_job)

    def _uplinks(self, placement: Placement) -> Iterator[tuple[int, int]]:
        """Return the uplinks that a placement uses, as level and domain."""
        for place in self.round_.topology.limited_levels:
            touched = {int(self.round_.domain[place][node]) for node, _ in placement}
            if len(touched) > 1:
                yield from ((place, domain) for domain in touched)

    def place(self, gpus: int, highest: int) -> Placement:
        """Return the placement of a job within a level up to `highest`; empty if there is none."""
        for place in range(highest + 1):
            usable = self.free.copy()
            if place and self.round_.instance.rules.interference_avoidance:
                usable[self.spread] = 0
            domain = self.round_.domain[place]
            room = np.bincount(domain, usable).astype(np.int64)
            fitting = np.flatnonzero(room >= gpus)
            key = -room[fitting] if self.algorithm == "most_free" else room[fitting]
            for chosen in fitting[np.argsort(key, kind="stable")].tolist():
                placement = tuple(sorted(self._within(place, chosen, gpus, usable)))
                if (len(placement) > 1) == (place > 0) and self.fits(placement):
                    return placement
        return ()

    def _within(
        self, place: int, domain: int, gpus: int, usable: Indices
    ) -> Iterator[tuple[int, int]]:
        """Return the nodes and GPUs of a job within a domain, level by level."""
        if place == 0:
            yield domain, gpus
            return
        inside = self.round_.domain[place] == domain
        below = 0 if self.algorithm == "balanced" else place - 1
        children = np.unique(self.round_.domain[below][inside])
        room = np.bincount(self.round_.domain[below], np.where(inside, usable, 0))[children]
        for child, part in shares_of(gpus, room.astype(int).tolist(), self.algorithm):
            yield from self._within(below, int(children[child]), part, usable)


def shares_of(needed: int, room: Sequence[int], algorithm: Algorithm) -> list[tuple[int, int]]:
    """Return how many GPUs are taken of which of some domains, as pairs of index and GPUs.

    Parameters
    ----------
    needed, room, algorithm
        GPUs in all, those that each domain has, enough in all, and the algorithm.

    Examples
    --------
    >>> from goodalloc.solvers.topology import shares_of
    >>> shares_of(12, (10, 10), "best_fit"), shares_of(12, (10, 10), "balanced")
    ([(0, 10), (1, 2)], [(0, 6), (1, 6)])
    """
    if algorithm == "balanced":
        return _even_shares(needed, room)
    order = sorted(
        (index for index, has in enumerate(room) if has > 0), key=lambda index: -room[index]
    )
    if algorithm == "least_free":
        order.reverse()
    taken = []
    while needed > 0:
        chosen = order[0]
        if algorithm == "best_fit" and room[chosen] >= needed:  # the last one: the tightest
            chosen = min(
                (index for index in order if room[index] >= needed), key=lambda index: room[index]
            )
        order.remove(chosen)
        taken.append((chosen, min(room[chosen], needed)))
        needed -= taken[-1][1]
    return taken


def _even_shares(needed: int, room: Sequence[int]) -> list[tuple[int, int]]:
    """Return even shares of the fewest domains that suffice, of these the least room."""
    order = sorted(range(len(room)), key=lambda index: (room[index], index))
    count = next(n for n in range(1, len(room) + 1) if sum(room[i] for i in order[-n:]) >= needed)
    starts = (order[at : at + count] for at in range(len(room) - count + 1))
    chosen = next(some for some in starts if sum(room[index] for index in some) >= needed)
    shares = []
    for place, index in enumerate(chosen):  # ascending in room: what one lacks, later ones take
        part = min(room[index], needed // (count - place))
        shares.append((index, part))
        needed -= part
    return sorted(share for share in shares if share[1] > 0)
