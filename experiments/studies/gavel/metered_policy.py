"""Policy that records its decisions: GPUs by type of every job in every round."""

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
        Type of the GPUs, and their number.
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
    """Policy whose decisions are recorded.

    Parameters
    ----------
    policy
        Policy whose jobs have GPUs of one type each.
    """

    policy: Policy
    _rounds: list[tuple[int, dict[str, tuple[str, int]]]] = field(default_factory=list, init=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes of the policy."""
        return self.policy.batch_sizes

    def decide(self, round_: Round) -> Decision:
        """Return the decision of the policy, and record it."""
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
        """Return the GPUs of jobs in every round, each until its end at most.

        Parameters
        ----------
        completion
            Seconds at which jobs ended, by name.
        seconds
            Seconds of a round.
        """
        for time, jobs in self._rounds:
            for name, (kind, gpus) in jobs.items():
                yield Held(name, kind, gpus, time, min(time + seconds, completion[name]))
