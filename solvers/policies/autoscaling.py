"""Cloud autoscaling by goodput as in Pollux, section 5.4.1, or by throughput alone.

The utility of n nodes is the goodput of the jobs on them over what perfect scaling would give,

    utility(n) = (1 / GPUs) sum_j goodput*_j(A_j) / goodput*_j(one GPU),

where A is the best allocation on n nodes. For one job that is the published rule: nodes are added
when the utility exceeds U = 2/3, to as many as keep it at about L = 1/2.

U, L and adding nodes for one job are published. The rest is a reading: "about L" is the most nodes
with a utility of at least L; below L nodes are removed by the same rule, so that the number is
stable as long as the jobs do not change; several jobs add up as in the formula. A is decided as
every round is, but from no placements and with free restarts: it is the allocation once the jobs
have settled. There too a job uses at most twice the GPUs that it ever ran on, so that none are
rented that it could not use.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 5.4.1. https://www.usenix.org/conference/osdi21/presentation/qiao

Or et al., "Resource Elasticity in Distributed Deep Learning", MLSys 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import speedup_table
from goodalloc.models.support.validation import require_choice, require_count, require_number
from goodalloc.solvers.policies.policy import Round
from goodalloc.solvers.policies.pollux import Pollux

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.interface.stop import Stop
    from goodalloc.solvers.policies.policy import BatchSizes, Decision


@dataclass
class Autoscaling:
    """Pollux on a cluster of equal nodes whose number follows its utility.

    Every round is decided on the nodes there are, then the number of nodes for the next one.

    Parameters
    ----------
    pollux
        Policy that decides the rounds.
    batch_sizes
        ``"goodput"``, or ``"throughput"`` for jobs whose models know no statistical efficiency (Or
        et al., as Pollux's authors compare with it): the rule is the same.
    low
        L: nodes are removed below this utility, and any change of their number keeps at least this
        utility.
    high
        U: nodes are added above this utility.
    min_nodes, max_nodes
        Fewest and most nodes.

    Raises
    ------
    ValueError
        If ``0 <= low <= high`` does not hold, ``1 <= min_nodes <= max_nodes`` does not hold, or
        `batch_sizes` is neither ``"goodput"`` nor ``"throughput"``.
    """

    pollux: Pollux = field(default_factory=Pollux)
    batch_sizes: BatchSizes = "goodput"
    low: float = 1 / 2
    high: float = 2 / 3
    min_nodes: int = 1
    max_nodes: int = 16

    def __post_init__(self) -> None:
        choices = ("goodput", "throughput")
        require_choice("Autoscaling: batch_sizes", self.batch_sizes, choices)
        require_number("Autoscaling: low", self.low, minimum=0.0)
        require_number("Autoscaling: high", self.high)
        if self.low > self.high:
            raise ValueError(
                f"Autoscaling: low is {self.low:g}; expected at most high, {self.high:g}."
            )
        require_count("Autoscaling: min_nodes", self.min_nodes, minimum=1)
        require_count("Autoscaling: max_nodes", self.max_nodes, minimum=self.min_nodes)

    def decide(self, round_: Round) -> Decision:
        """Decide the round on the present nodes, then the number of nodes for the next round."""
        round_ = round_.by_throughput() if self.batch_sizes == "throughput" else round_
        decision = self.pollux.decide(round_)
        present = round_.cluster.num_nodes
        nodes = self.wanted_nodes(lambda nodes: self.settled_utility(round_, nodes), present)
        return decision._replace(nodes=None if nodes == present else nodes)

    def wanted_nodes(self, utility: Callable[[int], float], present: int) -> int:
        """Return the number of nodes by the rule.

        Parameters
        ----------
        utility
            Utility by number of nodes; it must not rise with their number.
        present
            Present number of nodes.
        """
        present = min(max(present, self.min_nodes), self.max_nodes)
        found = utility(present)
        if found > self.high:
            return most_nodes(utility, self.low, present, self.max_nodes)
        if found < self.low:
            return most_nodes(utility, self.low, self.min_nodes, max(present - 1, self.min_nodes))
        return present

    def settled_utility(self, round_: Round, nodes: int) -> float:
        """Return the utility of `nodes` nodes once the jobs have settled; NaN if not found."""
        cluster = round_.cluster.resized(nodes)
        jobs = tuple(replace(job, placement=()) for job in round_.jobs)
        settled = replace(self.pollux, rules=self.pollux.rules.replace(restart_delay=0.0))
        decision = settled.decide(Round(round_.time, cluster, jobs))
        if decision.instance is None:
            return math.nan
        placements = [decision.placements[job.name] for job in jobs]
        return utility(decision.instance, Allocation.from_placements(placements, nodes))


def utility(instance: Instance, allocation: Allocation) -> float:
    """Return the sum of the jobs' speedups over one GPU, over the GPUs of the cluster."""
    table = speedup_table(instance.replace(rules=instance.rules.replace(fair_share="one_gpu")))
    several = (allocation.job_nodes > 1).astype(int)
    speedups = table[np.arange(instance.num_jobs), several, allocation.job_replicas]
    return float(speedups.sum()) / instance.cluster.num_gpus


def most_nodes(utility: Callable[[int], float], target: float, least: int, most: int) -> int:
    """Return the most nodes whose utility is at least `target`, or `least` if none is."""
    while least < most:
        middle = (least + most + 1) // 2
        if utility(middle) >= target:
            least = middle
        else:
            most = middle - 1
    return least


def autoscaling(
    rules: Rules,
    stop: Stop,
    seed: int,
    utility: tuple[float, float] | None,
    batch_sizes: BatchSizes,
) -> Autoscaling:
    """Return exact Pollux on a cluster that grows and shrinks; `utility` are L and U, if given."""
    low, high = utility or (Autoscaling.low, Autoscaling.high)
    return Autoscaling(Pollux("highs", rules, stop, seed), batch_sizes, low, high)
