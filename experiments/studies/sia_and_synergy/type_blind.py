"""Pollux on GPUs of several types that it cannot tell apart, as in Sia's evaluation.

The scheduler sees nodes of one size: a larger node counts as several. The agents of its jobs fit
one model to the measurements on all types (`pooled`), with the batch limits of the first type. A
job may get GPUs of several types; it then runs on those of the type that it got most of, of equally
many on the type that is preferred, and its others stay idle until the next decision. A job gets at
most as many GPUs as there are of the rarest type.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023, section 5. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.policy import Decision, Round
from goodalloc.solvers.policies.pollux import Pollux, PolluxGenetic

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Policy

#: Types of Sia's cluster, the one first that a job keeps of equally many.
PREFERRED = ("a100", "rtx2080ti", "t4")


class Parts(NamedTuple):
    """Nodes of one size into which the nodes of a cluster are divided.

    Attributes
    ----------
    gpus
        GPUs of every part.
    nodes
        The node that every part belongs to.
    """

    gpus: int
    nodes: tuple[int, ...]


def parts_of(cluster: Cluster) -> Parts:
    """Return the parts, as large as the smallest node, in the order of the nodes.

    Raises
    ------
    ValueError
        If the GPUs of a node are no multiple of those of the smallest.
    """
    sizes = [int(gpus) for gpus in cluster.node_gpus]
    least = min(sizes)
    for node, gpus in enumerate(sizes):
        if least < 1 or gpus % least:
            raise ValueError(
                f"Node '{cluster.node_names[node]}' has {gpus} GPUs; expected a multiple of those "
                f"of the smallest node, {least}."
            )
    return Parts(least, tuple(n for n, gpus in enumerate(sizes) for _ in range(gpus // least)))


@dataclass
class TypeBlind:
    """Policy that lets another decide as if all GPUs were of one type.

    Parameters
    ----------
    policy
        The policy that decides on the parts.
    preferred
        Types of GPU, the one first that a job keeps of equally many; others come last.

    Attributes
    ----------
    pooled
        True: agents fit one model to the measurements on all types (`Simulator`).
    held
        Parts that the jobs held after the last decision, by name.
    """

    policy: Policy
    preferred: tuple[str, ...] = PREFERRED
    batch_sizes: BatchSizes = field(default="goodput", init=False)
    pooled: bool = field(default=True, init=False)
    held: dict[str, Placement] = field(default_factory=dict, init=False)

    def decide(self, round_: Round) -> Decision:
        """Decide on the parts; leave every job GPUs of one type."""
        cluster = round_.cluster
        parts = parts_of(cluster)
        most = min(count for count in cluster.type_gpus.values() if count > 0)
        jobs = tuple(self._blind(job, most) for job in round_.jobs)
        blind = Round(round_.time, Cluster.uniform(len(parts.nodes), parts.gpus), jobs)
        decided = self.policy.decide(blind).placements
        types = [cluster.node_types[node] for node in parts.nodes]
        self.held = {name: self._of_one_type(found, types) for name, found in decided.items()}
        return Decision({name: _on_nodes(found, parts) for name, found in self.held.items()})

    def _blind(self, job: ActiveJob, most: int) -> ActiveJob:
        """Return the job as the policy sees it, with the model and limits of the first type."""
        first = job.modes()[0].model
        found = None if isinstance(first, SpeedupTable) else first
        return replace(
            job,
            placement=self.held.get(job.name, ()) if job.placement else (),
            batch=found.batch if found else job.batch,
            most_explored=min(job.most_explored, most // 2),
            model=lambda: found,
            modes=tuple,
            mode="",
        )

    def _of_one_type(self, placement: Placement, types: list[str]) -> Placement:
        """Return the GPUs of the type that a job has most of."""
        counts = Counter[str]()
        for part, gpus in placement:
            counts[types[part]] += gpus
        ranks = {kind: rank for rank, kind in enumerate(self.preferred)}

        def rank(kind: str) -> tuple[int, int]:
            return -counts[kind], ranks.get(kind, len(ranks))

        kept = min(counts, key=rank, default="")
        return tuple((part, gpus) for part, gpus in placement if types[part] == kept)


def _on_nodes(placement: Placement, parts: Parts) -> Placement:
    """Return the GPUs on every node of those on parts of nodes."""
    gpus = Counter[int]()
    for part, count in placement:
        gpus[parts.nodes[part]] += count
    return tuple(sorted(gpus.items()))


def pollux_blind() -> TypeBlind:
    """Return exact Pollux that cannot tell types apart."""
    return TypeBlind(Pollux(stop=Stop(seconds=10.0)))


def pollux_genetic_blind() -> TypeBlind:
    """Return Pollux with its genetic algorithm that cannot tell types apart."""
    return TypeBlind(PolluxGenetic())
