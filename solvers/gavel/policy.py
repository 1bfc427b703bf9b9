"""Gavel as a policy: time shares by a goal whenever jobs come or go, then rounds.

A job takes the GPUs that its user requested, at most as many as there are of any type. Its rates
are the oracle's on every type, as Gavel's simulator has them; a policy that is blind to types takes
all types for equal. Packed, two jobs may share their GPUs ("space sharing"), by the oracle's rates
too.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.gavel.share_goal import (
    completion_time,
    finish_time,
    makespan,
    max_min,
    throughput,
)
from goodalloc.models.gavel.time_sharing import TimeSharing, isolated_shares, largest_rates, rates
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_choice, require_flag
from goodalloc.solvers.gavel.pair_rates import PairRates, with_gainful_pairs
from goodalloc.solvers.gavel.share_policy import SharePolicy
from goodalloc.solvers.gavel.share_rounds import ShareRounds
from goodalloc.solvers.gavel.time_shares import best_shares, best_shares_with_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.solvers.gavel.share_rounds import Line
    from goodalloc.solvers.policies.policy import ActiveJob, Round

    #: Rule for shares: returns X of the jobs of a round in their order, or None if a solver fails.
    Rule = Callable[[TimeSharing, Round], NDArray[np.float64] | None]

#: Goal of the shares.
GavelGoal = Literal["max-min", "makespan", "finish-time", "completion", "throughput", "steps"]

#: Relative gap at which the search for pairs stops, and the solver of linear programs: a corner has
#: few positive shares, which rounds can follow.
PACKED_GAP, CORNERS = 1e-3, "HIGHS"


@dataclass
class Gavel(SharePolicy):
    """Policy of the time shares that are best for a goal; see `SharePolicy`.

    Parameters
    ----------
    goal
        Goal of the shares (`models/gavel/share_goal.py`), or a rule that returns them, as in
        `solvers/gavel/levels.py` and `solvers/gavel/cost.py`.
    blind
        Whether all types count as equal.
    packed
        Whether two jobs of equally many GPUs may share them; excludes `blind` and rules.
    spare, lifelong
        Options of the rounds; see `ShareRounds`.

    Examples
    --------
    >>> from goodalloc.solvers.gavel import Gavel
    >>> Gavel(goal="makespan").round_seconds
    360
    """

    goal: GavelGoal | Rule = "max-min"
    blind: bool = False
    packed: bool = False
    spare: bool = False
    lifelong: bool = False
    _pairs: PairRates = field(default_factory=PairRates, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.goal):
            require_choice("Gavel: goal", self.goal, get_args(GavelGoal))
        for name in ("packed", "spare", "lifelong"):
            require_flag(f"Gavel: {name}", getattr(self, name))
        if self.packed and (self.blind or callable(self.goal)):
            other = "blind is true" if self.blind else "the goal is a rule"
            raise ValueError(
                f"Gavel: packed is true and {other}; expected one of them, as pairs have rates of "
                "types, and rules are for jobs alone."
            )
        self._rounds = ShareRounds(spare=self.spare, lifelong=self.lifelong)

    @property
    def sharing(self) -> Sharing | None:
        """Way in which jobs share GPUs without measurements; None where they do not share."""
        return FAIR if self.packed else None

    def new_shares(
        self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]
    ) -> dict[tuple[Line, str], float]:
        """Return the best shares of the present jobs; equal ones if a solver fails."""
        sharing = time_sharing(round_, gpus, replicas, blind=self.blind)
        if self.packed:
            sharing = with_gainful_pairs(sharing, self._pairs.among(round_, gpus, replicas))
        found = self._best(sharing, round_)
        shares = isolated_shares(sharing) if found is None else found
        return {
            (line, kind): float(shares[row, column])
            for row, line in enumerate(_lines(sharing))
            for column, kind in enumerate(gpus)
            if shares[row, column] > 0 or (len(line) == 1 and sharing.rate[row, column] > 0)
        }

    def _best(self, sharing: TimeSharing, round_: Round) -> NDArray[np.float64] | None:
        """Return the shares by the rule or for the goal; None if a solver fails."""
        if callable(self.goal):
            return self.goal(sharing, round_)
        goal = GOALS[self.goal](sharing, round_)
        if not len(sharing.pairs):
            return best_shares(sharing, goal).shares
        solver = CORNERS if self.goal in LINEAR else CONE_SOLVER
        return best_shares_with_pairs(sharing, goal, gap=PACKED_GAP, solver=solver).shares


def _lines(sharing: TimeSharing) -> list[Line]:
    """Return the names of every line."""
    names = sharing.names
    return [(name,) for name in names] + [
        (names[one], names[other]) for one, other in sharing.pairs.tolist()
    ]


def time_sharing(
    round_: Round, gpus: dict[str, int], replicas: dict[str, int], *, blind: bool = False
) -> TimeSharing:
    """Return a round as jobs that share types of GPU in time.

    Parameters
    ----------
    round_
        The round.
    gpus
        GPUs of every type.
    replicas
        GPUs that every job takes.
    blind
        Whether all types count as equal.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.models import Cluster
    >>> from goodalloc.solvers.gavel import time_sharing
    >>> oracle = SimpleNamespace(seconds_per_step=lambda gpus, per_node, kind: 0.5 / gpus)
    >>> job = SimpleNamespace(name="a", oracle=oracle)
    >>> round_ = SimpleNamespace(cluster=Cluster.uniform(1, 2), jobs=[job])
    >>> time_sharing(round_, gpus={"": 2}, replicas={"a": 2}).rate.tolist()
    [[4.0]]
    """
    per_node = round_.cluster.most_per_node

    def row(job: ActiveJob) -> list[float]:
        wanted = replicas[job.name]
        seconds = [
            job.oracle.seconds_per_step(wanted, per_node[kind], kind)
            if wanted <= most
            else math.inf
            for kind, most in gpus.items()
        ]
        least = min(seconds)
        return [1.0 / (least if blind and math.isfinite(one) else one) for one in seconds]

    return TimeSharing(
        [job.name for job in round_.jobs],
        [row(job) for job in round_.jobs],
        list(gpus.values()),
        [replicas[job.name] for job in round_.jobs],
    )


def _steps(round_: Round) -> list[float]:
    return [job.oracle.remaining_steps() for job in round_.jobs]


def _finish_time(sharing: TimeSharing, round_: Round) -> Goal:
    """Return the goal of finish-time fairness; alone a job has its part of the cluster."""
    elapsed = np.array([float(job.age) for job in round_.jobs])
    steps = np.array(_steps(round_))
    alone = elapsed + steps / rates(sharing, isolated_shares(sharing))
    return finish_time(steps, elapsed, alone)


#: Functions that make a goal from a round, by name.
GOALS: dict[GavelGoal, Callable[[TimeSharing, Round], Goal]] = {
    "max-min": lambda sharing, _: max_min(sharing),
    "makespan": lambda _, round_: makespan(_steps(round_)),
    "finish-time": _finish_time,
    "completion": lambda _, round_: completion_time(_steps(round_)),
    "throughput": lambda sharing, _: throughput(sharing, largest_rates(sharing)),
    "steps": lambda sharing, _: throughput(sharing),
}

#: Goals whose program is linear.
LINEAR: tuple[GavelGoal, ...] = ("max-min", "makespan", "throughput", "steps")
