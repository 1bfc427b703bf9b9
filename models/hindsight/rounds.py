"""Rounds of a scheduler: when the GPUs of a job can change, and what a change costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.hindsight.offline_problem import OfflineJob


@dataclass(frozen=True)
class Rounds:
    """Rounds of equal length, from 0 on, at the beginning of which the GPUs of jobs can change.

    In a round a job keeps its whole number of GPUs until it ends. If it has other GPUs than in the
    round before, none before its first round, it holds them for some seconds without training.

    Parameters
    ----------
    seconds
        Seconds of a round, above 0.
    restart
        Seconds without training after a change, for every training by its name.

    Raises
    ------
    ValueError
        If a number is not finite, or makes no sense.
    """

    seconds: float
    restart: Mapping[str, float]

    def __post_init__(self) -> None:
        require_number("Rounds: seconds", self.seconds, minimum=0.0, strict=True)
        for name, seconds in self.restart.items():
            require_number(f"Rounds: restart of '{name}'", seconds, minimum=0.0)

    def lost(self, training: str) -> float:
        """Return the seconds without training in the first round after a change.

        Parameters
        ----------
        training
            Name of the training.

        Raises
        ------
        ValueError
            If no restart is told for it.
        """
        if training not in self.restart:
            raise ValueError(
                f"Rounds: training '{training}' has no restart; expected seconds for each training."
            )
        return min(self.restart[training], self.seconds)

    def first(self, job: OfflineJob) -> int:
        """Return the index of the first round in which a job can have GPUs.

        Parameters
        ----------
        job
            The job; it trains no earlier than its `begin`.

        Examples
        --------
        >>> from goodalloc.models.hindsight import OfflineJob, Rounds
        >>> Rounds(60.0, {"two": 30.0}).first(OfflineJob("a", "two", 70.0, 150.0))
        2
        """
        begun = job.begin - self.lost(job.training)
        return max(int(begun / self.seconds * (1.0 + 1e-12)), 0)
