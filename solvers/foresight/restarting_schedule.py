"""Schedules with hindsight in whole rounds, in which a change of allocation costs a restart.

What a replay would do on nodes on which every number of GPUs fits: in every round GPUs are given
out by worth (`round_knapsack.py`), and a job whose number changes trains only after its restart.
Thousands of times as fast as a replay, so that worths can be searched for
(`schedule_search.py`) with which a replay is good, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.foresight.round_knapsack import best_numbers, gains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats


@dataclass(frozen=True)
class RestartingScheduler:
    """Builder of schedules in rounds, with restarts, on GPUs of one type.

    Parameters
    ----------
    problem
        The problem; every job begins a restart after its first decision.
    interval
        Seconds of a round.
    restart_delay
        Seconds of a restart.
    hold
        Seconds that an allocation is expected to last.

    Raises
    ------
    ValueError
        If the problem has several types of GPU, or a number of seconds is negative or, but for
        `restart_delay`, 0.
    """

    problem: OfflineProblem
    interval: float = 60.0
    restart_delay: float = 30.0
    hold: float = 300.0

    def __post_init__(self) -> None:
        require_number("Schedule: interval", self.interval, minimum=0.0, strict=True)
        require_number("Schedule: restart_delay", self.restart_delay, minimum=0.0)
        require_number("Schedule: hold", self.hold, minimum=0.0, strict=True)
        if len(self.problem.supply.types) > 1:
            types = ", ".join(self.problem.supply.types)
            raise ValueError(f"Schedule: the GPUs are of types {types}; expected one type.")

    @cached_property
    def _rates(self) -> dict[str, Float[Floats, "phases counts"]]:
        """Rates of every training on 0, 1, … GPUs."""
        most = int(self.problem.supply.gpus.max())
        return {
            training.name: np.stack(
                [rates_on(training, phase, most) for phase in range(training.num_phases)]
            )
            for training in self.problem.trainings
        }

    def run(self, worth: Sequence[Float[Floats, " phases"]]) -> Float[Floats, " jobs"]:
        """Return the completion times of the schedule.

        Parameters
        ----------
        worth
            Worth of a unit of progress in each phase, for every job.
        """
        problem = self.problem
        decided = [job.begin - self.restart_delay for job in problem.jobs]
        order = sorted(range(len(decided)), key=decided.__getitem__)
        ends = np.full(len(order), np.nan)
        active: list[_Active] = []
        now, following = 0.0, 0
        while following < len(order) or active:
            if not active:
                now = max(now, self.interval * np.ceil(decided[order[following]] / self.interval))
            while following < len(order) and decided[order[following]] <= now:
                row = order[following]
                job = problem.jobs[row]
                training, rates = problem.training(job.training), self._rates[job.training]
                active.append(_Active(row, job, training, rates, worth[row]))
                following += 1
            self._decide(active, now)
            after = now + self.interval
            for one in active:
                end = one.train(now, after)
                if end is not None:
                    ends[one.row] = end
            active = [one for one in active if np.isnan(ends[one.row])]
            now = after
        return ends

    def _decide(self, active: Sequence[_Active], now: float) -> None:
        """Give the GPUs that are there to the active jobs."""
        supply = self.problem.supply
        number = int(np.searchsorted(supply.times, now, side="right")) - 1
        there = int(supply.gpus[number, 0])
        earned = np.stack([one.earned[: there + 1] for one in active])
        held = np.array([one.gpus if one.gpus <= there else 0 for one in active])
        restart = self.restart_delay / self.hold
        for one, gpus in zip(
            active, best_numbers(gains(earned, held, restart)).tolist(), strict=True
        ):
            one.hold(gpus, self.restart_delay)


def rates_on(training: Training, phase: int, most: int) -> Float[Floats, " counts"]:
    """Return the rates of a phase on 0 to `most` GPUs of the first type.

    Parameters
    ----------
    training, phase
        The training, and the index of its phase.
    most
        Largest number of GPUs.
    """
    rates = np.zeros(most + 1)
    fits = training.gpus <= most
    rates[training.gpus[fits].astype(int)] = training.rates[0, phase, fits]
    return rates


class _Active:
    """Job under way."""

    def __init__(
        self, row: int, job: OfflineJob, training: Training, rates: Floats, worth: Floats
    ) -> None:
        self.row, self._begin, self._work, self._rates = row, job.begin, training.work, rates
        self._worth, self.gpus, self._delay = worth, 0, 0.0
        self._enter(0)

    def _enter(self, phase: int) -> None:
        self._phase, self._left = phase, float(self._work[phase])
        self.earned = self._worth[phase] * self._rates[phase]

    def hold(self, gpus: int, delay: float) -> None:
        """Run on so many GPUs from now on, after a restart if that is a change."""
        if gpus != self.gpus:
            self.gpus, self._delay = gpus, delay

    def train(self, now: float, until: float) -> float | None:
        """Train until the next decision; return when it ended, if it did."""
        waited = min(self._delay, until - now)
        self._delay -= waited
        now = max(now + waited, self._begin)
        if not self.gpus:
            return None
        while now < until:
            rate = float(self._rates[self._phase, self.gpus])
            if rate * (until - now) < self._left:
                self._left -= rate * (until - now)
                return None
            now += self._left / rate
            if self._phase + 1 == self._work.size:
                return now
            self._enter(self._phase + 1)
        return None
