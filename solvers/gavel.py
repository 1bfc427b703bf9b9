"""Gavel (OSDI'20) as a policy: time shares by a goal whenever jobs come or go, then rounds.

Users say how many GPUs a job takes, at most as many as there are of any type. Its rates are the
oracle's on every type, as Gavel's simulator has them; a policy that is blind to types takes all of
them for equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.share_goal import (
    completion_time,
    finish_time,
    makespan,
    max_min,
    throughput,
)
from goodalloc.models.time_sharing import TimeSharing, isolated_shares, largest_rates, rates
from goodalloc.models.validation import require_choice, require_flag, require_number
from goodalloc.solvers.policy import BatchSizes, Decision
from goodalloc.solvers.share_rounds import ShareRounds, place_on_types
from goodalloc.solvers.time_shares import best_shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.models.share_goal import Goal
    from goodalloc.solvers.policy import ActiveJob, Round

    #: Another way to shares: of the jobs of a round in their order, X, or None if a solver fails.
    Rule = Callable[[TimeSharing, Round], NDArray[np.float64] | None]

#: Seconds of a round in Gavel's experiments.
ROUND_SECONDS = 360

#: What shares are to achieve.
GavelGoal = Literal["max-min", "makespan", "finish-time", "completion", "throughput", "steps"]


@dataclass
class Gavel:
    """Time shares, round by round.

    Parameters
    ----------
    goal
        What shares are to achieve; see `models/share_goal.py`. Or a rule that gives them, as
        `solvers/gavel_levels.py` and `solvers/gavel_cost.py` have them.
    blind
        Whether all types count as equal.
    round_seconds
        Decisions last so long.
    spare, lifelong
        How shares become rounds; see `ShareRounds`.
    """

    goal: GavelGoal | Rule = "max-min"
    blind: bool = False
    round_seconds: int = ROUND_SECONDS
    spare: bool = False
    lifelong: bool = False
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _shares: dict[tuple[str, str], float] = field(default_factory=dict, init=False)
    _names: tuple[str, ...] = field(default=(), init=False)
    _rounds: ShareRounds = field(init=False)
    _types: dict[str, str] = field(default_factory=dict, init=False)
    _last: int = field(default=0, init=False)
    _due: float = field(default=-math.inf, init=False)

    def __post_init__(self) -> None:
        if not callable(self.goal):
            require_choice("Gavel: goal", self.goal, get_args(GavelGoal))
        require_number("Gavel: round_seconds", self.round_seconds, minimum=0.0, strict=True)
        require_flag("Gavel: spare", self.spare)
        require_flag("Gavel: lifelong", self.lifelong)
        self._rounds = ShareRounds(spare=self.spare, lifelong=self.lifelong)

    def decide(self, round_: Round) -> Decision:
        """Keep what runs within a round; else who lacks most of its shares runs."""
        self._rounds.passed(self._types, round_.time - self._last)
        self._last = round_.time
        current = {job.name: job.placement for job in round_.jobs if job.placement}
        gpus = {kind: count for kind, count in round_.cluster.type_gpus.items() if count > 0}
        if round_.time < self._due:
            self._types = {name: kind for name, kind in self._types.items() if name in current}
            return Decision(current)
        self._due = round_.time + self.round_seconds
        most = max(gpus.values())
        replicas = {job.name: min(job.replicas, most) for job in round_.jobs}
        names = tuple(job.name for job in round_.jobs)
        if names != self._names:
            self._names, self._shares = names, self._new_shares(round_, gpus, replicas)
            self._rounds.begin()
        self._types = self._rounds.choose(self._shares, replicas, gpus)
        return Decision(place_on_types(round_.cluster, self._types, replicas, current))

    def _new_shares(
        self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]
    ) -> dict[tuple[str, str], float]:
        """The best shares of the jobs there are; equal ones if a solver fails."""
        sharing = time_sharing(round_, gpus, replicas, blind=self.blind)
        if callable(self.goal):
            found = self.goal(sharing, round_)
        else:
            found = best_shares(sharing, GOALS[self.goal](sharing, round_)).shares
        shares = isolated_shares(sharing) if found is None else found
        return {
            (job, kind): float(shares[row, column])
            for row, job in enumerate(sharing.names) for column, kind in enumerate(gpus)
            if sharing.rate[row, column] > 0
        }  # fmt: skip


def time_sharing(
    round_: Round, gpus: dict[str, int], replicas: dict[str, int], *, blind: bool = False
) -> TimeSharing:
    """A round as jobs that share types of GPU in time.

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
    """
    per_node = round_.cluster.most_per_node

    def row(job: ActiveJob) -> list[float]:
        wanted = replicas[job.name]
        seconds = [
            job.oracle.seconds_per_step(wanted, per_node[kind], kind) if wanted <= most
            else math.inf
            for kind, most in gpus.items()
        ]  # fmt: skip
        least = min(seconds)
        return [1.0 / (least if blind and math.isfinite(one) else one) for one in seconds]

    return TimeSharing(
        [job.name for job in round_.jobs], [row(job) for job in round_.jobs],
        list(gpus.values()), [replicas[job.name] for job in round_.jobs],
    )  # fmt: skip


def _steps(round_: Round) -> list[float]:
    return [job.oracle.remaining_steps() for job in round_.jobs]


def _finish_time(sharing: TimeSharing, round_: Round) -> Goal:
    """Alone a job has its part of the cluster for what is left, after what it was there for."""
    elapsed = np.array([float(job.age) for job in round_.jobs])
    steps = np.array(_steps(round_))
    alone = elapsed + steps / rates(sharing, isolated_shares(sharing))
    return finish_time(steps, elapsed, alone)


#: How a goal is made of a round.
GOALS: dict[GavelGoal, Callable[[TimeSharing, Round], Goal]] = {
    "max-min": lambda sharing, _: max_min(sharing),
    "makespan": lambda _, round_: makespan(_steps(round_)),
    "finish-time": _finish_time,
    "completion": lambda _, round_: completion_time(_steps(round_)),
    "throughput": lambda sharing, _: throughput(sharing, largest_rates(sharing)),
    "steps": lambda sharing, _: throughput(sharing),
}
