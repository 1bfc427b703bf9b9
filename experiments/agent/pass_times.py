"""What an agent measures of its steps: seconds of a pass without and with synchronisation.

Of every configuration (nodes, replicas, examples per replica and pass) the last few of each are
kept, and their medians are what the throughput model is fitted to; so one pass that was held up
says little. The configurations that were not used for longest are dropped beyond `MOST`, which
bounds the time of a fit.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number

KEPT = 32
"""Measurements of a configuration that are kept of each kind."""

LEAST = 3
"""Measurements before a configuration counts."""

MOST = 64
"""Configurations."""


class Configuration(NamedTuple):
    """N, K and m."""

    nodes: int
    replicas: int
    atomic: int


class PassTimes:
    """Seconds of passes by configuration."""

    def __init__(self) -> None:
        self._seconds: dict[Configuration, tuple[deque[float], deque[float]]] = {}
        self.steps = 0

    def record(self, configuration: Configuration, gradient: float, step: float) -> None:
        """Take in one step.

        Parameters
        ----------
        configuration
            What it ran in.
        gradient, step
            Seconds of a pass without synchronisation, and of the one with it.

        Raises
        ------
        ValueError
            If one is not above 0 or not finite.
        """
        require_number("Pass times: gradient", gradient, 0.0, strict=True)
        require_number("Pass times: step", step, 0.0, strict=True)
        kept = self._seconds.pop(configuration, None) or (deque(maxlen=KEPT), deque(maxlen=KEPT))
        self._seconds[configuration] = kept  # the last one now
        for seconds, value in zip(kept, (gradient, step), strict=True):
            seconds.append(value)
        if len(self._seconds) > MOST:
            del self._seconds[next(iter(self._seconds))]
        self.steps += 1

    def table(self) -> list[list[float]]:
        """Rows of N, K, m and the two medians, as `fitting.pad_observations` takes them."""
        return [
            [*map(float, one), *(float(np.median(seconds)) for seconds in kept)]
            for one, kept in sorted(self._seconds.items())
            if len(kept[0]) >= LEAST
        ]

    def state(self) -> list[Any]:
        """What a checkpoint keeps."""
        return [[*one, *map(list, kept)] for one, kept in self._seconds.items()]

    def load(self, state: list[Any]) -> None:
        """Go on from a state."""
        for *configuration, gradient, step in state:
            kept = deque(gradient, maxlen=KEPT), deque(step, maxlen=KEPT)
            self._seconds[Configuration(*configuration)] = kept
