r"""Homes of jobs on servers: affinity, height, and turns on each server (Gandiva, OSDI'18).

Every job has a home: GPUs of some servers, on which others may be at home as well. A server has the
affinity of jobs of *g* GPUs while all that are at home there have *g* (with those that they have
elsewhere), and the height

.. math:: H_v = \lceil \textstyle\sum_{j \text{ at home on } v} g_{jv} / G_v \rceil.            (1)

A job that arrives finds its home by the published order: GPUs where nobody is at home (a) of
servers with its affinity, (b) of servers without any, (c) of any servers; where these are too few,
(d) the server of least height. There it takes turns with others. How ties are broken, and that a
job of more GPUs than a server has looks at (a) and (b) together, is a documented reading.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from goodalloc.solvers.gavel.share_rounds import take_tightest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.models.round.allocation import Placement


def size_of(placement: Placement) -> int:
    """How many GPUs it has."""
    return sum(gpus for _, gpus in placement)


def find_home(node_gpus: Sequence[int], homes: Iterable[Placement], wanted: int) -> Placement:
    """A home for so many GPUs, by (a) to (d).

    Parameters
    ----------
    node_gpus
        GPUs of every server; together at least as many as are wanted.
    homes
        Those of the other jobs.
    wanted
        GPUs of the job.
    """
    load: Counter[int] = Counter()
    sizes: defaultdict[int, set[int]] = defaultdict(set)
    for home in homes:
        load.update(dict(home))
        for node, _ in home:
            sizes[node].add(size_of(home))
    every = range(len(node_gpus))
    free = [max(node_gpus[node] - load[node], 0) for node in every]
    same = [node for node in every if sizes[node] == {wanted}]
    known = [node for node in every if sizes[node] in (set(), {wanted})]
    splits = wanted > max(node_gpus)
    for nodes, may_split in ((same, splits), (known, splits), (every, True)):
        left = [free[node] for node in nodes]
        if (sum(left) if may_split else max(left, default=0)) >= wanted:
            return take_tightest(free, nodes, wanted)
    return _least_height(node_gpus, load, wanted)


def _least_height(node_gpus: Sequence[int], load: Mapping[int, int], wanted: int) -> Placement:
    """The lowest server that could hold all of it alone, or else the lowest ones together."""

    def height(node: int) -> tuple[int, int]:
        return math.ceil(load[node] / node_gpus[node]), load[node]

    order = sorted((node for node, gpus in enumerate(node_gpus) if gpus), key=height)
    whole = next((node for node in order if node_gpus[node] >= wanted), None)
    if whole is not None:
        return ((whole, wanted),)
    pairs: Placement = ()
    for node in order:
        gpus = min(node_gpus[node], wanted - size_of(pairs))
        pairs = (*pairs, (node, gpus)) if gpus else pairs
    return pairs


def serve_at_home(
    node_gpus: Sequence[int], homes: Mapping[str, Placement], *, move: bool
) -> dict[str, Placement]:
    """Who runs where: in order, those whose home is not in use; then others on what is idle.

    Parameters
    ----------
    node_gpus
        GPUs of every server.
    homes
        Of the jobs, whose turn it is first.
    move
        Whether a job whose home is in use moves to idle GPUs, which are its home then.
    """
    free = Counter(dict(enumerate(node_gpus)))
    running: dict[str, Placement] = {}
    for name, home in homes.items():
        if all(free[node] >= gpus for node, gpus in home):
            free.subtract(dict(home))
            running[name] = home
    idle = free.total()
    for name, home in homes.items() if move else ():
        if name not in running and size_of(home) <= idle:
            running[name] = find_home(node_gpus, running.values(), size_of(home))
            idle -= size_of(home)
    return running
