"""Engines, which start the replicas of a job: processes of this machine, or those of a cluster.

A launcher asks its engine to start replicas on a placement and watches their exit codes; what they
train, restarts and checkpoints are the launcher's and the agent's concern, whatever the engine.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goodalloc.experiments.live.gpu_leases import GpuLeases
from goodalloc.experiments.live.replica_group import ReplicaGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from goodalloc.models.round.mode import Resources


class Group(Protocol):
    """Replicas that were started together."""

    @property
    def codes(self) -> list[int | None]:
        """Exit codes so far, negative for a signal; None for running replicas."""
        ...

    def last_words(self, rank: int) -> str:
        """Return the last line of the output of a replica; empty if there is none."""
        ...


class NotStarted(NamedTuple):
    """Replicas that could not be started; they count as failed.

    Attributes
    ----------
    replicas
        Their number.
    words
        Description of the failure.
    """

    replicas: int
    words: str

    @property
    def codes(self) -> list[int | None]:
        """Exit codes, all 1."""
        return [1] * self.replicas

    def last_words(self, rank: int) -> str:
        """Return the description, of any replica."""
        del rank
        return self.words


class Engine(Protocol):
    """Engine of a launcher."""

    def start(
        self,
        command: Sequence[str],
        placement: Mapping[str, int],
        folder: Path,
        variables: Mapping[str, str],
        request: Resources = (),
    ) -> AbstractContextManager[Group | None]:
        """Start replicas, which end with the context; None while their places are taken or gone.

        Parameters
        ----------
        command
            The program of a replica and its arguments.
        placement
            Number of replicas by node.
        folder
            Folder of the job, for logs.
        variables
            Environment variables, beside those of torchrun.
        request
            What a replica takes beside its GPU (`resource_requests.py`).

        Raises
        ------
        ValueError
            If the program cannot be started.
        """
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Engine of this machine, which all nodes of a placement are taken to be.

    Only the number of replicas matters. On a machine with GPUs each replica has its own
    (`gpu_leases.py`).

    Parameters
    ----------
    cluster
        Folder of the cluster.
    gpus
        Names of the GPUs of this machine; none where CPUs compute.
    """

    cluster: Path
    gpus: tuple[str, ...] = ()

    @cached_property
    def _leases(self) -> GpuLeases:
        return GpuLeases(self.cluster, self.gpus)

    @contextlib.contextmanager
    def start(
        self,
        command: Sequence[str],
        placement: Mapping[str, int],
        folder: Path,
        variables: Mapping[str, str],
        request: Resources = (),
    ) -> Iterator[ReplicaGroup | None]:
        """Start replicas as processes, as `Engine.start` says; nothing holds them to a request."""
        del request
        count = sum(placement.values())
        with self._leases.lease(count) as lease:
            if lease is None:
                yield None
                return
            own = {**variables, **lease.variables}
            with ReplicaGroup(command, count, folder, own, lease.handles) as group:
                yield group
