"""Schedules by worth on the nodes of a cluster, as a replay makes them, to the second.

In every round GPUs are given out by worth (`round_knapsack.py`) and placed as `WorthPolicy` does
(`worth_policy.py`). A job trains at the true rate of its placement, an epoch at a time, each of
which takes whole seconds; a change of its placement costs a restart. These are the rules of the
simulator for jobs that know their best batch sizes, without what a replay records, so that
hundreds of schedules can be tried (`goodalloc.solvers.hindsight.schedule_search`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.foresight.restarting_schedule import rates_on
from goodalloc.solvers.foresight.round_knapsack import best_numbers, gains
from goodalloc.solvers.foresight.worth_policy import place
from goodalloc.solvers.policies.policy import Round

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.schedule_search import Worths
    from goodalloc.solvers.policies.policy import ActiveJob

#: Decisions that are kept: many of a schedule come again in the next, which differs in few jobs.
KEPT_DECISIONS = 10_000

#: Rounds between states of a schedule from which another one goes on.
KEPT_ROUNDS = 20


class TrueWork(NamedTuple):
    """True work of an application, and its speed.

    Attributes
    ----------
    ends
        Progress at the end of every epoch.
    rates
        Function that returns the progress a second in every epoch on GPUs of nodes.
    spreads
        Function that returns numbers of GPUs on each node, the fastest first, by number of GPUs.
    restart_delay
        Seconds of a restart.
    """

    ends: Sequence[float]
    rates: Callable[[Sequence[int]], Sequence[float]]
    spreads: Callable[[int], Sequence[Sequence[int]]]
    restart_delay: float


class _Wish(NamedTuple):
    """What the GPUs of a job are decided by.

    Attributes
    ----------
    application, epoch
        What it trains, and how far it is.
    worth
        Worth of a unit of progress.
    gpus
        GPUs that it has.
    """

    application: str
    epoch: int
    worth: float
    gpus: int


@dataclass
class _State:
    """State of a schedule after a round: jobs that came, those under way, completion times.

    `settled` is the cluster on which the last decision left everybody in place; None once a job
    came, ended or entered an epoch.
    """

    time: int
    following: int
    active: list[_Running]
    ends: Float[Floats, " jobs"]
    settled: Cluster | None = None

    def copy(self) -> _State:
        """Return a copy that goes on by itself."""
        active = [copy(one) for one in self.active]
        return replace(self, active=active, ends=self.ends.copy())


class _Best(NamedTuple):
    """Best schedule so far: its objective, its worths, and states of it in their order."""

    value: float
    worth: Worths
    states: Sequence[_State]


@dataclass
class PlacedScheduler:
    """Builder of schedules on the nodes of a cluster with GPUs of one type.

    Parameters
    ----------
    problem
        The problem, with attainable rates.
    jobs
        Its jobs as a scheduler sees them before they start, in the same order.
    work
        True work, by the name of the application.
    cluster_at
        Function that returns the nodes that are there at a time.
    interval
        Seconds of a round.
    restart_delay
        Seconds of a restart, as the numbers of GPUs are decided with.
    hold
        Seconds that an allocation is expected to last.

    Raises
    ------
    ValueError
        If a number of seconds is negative or, but for `restart_delay`, 0.
    """

    problem: OfflineProblem
    jobs: Sequence[ActiveJob]
    work: Mapping[str, TrueWork]
    cluster_at: Callable[[int], Cluster]
    interval: int = 60
    restart_delay: float = 30.0
    hold: float = 300.0
    _best: _Best | None = field(default=None, init=False, repr=False)
    _kept_numbers: Callable[[int, tuple[_Wish, ...]], tuple[int, ...]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        require_count("Schedule: interval", self.interval, minimum=1)
        require_number("Schedule: restart_delay", self.restart_delay, minimum=0.0)
        require_number("Schedule: hold", self.hold, minimum=0.0, strict=True)
        most = int(self.problem.supply.gpus.max())
        self._rates = {
            training.name: [rates_on(training, q, most) for q in range(training.num_phases)]
            for training in self.problem.trainings
        }
        # with this object's rates and seconds, which stay as they are
        self._kept_numbers = lru_cache(maxsize=KEPT_DECISIONS)(self._numbers)
        self._order = sorted(range(len(self.jobs)), key=lambda row: self.jobs[row].submission)

    def run(self, worth: Worths) -> Float[Floats, " jobs"]:
        """Return the completion times of the schedule.

        It goes on from the best schedule so far where it begins to differ from that.

        Parameters
        ----------
        worth
            Worth of a unit of progress in each phase, for every job.
        """
        kept = self._same_begin(worth)
        state = kept[-1].copy() if kept else _State(0, 0, [], np.full(len(self.jobs), np.nan))
        states = [*kept]
        while state.following < len(self._order) or state.active:
            self._advance(state, worth)
            if not states or state.time >= states[-1].time + KEPT_ROUNDS * self.interval:
                states.append(state.copy())
        value = self.problem.total(state.ends)
        if self._best is None or value < self._best.value:
            self._best = _Best(value, [*worth], states)
        return state.ends

    def _same_begin(self, worth: Worths) -> list[_State]:
        """Return the states of the best schedule in which no job is there whose worth differs."""
        if self._best is None:
            return []
        pairs = zip(self.jobs, self._best.worth, worth, strict=True)
        changed = [job.submission for job, old, new in pairs if not np.array_equal(old, new)]
        until = min(changed, default=np.inf)
        return [state for state in self._best.states if state.time < until]

    def _advance(self, state: _State, worth: Worths) -> None:
        """Train for a round, and decide."""
        if not state.active:  # nothing happens before the next job is there
            following = self.jobs[self._order[state.following]].submission
            state.time = max(state.time, (following - 1) // self.interval * self.interval)
        for one in state.active:
            epoch = one.epoch
            if (end := one.train(float(state.time + self.interval), self.interval)) is not None:
                state.ends[one.row] = end
            if end is not None or one.epoch != epoch:
                state.settled = None
        state.active = [one for one in state.active if math.isnan(state.ends[one.row])]
        state.time += self.interval
        while state.following < len(self._order):
            row = self._order[state.following]
            job = self.jobs[row]
            if job.submission > state.time:
                break
            state.active.append(_Running(row, job, self.work[job.application], worth[row].tolist()))
            state.following += 1
            state.settled = None
        cluster = self.cluster_at(state.time)
        # the same jobs in the same epochs on the same nodes are decided as before: all stay
        if state.active and state.settled != cluster:
            changed = self._decide(state.active, state.time, cluster)
            state.settled = None if changed else cluster

    def _decide(self, active: Sequence[_Running], time: int, cluster: Cluster) -> bool:
        """Give the GPUs that are there to the active jobs; return whether a number changes."""
        nodes = cluster.num_nodes
        for one in active:
            # the last nodes of a cluster go first, and those of a placement ascend
            if one.gpus and one.job.placement[-1][0] >= nodes:
                one.hold(())
        held = tuple(one.gpus for one in active)
        numbers = self._kept_numbers(cluster.num_gpus, tuple(one.wish for one in active))
        if numbers == held:
            return False
        round_ = Round(time, cluster, tuple(one.job for one in active))
        placements = place(round_, held, numbers, self._spreads)
        for one in active:
            one.hold(placements.get(one.job.name, ()))
        return True

    def _numbers(self, gpus: int, wishes: tuple[_Wish, ...]) -> tuple[int, ...]:
        """Return the numbers of GPUs of jobs that wish for some."""
        rates = [self._rates[wish.application][wish.epoch][: gpus + 1] for wish in wishes]
        worth = np.array([wish.worth for wish in wishes])
        held = np.array([wish.gpus for wish in wishes])
        gain = gains(worth[:, None] * np.array(rates), held, self.restart_delay / self.hold)
        return tuple(best_numbers(gain).tolist())

    def _spreads(self, application: str, gpus: int) -> Sequence[Sequence[int]]:
        return self.work[application].spreads(gpus)


class _Running:
    """Job under way."""

    def __init__(self, row: int, job: ActiveJob, work: TrueWork, worth: Sequence[float]) -> None:
        self.row, self.job, self._work, self._worth = row, job, work, worth
        self.gpus, self._spread, self._delay, self._progress = 0, tuple[int, ...](), 0.0, 0.0
        self._speeds: Sequence[float] = ()  # on its placement, by epoch
        self.epoch = 0
        self._renew_wish()

    def _renew_wish(self) -> None:
        """Wish for GPUs by its epoch and the GPUs that it has."""
        worth = self._worth[self.epoch]
        self.wish = _Wish(self.job.application, self.epoch, worth, self.gpus)

    def hold(self, placement: Placement) -> None:
        """Run on a placement from now on, after a restart if that is a change."""
        if placement == self.job.placement:
            return
        self.job = replace(self.job, placement=placement)
        self._spread = tuple(gpus for _, gpus in placement)
        self.gpus = sum(self._spread)
        self._renew_wish()
        if placement:
            self._delay = self._work.restart_delay
            self._speeds = self._work.rates(self._spread)

    def train(self, end: float, interval: int) -> float | None:
        """Train for a round up to second `end`; return when it ended, if it did."""
        if not self.gpus:
            return None
        waited = min(self._delay, float(interval))
        self._delay -= waited
        seconds = interval - waited
        epoch, ends = self.epoch, self._work.ends
        while seconds > 0.0:
            rate, target = self._speeds[epoch], ends[epoch]
            if self._progress + rate * seconds < target:
                self._progress += rate * seconds
                break
            spent = float(round((target - self._progress) / rate))
            self._progress = target
            epoch += 1
            if epoch == len(ends):
                return end - seconds + spent
            seconds -= spent
        if epoch != self.epoch:
            self.epoch = epoch
            self._renew_wish()
        return None
