"""Limits and seed of the searches of a day with hindsight."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

#: Steps of the search of an ideal schedule for each of that of worths with restarts, which takes
#: several times as long.
STEPS_A_REPLAYED = 5

#: Part of a time limit after which searches end: replays and files take the rest.
SEARCHED = 0.85

#: Least seconds of a search, which tries its starts in any case.
LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class DaySearch:
    """Limits and seed of the searches of a bound and of schedules.

    Parameters
    ----------
    interval
        Seconds of constant prices of the bound; shorter ones prove more and take longer.
    seed
        Seed of the search of a schedule.
    steps
        Steps of the search of a schedule.
    until
        Moment of `time.monotonic` by which the searches end; None for no such limit. Rates and
        certificates are worked out in any case.

    Raises
    ------
    ValueError
        If one of them is out of range.

    Examples
    --------
    >>> from goodalloc.experiments.hindsight import DaySearch
    >>> DaySearch(steps=100)
    DaySearch(interval=300.0, seed=0, steps=100, until=None)
    """

    interval: float = 300.0
    seed: int = 0
    steps: int = 1000
    until: float | None = None

    def __post_init__(self) -> None:
        require_number("Hindsight: interval", self.interval, minimum=0.0, strict=True)
        require_count("Hindsight: seed", self.seed, 0)
        require_count("Hindsight: steps", self.steps, 1)
        if self.until is not None:
            require_number("Hindsight: until", self.until)

    def within(self, seconds: float) -> DaySearch:
        """Return this search with a time limit.

        Parameters
        ----------
        seconds
            Seconds from now, in about which all of a day is to end.
        """
        return replace(self, until=time.monotonic() + SEARCHED * seconds)

    @property
    def replayed_steps(self) -> int:
        """Steps of the search of a schedule with restarts."""
        return max(self.steps // STEPS_A_REPLAYED, 1)

    def stop(self, steps: int | None = None, share: float = 1.0) -> Stop:
        """Return the limits of a search that begins now.

        Parameters
        ----------
        steps
            Most steps, None for any number.
        share
            Part of the time left that it may take.
        """
        return limits(self.until, share).replace(iterations=steps)

    def text(self, steps: int, replayed: int | None = None) -> str:
        """Return how far searches within a time limit came, for people; empty without a limit.

        Parameters
        ----------
        steps, replayed
            Steps of the search of a schedule, and of one with restarts if there was one.

        Examples
        --------
        >>> from goodalloc.experiments.hindsight import DaySearch
        >>> DaySearch().within(60.0).text(344)
        'Within the time limit, schedules were searched for by 344 of 1,000 steps.'
        """
        if self.until is None:
            return ""
        made = f"{steps:,} of {self.steps:,} steps"
        if replayed is not None:
            made += f", {replayed:,} of {self.replayed_steps:,} with restarts"
        return f"Within the time limit, schedules were searched for by {made}."


@dataclass
class StepCount:
    """Callback for the steps of a search, which counts them.

    Parameters
    ----------
    steps
        Most steps.
    report
        Callback for the share that is done.
    taken
        Steps so far.
    """

    steps: int
    report: Callable[[float], None]
    taken: int = 0

    def __call__(self, step: int, _value: float) -> None:
        """Count a step."""
        self.taken = step
        self.report(step / self.steps)


def limits(until: float | None, share: float = 1.0) -> Stop:
    """Return the limit of a search that begins now and may take a share of the time left.

    Parameters
    ----------
    until
        Moment of `time.monotonic`; None for no limit.
    share
        The share.
    """
    if until is None:
        return Stop()
    return Stop(seconds=max(share * (until - time.monotonic()), LEAST_SECONDS))


#: As many steps as `goodalloc hindsight` takes.
USUAL_SEARCH = DaySearch()
