"""Placement of GPUs on the emptiest nodes first, as the published baselines do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Round


class FreeGpus:
    """Free GPUs of every node.

    Parameters
    ----------
    cluster
        The nodes.
    held
        Placements that stay.
    gpu_type
        The only type of GPU that counts, None for any.

    Examples
    --------
    >>> from goodalloc.models import Cluster
    >>> from goodalloc.solvers.policies import FreeGpus
    >>> free = FreeGpus(Cluster.uniform(2, 4), held=[((0, 1),)])
    >>> free.total, free.take(5)
    (7, ((1, 4), (0, 1)))
    """

    def __init__(
        self, cluster: Cluster, held: Iterable[Placement], gpu_type: str | None = None
    ) -> None:
        self._free: list[int] = cluster.node_gpus.tolist()
        for placement in held:
            for node, gpus in placement:
                self._free[node] -= gpus
        if gpu_type is not None:
            for node, kind in enumerate(cluster.node_types):
                self._free[node] *= kind == gpu_type

    @property
    def total(self) -> int:
        """All free GPUs."""
        return sum(self._free)

    def take(self, replicas: int) -> Placement:
        """Take GPUs from the node with the most, then from the next; the first of equal nodes.

        The pairs are in the order taken: the spread of a job is a sequence up to rotation.

        Raises
        ------
        ValueError
            If fewer than `replicas` GPUs are free.
        """
        if replicas > self.total:
            raise ValueError(f"GPUs wanted: {replicas}; only {self.total} are free.")
        pairs: list[tuple[int, int]] = []
        while replicas > 0:
            most = max(self._free)
            node = self._free.index(most)
            gpus = min(most, replicas)
            pairs.append((node, gpus))
            self._free[node] -= gpus
            replicas -= gpus
        return tuple(pairs)


def take_of(placement: Placement, replicas: int) -> Placement:
    """Return `replicas` GPUs of a placement, from the nodes with the most first.

    Raises
    ------
    ValueError
        If the placement has fewer GPUs.

    Examples
    --------
    >>> from goodalloc.solvers.policies import take_of
    >>> take_of(((0, 1), (1, 4)), 3)
    ((1, 3),)
    """
    pairs, left = list[tuple[int, int]](), replicas
    for node, gpus in sorted(placement, key=lambda pair: -pair[1]):
        if left > 0:
            pairs.append((node, min(gpus, left)))
            left -= pairs[-1][1]
    if left > 0:
        raise ValueError(f"GPUs wanted: {replicas}; the placement has {replicas - left}.")
    return tuple(pairs)


def place_changed(round_: Round, replicas: Mapping[str, int]) -> dict[str, Placement]:
    """Place the given numbers of GPUs; jobs whose number is unchanged stay where they are.

    The others are placed in order of their number of GPUs, on the emptiest nodes, as Optimus does.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.models import Cluster
    >>> from goodalloc.solvers.policies import place_changed
    >>> held = {"a": ((0, 1),), "b": ()}
    >>> jobs = [SimpleNamespace(name=name, placement=held[name]) for name in held]
    >>> round_ = SimpleNamespace(cluster=Cluster.uniform(2, 2), jobs=jobs)
    >>> place_changed(round_, {"a": 1, "b": 2})
    {'a': ((0, 1),), 'b': ((1, 2),)}
    """
    placements: dict[str, Placement] = {
        job.name: job.placement
        for job in round_.jobs
        if job.placement and sum(gpus for _, gpus in job.placement) == replicas[job.name]
    }
    free = FreeGpus(round_.cluster, placements.values())
    for job in sorted(round_.jobs, key=lambda job: replicas[job.name]):
        if replicas[job.name] > 0 and job.name not in placements:
            placements[job.name] = free.take(replicas[job.name])
    return placements
