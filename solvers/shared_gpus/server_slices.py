r"""Homes of jobs on servers: affinity, height, and turns on each server (Gandiva).

Every job has a home: GPUs of some servers, which may be the home of others as well. A server has
the affinity of jobs of *g* GPUs while all jobs at home there have *g* GPUs (in all), and the height

.. math:: H_v = \lceil \textstyle\sum_{j \text{ at home on } v} g_{jv} / G_v \rceil.            (1)

A job that arrives finds its home by the published order: GPUs where no job is at home (a) of
servers with its affinity, (b) of servers without any, (c) of any servers; where these are too few,
(d) the server of least height. There it takes turns with others. The rule for ties, and that a job
of more GPUs than a server has considers (a) and (b) together, are a documented reading.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
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
    """Return the number of GPUs of a placement."""
    return sum(gpus for _, gpus in placement)


def find_home(node_gpus: Sequence[int], homes: Iterable[Placement], wanted: int) -> Placement:
    """Return a home of `wanted` GPUs, by (a) to (d).

    Parameters
    ----------
    node_gpus
        GPUs of every server; together at least as many as wanted.
    homes
        Homes of the other jobs.
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
    """Return the lowest server that could hold the job alone, or else the lowest together."""

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
    """Return the placements of a slice: jobs whose home is free, then others on idle GPUs.

    Parameters
    ----------
    node_gpus
        GPUs of every server.
    homes
        Homes of the jobs, in order of their turns.
    move
        Whether a job whose home is in use moves to idle GPUs, which become its home.
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
