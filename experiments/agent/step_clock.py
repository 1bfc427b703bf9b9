"""Seconds of the passes of a step, as measured by the training program."""

from __future__ import annotations

import time

#: First steps of a configuration, which are not timed.
WARM_UP = 2


class StepClock:
    """Clock of successive passes.

    Parameters
    ----------
    steps
        Number of steps made before.
    """

    def __init__(self, steps: int) -> None:
        self._seconds: list[float] = []
        self._begin = 0.0
        self.warm_up(steps)

    def warm_up(self, steps: int) -> None:
        """Begin the warm-up of a new configuration after `steps` steps."""
        self._timed_from = steps + WARM_UP

    def begin_step(self) -> None:
        """Begin a step with the next pass."""
        self._seconds = []

    def begin(self) -> None:
        """Begin a pass now."""
        self._begin = time.perf_counter()

    def end(self) -> None:
        """End a pass and begin the next one."""
        now = time.perf_counter()
        self._seconds.append(now - self._begin)
        self._begin = now

    def passes(self, steps: int, waited: float) -> tuple[float, float] | None:
        """Return the seconds of a pass without synchronisation, and of the last one, with it.

        The former is the mean over the passes, the latter the rest of the step, which includes the
        update of the optimiser (`data/files/measured_profile.py`).

        Parameters
        ----------
        steps
            Number of steps made.
        waited
            Seconds that the last pass waited for the exchange of gradients.

        Returns
        -------
        tuple of float, or None
            None while the configuration warms up, or if a time is not above 0.
        """
        whole = sum(self._seconds)
        gradient = (whole - waited) / len(self._seconds)
        last = whole - (len(self._seconds) - 1) * gradient
        if steps > self._timed_from and min(gradient, last) > 0.0:
            return gradient, last
        return None
