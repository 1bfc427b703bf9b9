r"""Schedules with hindsight: at every moment the GPUs go where they are worth most.

Every job has a worth :math:`\mu_q` of a unit of progress in each of its phases. When a job begins
or ends, and at every step of a clock, GPUs are given out one after the other to the largest
:math:`\mu_q (g_a(k') - g_a(k)) / (\pi_a (k' - k))`, the worth of more GPUs of a type by price,
until there are none left; with its first GPU a job is on a type. GPUs for which no job has a use
that is concave then go where they are worth most, be it to a job that leaves its type for them.
With the multipliers of the bound (`best_prices.py`) that is what the prices tell each job to take,
but for jobs that no longer go by their plan; multipliers that are better still are found by local
search (`schedule_search.py`).

Without restarts, and with GPUs that can be anywhere: *ideal* schedules, which a replay with
restarts cannot attain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.hindsight.offline_schedule import Segment
from goodalloc.solvers.hindsight.active_jobs import ActiveJob, JobKind, give_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats


#: Seconds by which rounding cannot be wrong about the end of a job.
ROUNDING = 1e-6


@dataclass(frozen=True)
class WorthScheduler:
    """Builder of ideal schedules.

    Parameters
    ----------
    problem
        The problem.
    clock
        Seconds between decisions, besides those when a job begins or ends or the supply changes.
    fill
        Whether GPUs that are left go to jobs for which so many are no corner of the concave hull,
        and jobs change to types that have some left.

    Raises
    ------
    ValueError
        If a job needs more GPUs than there are in the end.
    """

    problem: OfflineProblem
    clock: float = 60.0
    fill: bool = True

    def __post_init__(self) -> None:
        supply = self.problem.supply.gpus[-1]
        for job in self.problem.jobs:
            training = self.problem.training(job.training)
            runs = training.rates > 0
            if not (runs & (training.gpus <= supply[:, None])[:, None]).any(axis=(0, 2)).all():
                least = max(np.where(runs, training.gpus, np.inf).min(axis=(0, 2)))
                raise ValueError(
                    f"Job '{job.name}': it needs at least {least:g} GPUs; there are "
                    f"{supply.max():g}."
                )

    @cached_property
    def _kinds(self) -> dict[str, JobKind]:
        """What runs need of every training, up to the GPUs that are there in the end."""
        supply = self.problem.supply.gpus[-1].tolist()
        return {one.name: JobKind.of(one, supply) for one in self.problem.trainings}

    @cached_property
    def _order(self) -> list[int]:
        """Jobs in the order in which they begin."""
        begin = [job.begin for job in self.problem.jobs]
        return sorted(range(len(begin)), key=begin.__getitem__)

    @cached_property
    def _rank(self) -> dict[int, int]:
        """Place of every job in that order."""
        return {row: rank for rank, row in enumerate(self._order)}

    def _tick_after(self, now: float) -> float:
        """Return the next time of the clock."""
        after = self.clock * (now // self.clock + 1.0)
        return after if after > now else after + self.clock

    def run(
        self,
        worth: Sequence[Float[Floats, " phases"]],
        keep: OfflineSchedule | None = None,
        *,
        prices: Sequence[float] = (),
    ) -> Float[Floats, " jobs"]:
        """Return the completion times of the schedule.

        Parameters
        ----------
        worth
            Worth of a unit of progress in each phase, for every job.
        keep
            Where the segments are put; None to build none.
        prices
            Price of a GPU of every type, in any unit; none for equal ones.
        """
        lists = [own.tolist() for own in worth]
        trail = self.trail(lists, [1.0] * len(lists), keep=keep, prices=prices)
        return np.array(trail.ends)

    def trail(
        self,
        worth: Sequence[Sequence[float]],
        factors: Sequence[float],
        *,
        prices: Sequence[float] = (),
        keep: OfflineSchedule | None = None,
        after: Change | None = None,
    ) -> Trail:
        """Return the schedule of worths times a factor of every job, so that others can follow.

        A search calls it thousands of times. Few jobs are under way at a time, so that plain lists
        are several times faster than arrays; GPUs are given out anew only if something changed.

        Parameters
        ----------
        worth, factors
            Worths before the factors, and the factor of every job.
        prices, keep
            As in `run`.
        after
            Change to another schedule, from which this one is the same up to the first job whose
            worth differs; None to begin with the first job. Not with `keep`.
        """
        jobs, order = self.problem.jobs, self._order
        supply = self.problem.supply.gpus.tolist()
        times = [*self.problem.supply.times.tolist(), math.inf]
        begins = [*(jobs[row].begin for row in order), math.inf]
        by_type = [1.0 / price for price in prices] or [1.0] * len(supply[0])

        def enter(row: int, phase: int = 0, left: float | None = None) -> ActiveJob:
            kind = self._kinds[jobs[row].training]
            scale = [factors[row] * one for one in by_type]
            return ActiveJob(row, kind, worth[row], scale, phase, left)

        start = _Moment(begins[0], 0, 0, ())
        trail = Trail([math.nan] * len(jobs), [])
        if after is not None:
            first = min(self._rank[row] for row in after.jobs)
            start = after.trail.moments[first]
            trail = Trail(
                [end if end <= start.now else math.nan for end in after.trail.ends],
                after.trail.moments[: start.following],
            )
        held: list[list[Segment]] = [[] for _ in jobs]
        now, following, change, decide = start.now, start.following, start.change, True
        active = [enter(*state) for state in start.states]
        running: list[ActiveJob] = []
        while following < len(order) or active:
            if not active:
                now = max(now, begins[following])
            if begins[following] <= now:
                states = tuple(one.state for one in active)
                moment = _Moment(now, following, change, states)
                while begins[following] <= now:
                    active.append(enter(order[following]))
                    trail.moments.append(moment)
                    following, decide = following + 1, True
            while times[change + 1] <= now:
                change, decide = change + 1, True
            if decide:
                give_out(active, supply[change], fill=self.fill)
                running = [one for one in active if one.gpus]
            until = min(self._tick_after(now), begins[following], times[change + 1])
            if running:
                until = min(until, min([one.end(now) for one in running]) + ROUNDING)
            decide = False
            for one in running:
                if keep is not None:
                    held[one.row].append(Segment(now, until, one.type, one.gpus))
                phase = one.phase
                end = one.train(now, until)
                if end is not None:
                    trail.ends[one.row] = end
                    decide = True
                elif one.phase != phase:
                    one.offer()
                    decide = True
            if decide:
                active = [one for one in active if math.isnan(trail.ends[one.row])]
            now = until
        if keep is not None:
            keep |= {job.name: _merged(own) for job, own in zip(jobs, held, strict=True)}
        return trail


class _Moment(NamedTuple):
    """Moment at which jobs begin, before they do.

    Attributes
    ----------
    now
        Seconds.
    following
        Number of jobs that began before.
    change
        Index of the supply.
    states
        Job, phase and the work left in it, of all jobs under way.
    """

    now: float
    following: int
    change: int
    states: tuple[tuple[int, int, float], ...]


class Trail(NamedTuple):
    """Schedule from any of whose moments another one can follow.

    Attributes
    ----------
    ends
        Completion times.
    moments
        The moment at which each job begins, in the order in which they do.
    """

    ends: list[float]
    moments: list[_Moment]


class Change(NamedTuple):
    """Other worths than those of a schedule.

    Attributes
    ----------
    trail
        The schedule.
    jobs
        Jobs whose worths differ, at least one.
    """

    trail: Trail
    jobs: Sequence[int]


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return segments of which no two that touch have equal GPUs."""
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last and last.end == segment.start and last[2:] == segment[2:]:
            merged[-1] = last._replace(end=segment.end)
        else:
            merged.append(segment)
    return tuple(merged)
