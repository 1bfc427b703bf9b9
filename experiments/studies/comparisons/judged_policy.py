"""Policy whose every so many decisions are judged, each verdict a line of a file."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.documents.json_file import dump

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round


class JudgeDecision(Protocol):
    """Judge of a decision."""

    def __call__(self, before: Policy, round_: Round, decision: Decision) -> dict[str, Any]:
        """Return the verdict in terms of JSON.

        Parameters
        ----------
        before
            The policy as it was before the decision; a shallow copy.
        round_, decision
            The round, and what the policy decided.
        """
        ...


@dataclass
class JudgedPolicy:
    """Policy whose every `every`-th decision is judged.

    Parameters
    ----------
    policy
        Policy that decides; judging changes none of its decisions.
    judge
        Judge of a decision.
    file
        File of the verdicts; a resumed replay may repeat a line.
    every
        Decisions from one that is judged to the next.
    """

    policy: Policy
    judge: JudgeDecision
    file: Path
    every: int
    _count: int = field(default=0, init=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes of the policy."""
        return self.policy.batch_sizes

    @property
    def sharing(self) -> object:
        """Sharing of GPUs by the policy; None where its jobs share none."""
        return getattr(self.policy, "sharing", None)

    def decide(self, round_: Round) -> Decision:
        """Return the decision of the policy, and judge it if it is its turn."""
        before = copy.copy(self.policy)
        decision = self.policy.decide(round_)
        self._count += 1
        if self._count % self.every == 0:
            verdict = self.judge(before, round_, decision)
            append_lines(self.file, dump({"time": round_.time, **verdict}) + "\n")
        return decision


def verdicts(file: Path) -> list[dict[str, Any]]:
    """Return the verdicts of a file, in order of their times, the last one of each.

    Parameters
    ----------
    file
        File of a `JudgedPolicy`; a replay with fewer decisions than the first judged one has none.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [*{found["time"]: found for found in map(json.loads, lines)}.values()]
