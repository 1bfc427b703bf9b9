"""Gavel by the rules of Sia's simulator that ours does not have, each of which can be chosen.

The simulator's rules, beside those of `Gavel` with the options `spare` and `lifelong`:

- rates include the slow-down by which an application trains slower than was measured (`slowed`), so
  that CIFAR-10, slowed most, counts for less in the sum of steps;
- GPUs without any share go to jobs type by type and in order of submission (`in_order`), where ours
  go to the job that had the least time on them, so that another job has them in every round;
- GPUs are given out one by one in the order of the nodes, to the largest gangs first (`filled`); a
  gang keeps its own unless a larger one got one of them. Ours lets every gang keep its GPUs, and
  puts others where they fit most tightly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.data.applications.traces import SIA_SLOWDOWN, SIA_USUAL_SLOWDOWN
from goodalloc.models.gavel.share_goal import throughput
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.gavel.share_rounds import Line, ShareRounds
from goodalloc.solvers.gavel.time_shares import best_shares
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Round

#: Digits after the point to which the simulator rounds shares.
SHARE_DIGITS = 5


def slowed_steps(sharing: TimeSharing, round_: Round) -> NDArray[np.float64] | None:
    """Return the shares of most steps per second, counted as slow as jobs really train."""
    slowdown = [SIA_SLOWDOWN.get(job.application, SIA_USUAL_SLOWDOWN) for job in round_.jobs]
    return best_shares(sharing, throughput(sharing, slowdown)).shares


@dataclass
class RoundsInOrder(ShareRounds):
    """Rounds that break ties as Sia's simulator does: by share, type and order of submission.

    Attributes
    ----------
    kinds
        Types of GPU in the order of the nodes.
    """

    kinds: tuple[str, ...] = field(default=(), init=False)

    def choose(
        self,
        shares: Mapping[tuple[Line, str], float],
        replicas: Mapping[str, int],
        gpus: Mapping[str, int],
    ) -> dict[Line, str]:
        """Return the lines that run in the next round, with their types; see `ShareRounds`."""
        had, elapsed = self._had(shares, gpus)

        def urgency(pair: tuple[Line, str]) -> tuple[float, float, int]:
            share = round(shares[pair], SHARE_DIGITS)
            priority = share * elapsed[pair[1]] / had[pair]
            return -priority, -share, self.kinds.index(pair[1])

        left, chosen = dict(gpus), dict[Line, str]()
        for line, kind in sorted(shares, key=urgency):
            if line not in chosen and replicas[line[0]] <= left[kind]:
                chosen[line] = kind
                left[kind] -= replicas[line[0]]
        return chosen


@dataclass
class GavelOfArtifact(Gavel):
    """Gavel for the sum of steps, lifelong and with spare GPUs, by more rules of Sia's simulator.

    Parameters
    ----------
    in_order
        Whether GPUs without any share go to jobs type by type and in order of submission.
    filled
        Whether GPUs are given out one by one in the order of the nodes.
    """

    spare: bool = True
    lifelong: bool = True
    in_order: bool = False
    filled: bool = False
    _gpus: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.in_order:
            self._rounds = RoundsInOrder(spare=self.spare, lifelong=self.lifelong)

    def decide(self, round_: Round) -> Decision:
        """Decide as `Gavel`, by the rules that were chosen."""
        cluster = round_.cluster
        if isinstance(self._rounds, RoundsInOrder):
            self._rounds.kinds = tuple(dict.fromkeys(cluster.node_types))
        begins = round_.time >= self._due
        decision = super().decide(round_)
        if not (self.filled and begins):
            return decision
        kinds = {line[0]: kind for line, kind in self._types.items()}
        gangs = {name: sum(gpus for _, gpus in decision.placements[name]) for name in kinds}
        self._gpus = filled_gpus(cluster, kinds, gangs, self._gpus)
        nodes = _node_of_gpus(cluster)
        return Decision({name: _placement(found, nodes) for name, found in self._gpus.items()})


def filled_gpus(
    cluster: Cluster,
    kinds: Mapping[str, str],
    gangs: Mapping[str, int],
    last: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[int, ...]]:
    """Return GPUs for jobs with a type, counted over all nodes: the largest gangs first.

    Parameters
    ----------
    cluster
        The nodes.
    kinds, gangs
        Type and number of GPUs of every job that runs.
    last
        GPUs of the jobs that ran in the last round.

    Examples
    --------
    >>> from goodalloc.models.round import Cluster
    >>> small, large = {"small": (0, 1)}, {"small": "", "large": ""}
    >>> filled_gpus(Cluster.uniform(2, 2), large, {"small": 2, "large": 2}, small)
    {'small': (0, 1), 'large': (2, 3)}
    >>> filled_gpus(Cluster.uniform(2, 2), large, {"small": 1, "large": 3}, {"small": (0,)})
    {'large': (0, 1, 2), 'small': (3,)}
    """
    nodes = _node_of_gpus(cluster)
    found: dict[str, tuple[int, ...]] = {}
    for kind in dict.fromkeys(cluster.node_types):
        own = [gpu for gpu, node in enumerate(nodes) if cluster.node_types[node] == kind]
        here = [name for name in kinds if kinds[name] == kind]
        taken = set[int]()
        for gang in sorted({gangs[name] for name in here}, reverse=True):
            alike = [name for name in here if gangs[name] == gang]
            for name in alike:
                held = last.get(name, ())
                if len(held) == gang and set(own).issuperset(held) and taken.isdisjoint(held):
                    found[name] = held
                    taken.update(held)
            for name in alike:
                if name not in found:
                    free = [gpu for gpu in own if gpu not in taken]
                    found[name] = tuple(free[:gang])
                    taken.update(found[name])
    return found


def _node_of_gpus(cluster: Cluster) -> list[int]:
    """Return the node of every GPU."""
    return [node for node, gpus in enumerate(cluster.node_gpus) for _ in range(int(gpus))]


def _placement(gpus: Sequence[int], nodes: Sequence[int]) -> Placement:
    """Return the number of GPUs on every node."""
    return tuple(sorted(Counter(nodes[gpu] for gpu in gpus).items()))


def gavel_steps() -> Gavel:
    """Return Gavel that maximises the total steps per second."""
    return Gavel("steps")


def gavel_spare() -> Gavel:
    """Return the Gavel of `gavel_steps` that also uses spare GPUs."""
    return Gavel("steps", spare=True)


def gavel_lifelong() -> Gavel:
    """Return the Gavel of `gavel_spare` that counts GPU time over whole lives."""
    return Gavel("steps", spare=True, lifelong=True)


def gavel_slowed() -> Gavel:
    """Return the Gavel of `gavel_lifelong` whose rates include the slow-downs."""
    return GavelOfArtifact(slowed_steps)


def gavel_in_order() -> Gavel:
    """Return the Gavel of `gavel_slowed` that gives spare GPUs to jobs in order."""
    return GavelOfArtifact(slowed_steps, in_order=True)


def gavel_as_there() -> Gavel:
    """Return the Gavel of `gavel_in_order` that gives out GPUs in order, all as in the artifact."""
    return GavelOfArtifact(slowed_steps, in_order=True, filled=True)
