"""Seconds of the passes of a step, as the training program meets them."""

from __future__ import annotations

import time

WARM_UP = 2
"""Steps of a configuration that are not timed."""


class StepClock:
    """Times one pass after the other.

    Parameters
    ----------
    steps
        That were made before.
    """

    def __init__(self, steps: int) -> None:
        self._seconds: list[float] = []
        self._begin = 0.0
        self.warm_up(steps)

    def warm_up(self, steps: int) -> None:
        """The configuration is a new one, after so many steps."""
        self._timed_from = steps + WARM_UP

    def begin_step(self) -> None:
        """The next pass is the first one of a step."""
        self._seconds = []

    def begin(self) -> None:
        """A pass begins now."""
        self._begin = time.perf_counter()

    def end(self) -> None:
        """A pass ends and the next one begins."""
        now = time.perf_counter()
        self._seconds.append(now - self._begin)
        self._begin = now

    def passes(self, steps: int, waited: float) -> tuple[float, float] | None:
        """Seconds of a pass without synchronisation, and of the last one, with it.

        The former is the mean over the passes, the latter what they leave of the step, which has
        the optimiser's update (`data/files/measured_profile.py`).

        Parameters
        ----------
        steps
            That were made.
        waited
            Seconds that the last pass waited for the exchange of gradients.

        Returns
        -------
        tuple of float, or None
            None while the configuration warms up, or if the clock stood still.
        """
        whole = sum(self._seconds)
        gradient = (whole - waited) / len(self._seconds)
        last = whole - (len(self._seconds) - 1) * gradient
        if steps > self._timed_from and min(gradient, last) > 0.0:
            return gradient, last
        return None
