"""A policy whose decisions are kept: who held how many GPUs of which type, round after round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round


class Held(NamedTuple):
    """GPUs of one type that a job holds for a while.

    Attributes
    ----------
    job
        Its name.
    gpu_type, gpus
        Of the GPUs, and how many.
    begin, end
        Seconds from the start of the replay.
    """

    job: str
    gpu_type: str
    gpus: int
    begin: float
    end: float


@dataclass
class Metered:
    """A policy whose decisions are kept.

    Parameters
    ----------
    policy
        Who decides; every job has GPUs of one type.
    """

    policy: Policy
    _rounds: list[tuple[int, dict[str, tuple[str, int]]]] = field(default_factory=list, init=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """As of the policy."""
        return self.policy.batch_sizes

    def decide(self, round_: Round) -> Decision:
        """As of the policy."""
        decision = self.policy.decide(round_)
        types = round_.cluster.node_types
        held = {
            name: (types[pairs[0][0]], sum(gpus for _, gpus in pairs))
            for name, pairs in decision.placements.items()
            if pairs
        }
        self._rounds.append((round_.time, held))
        return decision

    def held(self, completion: Mapping[str, float], seconds: int) -> Iterator[Held]:
        """What jobs held in every round, each to its end at most.

        Parameters
        ----------
        completion
            Seconds at which jobs ended, by name.
        seconds
            Of a round.
        """
        for time, jobs in self._rounds:
            for name, (kind, gpus) in jobs.items():
                yield Held(name, kind, gpus, time, min(time + seconds, completion[name]))
