"""What a replay records of every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import Decision, Round


class RoundRecord(NamedTuple):
    """One round: what was decided.

    Attributes
    ----------
    round_
        What the policy saw, and when.
    decision
        What it wanted.
    seconds
        Wall time of the decision.
    restarts
        Jobs whose placement changed to another one.
    """

    round_: Round
    decision: Decision
    seconds: float
    restarts: int
