r"""Cost policy of Gavel as a rule for its rounds.

It maximises the sum of the jobs' throughputs, each in units of its own largest, per dollar of the
GPUs that it runs on,

.. math:: \max_X \sum_{jw} \frac{T_{jw} / \max_v T_{jv}}{c_w} X_{jw}
          \quad \text{s.t.} \quad \tau_j(X) \ge \frac{n_j}{d_j - t},                            (1)

where job *j* has :math:`n_j` remaining steps at time *t* and its deadline is :math:`d_j`. This is
the published code's reading; the paper has a ratio of sums. No GPU stands idle to save money.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.gavel.share_goal import throughput
from goodalloc.models.gavel.time_sharing import largest_rates
from goodalloc.models.support.validation import require_choice, require_number
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.gavel.share_choices import most_promises
from goodalloc.solvers.gavel.time_shares import PROMISE_TOLERANCE, best_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Round


#: Dollars for an hour of a GPU on demand, as Google listed them (the first three in 2020, the time
#: of Gavel); from memory, a documented reading.
PRICES: Mapping[str, float] = {"v100": 2.48, "p100": 1.46, "k80": 0.45, "t4": 0.35, "a100": 2.93}

#: Deadlines to drop where not all can be met: all, as published, or the fewest.
Dropped = Literal["all", "fewest"]

#: Time limit of the search for the fewest, in seconds; hundreds of jobs take hundredths of a
#: second.
SECONDS = 60.0


@dataclass(frozen=True)
class PerDollar:
    """Throughput per dollar, with deadlines.

    Parameters
    ----------
    prices
        Dollars for an hour of a GPU, by type. They do not matter on a cluster of one type.
    deadlines
        Seconds from the start, by job; those that are not named have none.
    dropped
        Deadlines to drop where not all can be met.
    margin
        Seconds by which jobs are to end before their deadlines, as rounds are coarse; by default
        two rounds of six minutes.

    Raises
    ------
    ValueError
        If a price <= 0, a deadline or `margin` is negative, or `dropped` is not one of its choices;
        at a decision, if a type has no price.
    """

    prices: Mapping[str, float] = field(default_factory=lambda: PRICES)
    deadlines: Mapping[str, float] = field(default_factory=dict)
    dropped: Dropped = "fewest"
    margin: float = 720.0

    def __post_init__(self) -> None:
        for kind, price in self.prices.items():
            require_number(f"Cost: price of '{kind}'", price, minimum=0.0, strict=True)
        for name, deadline in self.deadlines.items():
            require_number(f"Cost: deadline of '{name}'", deadline, minimum=0.0)
        require_choice("Cost: dropped", self.dropped, get_args(Dropped))
        require_number("Cost: margin", self.margin, minimum=0.0)

    def __call__(self, sharing: TimeSharing, round_: Round) -> Floats | None:
        """Return the shares of a round; None if a solver fails.

        Parameters
        ----------
        sharing
            The jobs of the round, in their order.
        round_
            The round.
        """
        goal = throughput(sharing, largest_rates(sharing), self._prices(round_))
        promised = self.promised(sharing, round_)
        if promised.any():
            found = best_shares(sharing, goal, promised)
            if found.shares is None and self.dropped == "fewest":
                most = most_promises(sharing, promised, seconds=SECONDS)
                kept = promised * most.kept * (1.0 - PROMISE_TOLERANCE)
                found = best_shares(sharing, goal, kept)
            if found.shares is not None:
                return found.shares
        return best_shares(sharing, goal).shares

    def promised(self, sharing: TimeSharing, round_: Round) -> Floats:
        """Return the steps per second by which jobs end in time, shape (jobs,).

        They are 0 where there is no deadline, or where it cannot be met; and at most the job's
        largest rate, where it would end within the margin.
        """
        steps = np.array([job.oracle.remaining_steps() for job in round_.jobs])
        left = np.array([self.deadlines.get(job.name, np.inf) - round_.time for job in round_.jobs])
        most = largest_rates(sharing)
        soonest = np.maximum(left - self.margin, steps / most)
        found: Floats = np.where(steps / most <= left, steps / soonest, 0.0)
        return found

    def _prices(self, round_: Round) -> list[float]:
        """Return the price of every type that has GPUs, in the order of `TimeSharing.gpus`."""
        kinds = [kind for kind, count in round_.cluster.type_gpus.items() if count > 0]
        if len(kinds) == 1:
            return [1.0]
        for kind in kinds:
            require_choice("Cost: GPU type", kind, tuple(self.prices))
        return [self.prices[kind] for kind in kinds]


def gavel_cost() -> Gavel:
    """Return Gavel for throughput per dollar.

    Examples
    --------
    >>> from goodalloc.solvers.gavel import gavel_cost
    >>> gavel_cost().goal.prices["v100"]
    2.48
    """
    return Gavel(PerDollar())
