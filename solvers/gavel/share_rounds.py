r"""Time shares turned into rounds: the mechanism of Gavel, section 5.

A share is the part of its time that a line, a job alone or two on the same GPUs, should have on a
type of GPU. A round gives a line one type or nothing, all of its GPUs at a time and no job twice,
the line of the highest priority first:

.. math:: \text{priority}_{lw} = X_{lw} / f_{lw},                                               (1)

with :math:`f_{lw}` the part of the time since the shares were computed that the line had on that
type; infinite where that is 0 and the share is not. Ties are broken by the lack in seconds, then by
share. Jobs of many GPUs are placed first.

Two features of the published code are options here. GPUs without any share may go to jobs that can
run on them (`spare`). And time may count since a job came, not since the shares were computed
(`lifelong`, as in Sia's simulator): with :math:`t_{lw}` the seconds of a line on a type, half a
round more than it had,

.. math:: f_{lw} = t_{lw} / \sum_i t_{iw}.                                                       (2)

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 5. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Round

#: A job alone, or two that share their GPUs, by name.
Line = tuple[str, ...]

#: A share below this is a solver's rounding.
LEAST_SHARE = 1e-4

#: Seconds that count as had from the start, in (2): half a round.
HEAD_START = 180.0


@dataclass
class ShareRounds:
    """Time that every line had since the shares were last computed.

    Attributes
    ----------
    received
        Seconds of every line on every type.
    elapsed
        Seconds since the shares were last computed.
    spare
        Whether GPUs that shares leave go to jobs without a share of them.
    lifelong
        Whether time counts since a job came, (2).
    """

    received: dict[tuple[Line, str], float] = field(default_factory=dict, init=False)
    elapsed: float = field(default=0.0, init=False)
    spare: bool = False
    lifelong: bool = False

    def begin(self) -> None:
        """Start afresh after the shares were computed anew."""
        if not self.lifelong:
            self.received, self.elapsed = {}, 0.0

    def passed(self, types: Mapping[Line, str], seconds: float) -> None:
        """Account for time in which lines ran on these types."""
        self.elapsed += seconds
        for pair in types.items():
            self.received[pair] = self.received.get(pair, 0.0) + seconds

    def choose(
        self,
        shares: Mapping[tuple[Line, str], float],
        replicas: Mapping[str, int],
        gpus: Mapping[str, int],
    ) -> dict[Line, str]:
        """Return the lines that run in the next round, with their types.

        Parameters
        ----------
        shares
            X of every line and type; for a job alone, of every type on which it runs.
        replicas
            GPUs that every job takes; two of a line take as many.
        gpus
            GPUs of every type.
        """

        had, elapsed = self._had(shares, gpus)

        def urgency(pair: tuple[Line, str]) -> tuple[float, float, float]:
            share, seconds, all_seconds = shares[pair], had[pair], elapsed[pair[1]]
            if share < LEAST_SHARE:
                return 0.0, seconds, 0.0
            priority = share * all_seconds / seconds if seconds > 0 else math.inf
            return -priority, seconds - share * all_seconds, -share

        left, chosen, busy = dict(gpus), dict[Line, str](), set[str]()
        for line, kind in sorted(
            (pair for pair, share in shares.items() if self.spare or share >= LEAST_SHARE),
            key=urgency,
        ):
            if busy.isdisjoint(line) and replicas[line[0]] <= left[kind]:
                chosen[line] = kind
                busy.update(line)
                left[kind] -= replicas[line[0]]
        return chosen

    def _had(
        self, pairs: Iterable[tuple[Line, str]], kinds: Iterable[str]
    ) -> tuple[dict[tuple[Line, str], float], dict[str, float]]:
        """Return the seconds of every line on a type, and the reference seconds of every type."""
        if not self.lifelong:
            return {pair: self.received.get(pair, 0.0) for pair in pairs}, dict.fromkeys(
                kinds, self.elapsed
            )
        for pair in pairs:
            self.received.setdefault(pair, HEAD_START)
        elapsed = dict.fromkeys(kinds, 0.0)
        for (_, kind), seconds in self.received.items():
            elapsed[kind] = elapsed.get(kind, 0.0) + seconds
        return self.received, elapsed


def take_tightest(free: list[int], nodes: Sequence[int], wanted: int) -> Placement:
    """Take GPUs of the tightest node that holds the rest, or else of the one with most.

    Parameters
    ----------
    free
        Free GPUs of every node; changed in place.
    nodes
        Nodes to take from, which together have enough.
    wanted
        Number of GPUs.

    Examples
    --------
    >>> from goodalloc.solvers.gavel import take_tightest
    >>> free = [4, 2, 3]
    >>> take_tightest(free, range(3), 2), free
    (((1, 2),), [4, 0, 3])
    """
    pairs: Placement = ()
    while wanted:
        fits = [node for node in nodes if free[node] >= wanted]
        node = min(fits, key=free.__getitem__) if fits else max(nodes, key=free.__getitem__)
        gpus = min(wanted, free[node])
        pairs, wanted = (*pairs, (node, gpus)), wanted - gpus
        free[node] -= gpus
    return pairs


def place_lines(round_: Round, chosen: Mapping[Line, str], replicas: Mapping[str, int]) -> Decision:
    """Return GPUs for lines that have a type; of two jobs, one with such GPUs is the host.

    Two jobs that shared GPUs and part do not both keep them.

    Parameters
    ----------
    round_
        The round.
    chosen
        The type of every line that runs.
    replicas
        GPUs that every job takes.
    """
    jobs = {job.name: job for job in round_.jobs}
    types = round_.cluster.node_types
    kinds, beside = dict[str, str](), dict[str, str]()
    current: dict[str, Placement] = {}
    kept = set[str]()
    for line, kind in chosen.items():
        host = line[0]
        for name in line:
            owner = jobs[name].host or name
            held = jobs[name].placement
            if owner not in kept and _suits(held, replicas[name], kind, types):
                kept.add(owner)
                current[name], host = held, name
                break
        kinds[host] = kind
        beside.update({name: host for name in line if name != host})
    placements = place_on_types(round_.cluster, kinds, replicas, current)
    guests = {guest: placements[host] for guest, host in beside.items()}
    return Decision(placements | guests, beside=beside)


def _suits(held: Placement, replicas: int, kind: str, types: tuple[str, ...]) -> bool:
    """Return whether GPUs are as many as wanted, and of that type."""
    return sum(gpus for _, gpus in held) == replicas and all(
        types[node] == kind for node, _ in held
    )


def place_on_types(
    cluster: Cluster,
    chosen: Mapping[str, str],
    replicas: Mapping[str, int],
    current: Mapping[str, Placement],
) -> dict[str, Placement]:
    """Return nodes for jobs with a type: those that keep it stay, others go where they fit best.

    Parameters
    ----------
    cluster
        The nodes.
    chosen
        The type of every job that runs.
    replicas
        GPUs that every job takes.
    current
        Current placements of the jobs.

    Examples
    --------
    >>> from goodalloc.models import Cluster, NodeGroup
    >>> from goodalloc.solvers.gavel import place_on_types
    >>> cluster = Cluster((NodeGroup("a", 1, 4, "v100"), NodeGroup("b", 1, 4, "k80")))
    >>> place_on_types(cluster, {"one": "k80"}, {"one": 2}, {})
    {'one': ((1, 2),)}
    """
    types, free = cluster.node_types, cluster.node_gpus.tolist()
    placements: dict[str, Placement] = {}
    for name, kind in chosen.items():
        pairs = current.get(name, ())
        if _suits(pairs, replicas[name], kind, types):
            placements[name] = pairs
            for node, gpus in pairs:
                free[node] -= gpus
    waiting = [name for name in chosen if name not in placements]
    for name in sorted(waiting, key=lambda name: -replicas[name]):
        nodes = [node for node, kind in enumerate(types) if kind == chosen[name]]
        placements[name] = take_tightest(free, nodes, replicas[name])
    return placements
