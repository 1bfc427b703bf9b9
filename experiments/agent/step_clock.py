"""Seconds of the passes of a step, on the clock of the device that trains."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.experiments.agent.pass_times import Configuration
    from goodalloc.experiments.support.device_clock import DeviceClock

#: First steps of a configuration, which are not timed.
WARM_UP = 2


class TimedStep(NamedTuple):
    """Seconds of a step.

    Attributes
    ----------
    where
        Its configuration.
    gradient
        Seconds of a pass without synchronisation.
    step
        Seconds of the last pass, with synchronisation.
    """

    where: Configuration
    gradient: float
    step: float


class _Marks(NamedTuple):
    """Marks of a step whose seconds are not read yet.

    Attributes
    ----------
    where
        Its configuration.
    passes
        Begin and end of each pass.
    exchange
        From when the last gradient was there until the replicas had exchanged all; None if they
        exchanged none.
    """

    where: Configuration
    passes: list[tuple[Any, Any]]
    exchange: tuple[Any, Any] | None


class StepClock:
    """Clock of successive passes.

    The host does not wait for the device: a step is read when the device has done it, on a GPU
    while a later one is under way.

    Parameters
    ----------
    clock
        Clock of the device.
    steps
        Number of steps made before.
    """

    def __init__(self, clock: DeviceClock, steps: int) -> None:
        self._clock = clock
        self._passes: list[tuple[Any, Any]] = []
        self._unread: deque[_Marks] = deque()
        self._begin = clock.mark()
        self.warm_up(steps)

    def warm_up(self, steps: int) -> None:
        """Begin the warm-up of a new configuration after `steps` steps."""
        self._timed_from = steps + WARM_UP

    def begin_step(self) -> None:
        """Begin a step with the next pass."""
        self._passes = []

    def begin(self) -> None:
        """Begin a pass now."""
        self._begin = self._clock.mark()

    def end(self) -> None:
        """End a pass and begin the next one."""
        now = self._clock.mark()
        self._passes.append((self._begin, now))
        self._begin = now

    def end_step(
        self, where: Configuration, steps: int, exchange: tuple[Any, Any] | None
    ) -> Iterator[TimedStep]:
        """End a step with the last pass; yield the seconds of those that the device has done.

        The seconds of a pass without synchronisation are the mean over the passes, those of the
        last one are the rest of the step, which includes the update of the optimiser
        (`data/files/measured_profile.py`). A step of the warm-up, or with a time that is not above
        0, is left out.

        Parameters
        ----------
        where
            Configuration of the step.
        steps
            Number of steps made.
        exchange
            From when the last gradient of the last pass was there until the replicas had exchanged
            all; None if they exchanged none.
        """
        if steps > self._timed_from:
            self._unread.append(_Marks(where, self._passes, exchange))
        while self._unread and self._clock.reached(self._unread[0].passes[-1][1]):
            done = self._unread.popleft()
            seconds = [self._clock.seconds(*one) for one in done.passes]
            waited = 0.0 if done.exchange is None else self._clock.seconds(*done.exchange)
            whole = sum(seconds)
            gradient = (whole - waited) / len(seconds)
            last = whole - (len(seconds) - 1) * gradient
            if min(gradient, last) > 0.0:
                yield TimedStep(done.where, gradient, last)
