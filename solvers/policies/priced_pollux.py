"""Pollux as a policy for large clusters: every round by one price of a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.columns.solver import solve_columns
from goodalloc.solvers.columns.whole_numbers import GREATEST_POWER
from goodalloc.solvers.interface.bounds import KNAPSACK, Bound
from goodalloc.solvers.interface.result import Evidence
from goodalloc.solvers.policies.pollux import decision_of

if TYPE_CHECKING:
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Round


@dataclass
class PricedPollux:
    """Policy that maximises the fitness of every round by one price of a GPU.

    It is for large clusters, where the exact policy (`Pollux`) takes longest. A decision has a
    bound, and is optimal where it meets that: nearly always where jobs are many. Where they are few
    and large something is lost to the nodes, the more the fewer nodes there are. Of equally good
    allocations it takes any, where the exact policy takes the one that moves the fewest jobs.

    Parameters
    ----------
    rules
        Objective and constraints, of a power of at most 40.

    Raises
    ------
    ValueError
        If the power is greater.

    Examples
    --------
    >>> from goodalloc.models import OSDI21
    >>> from goodalloc.solvers.policies import PricedPollux
    >>> PricedPollux(OSDI21.replace(power=1.0)).batch_sizes
    'goodput'
    """

    rules: Rules = OSDI21
    batch_sizes: BatchSizes = field(default="goodput", init=False)

    def __post_init__(self) -> None:
        power = self.rules.power
        if power > GREATEST_POWER:
            raise ValueError(
                f"Policy 'pollux-priced': power is {power:g}; expected at most {GREATEST_POWER:g}."
            )

    def decide(self, round_: Round) -> Decision:
        """Solve the round from where the jobs run now.

        Raises
        ------
        ValueError
            If the cluster has several types of GPU or cores, or a job a weight of its own.
        """
        instance = round_.instance(self.rules)
        answer = solve_columns(RoundColumns.of(instance))
        bound = Bound(answer.bound, KNAPSACK, Evidence.SOLVER)
        return decision_of(instance, answer.allocation, bound)
