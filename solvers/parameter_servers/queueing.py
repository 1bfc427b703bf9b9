"""Schedulers that give jobs with parameter servers the requested pods.

They are first come, first served; shortest remaining time first; and Tiresias, two queues by
attained service. (`solvers/policies/queueing.py` has them for jobs of replicas.)

References
----------
Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
    https://www.usenix.org/conference/nsdi19/presentation/gu
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.parameter_servers.borda import starving
from goodalloc.solvers.parameter_servers.policy import TurnClock, admit, as_asked

if TYPE_CHECKING:
    from goodalloc.solvers.parameter_servers.policy import PsDecision, PsView

#: Service at which a job of Tiresias leaves the first queue: an hour of a GPU and four cores, the
#: 3,600 GPU-seconds of its authors' example with two queues.
THRESHOLD = 3600.0 * 14.0


@dataclass(frozen=True)
class PsFirstCome:
    """First come, first served: no job overtakes one that does not fit.

    Parameters
    ----------
    backfill
        Whether later jobs that fit may overtake it.
    """

    backfill: bool = False

    def decide(self, view: PsView) -> PsDecision:
        """Admit jobs in order of submission."""
        return admit(view, range(len(view.jobs)), as_asked(view), backfill=self.backfill)


@dataclass(frozen=True)
class PsShortestFirst:
    """Shortest true remaining time first, preemptive; jobs that fit overtake."""

    def decide(self, view: PsView) -> PsDecision:
        """Admit jobs in order of their remaining time."""
        order = sorted(range(len(view.jobs)), key=lambda i: view.jobs[i].oracle_seconds)
        return admit(view, order, as_asked(view))


@dataclass
class PsTiresias:
    """Two queues by attained service, each first come, first served; jobs that fit overtake.

    Parameters
    ----------
    threshold
        Service, cores and ten times GPUs, at which a job moves to the second queue.
    promote
        A job of the second queue that waited this many times as long as it ran goes first until
        that is no longer so; 0 never promotes.

    Raises
    ------
    ValueError
        If `threshold` <= 0 or `promote` is negative.

    Examples
    --------
    >>> from goodalloc.solvers.parameter_servers import PsTiresias
    >>> PsTiresias(promote=8.0).threshold
    50400.0
    """

    threshold: float = THRESHOLD
    promote: float = 0.0
    _clock: TurnClock = field(default_factory=TurnClock, init=False)

    def __post_init__(self) -> None:
        require_number("Tiresias: threshold", self.threshold, 0.0, strict=True)
        require_number("Tiresias: promote", self.promote, 0.0)

    def decide(self, view: PsView) -> PsDecision:
        """Admit jobs queue by queue."""
        self._clock.advance(view)
        first = starving(*self._clock.of(view), self.promote)
        second = [
            job.attained >= self.threshold and not starves
            for job, starves in zip(view.jobs, first.tolist(), strict=True)
        ]
        return admit(view, sorted(range(len(second)), key=lambda i: second[i]), as_asked(view))
