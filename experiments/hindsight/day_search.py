"""Limits and seed of the searches of a day with hindsight."""

from __future__ import annotations

from dataclasses import dataclass

from goodalloc.models.support.validation import require_count, require_number


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

    Raises
    ------
    ValueError
        If one of them is out of range.

    Examples
    --------
    >>> from goodalloc.experiments.hindsight import DaySearch
    >>> DaySearch(steps=100)
    DaySearch(interval=300.0, seed=0, steps=100)
    """

    interval: float = 300.0
    seed: int = 0
    steps: int = 1000

    def __post_init__(self) -> None:
        require_number("Hindsight: interval", self.interval, minimum=0.0, strict=True)
        require_count("Hindsight: seed", self.seed, 0)
        require_count("Hindsight: steps", self.steps, 1)


#: As many steps as `goodalloc hindsight` takes.
USUAL_SEARCH = DaySearch()
