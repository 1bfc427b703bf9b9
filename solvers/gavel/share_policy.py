"""Policies by time shares: shares are computed as jobs come and go, and rounds follow them.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.gavel.share_rounds import ShareRounds, place_lines
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Hashable

    from goodalloc.solvers.gavel.share_rounds import Line
    from goodalloc.solvers.policies.policy import BatchSizes, Round

#: Seconds of a round in Gavel's experiments.
ROUND_SECONDS = 360


@dataclass
class SharePolicy:
    """Base of the policies by time shares, round by round; a subclass defines the shares.

    A job takes the GPUs that its user requested, at most as many as there are of any type.

    Parameters
    ----------
    round_seconds
        Duration of a decision in seconds.
    """

    round_seconds: int = field(default=ROUND_SECONDS, kw_only=True)
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _shares: dict[tuple[Line, str], float] = field(default_factory=dict, init=False)
    _situation: Hashable = field(default=(), init=False)
    _rounds: ShareRounds = field(default_factory=ShareRounds, init=False)
    _types: dict[Line, str] = field(default_factory=dict, init=False)
    _last: int = field(default=0, init=False)
    _due: float = field(default=-math.inf, init=False)

    def __post_init__(self) -> None:
        item = f"{type(self).__name__}: round_seconds"
        require_number(item, self.round_seconds, minimum=0.0, strict=True)

    def new_shares(
        self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]
    ) -> dict[tuple[Line, str], float]:
        """Return the part of its time that every line should have on every type; default 0.

        Parameters
        ----------
        round_
            The round.
        gpus
            GPUs of every type.
        replicas
            GPUs that every job takes.
        """
        raise NotImplementedError

    def situation(self, round_: Round) -> Hashable:
        """Return a key; shares are computed anew whenever it changes, as jobs come and go."""
        return tuple(job.name for job in round_.jobs)

    def decide(self, round_: Round) -> Decision:
        """Keep running jobs within a round; at its end run those that lack most of their shares."""
        self._rounds.passed(self._types, round_.time - self._last)
        self._last = round_.time
        if round_.time < self._due:
            return self._kept(round_)
        gpus = {kind: count for kind, count in round_.cluster.type_gpus.items() if count > 0}
        self._due = round_.time + self.round_seconds
        most = max(gpus.values())
        replicas = {job.name: min(job.replicas, most) for job in round_.jobs}
        situation = self.situation(round_)
        if situation != self._situation:
            self._situation = situation
            self._shares = self.new_shares(round_, gpus, replicas)
            self._rounds.begin()
        self._types = self._rounds.choose(self._shares, replicas, gpus)
        return place_lines(round_, self._types, replicas)

    def _kept(self, round_: Round) -> Decision:
        """Return the decision by which what runs goes on; alone where the other of two is gone."""
        current = {job.name: job.placement for job in round_.jobs if job.placement}
        there = (
            (tuple(name for name in line if name in current), kind)
            for line, kind in self._types.items()
        )
        self._types = {line: kind for line, kind in there if line}
        return Decision(current, beside={job.name: job.host for job in round_.jobs if job.host})
