"""Measured seconds of passes without and with synchronisation, by configuration.

The last `KEPT` measurements of every configuration (nodes, replicas, examples per replica and pass)
are kept, and the throughput model is fitted to their medians, so that a single delayed pass has
little influence. Beyond `MOST` configurations the least recently used is dropped, which bounds the
time of a fit.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number

#: Measurements of each kind that are kept of a configuration.
KEPT = 32

#: Measurements after which a configuration is part of the table.
LEAST = 3

#: Most configurations.
MOST = 64


class Configuration(NamedTuple):
    """Numbers of nodes N, of replicas K, and of examples per replica and pass m."""

    nodes: int
    replicas: int
    atomic: int


class PassTimes:
    """Seconds of passes by configuration."""

    def __init__(self) -> None:
        self._seconds: dict[Configuration, tuple[deque[float], deque[float]]] = {}
        self.steps = 0

    def record(self, configuration: Configuration, gradient: float, step: float) -> None:
        """Add the measurements of one step.

        Parameters
        ----------
        configuration
            Configuration of the step.
        gradient, step
            Seconds of a pass without synchronisation, and of the one with it.

        Raises
        ------
        ValueError
            If `gradient` or `step` is not above 0 or not finite.
        """
        require_number("Pass times: gradient", gradient, 0.0, strict=True)
        require_number("Pass times: step", step, 0.0, strict=True)
        kept = self._seconds.pop(configuration, None) or (deque(maxlen=KEPT), deque(maxlen=KEPT))
        self._seconds[configuration] = kept  # now the most recently used
        for seconds, value in zip(kept, (gradient, step), strict=True):
            seconds.append(value)
        if len(self._seconds) > MOST:
            del self._seconds[next(iter(self._seconds))]
        self.steps += 1

    def table(self) -> list[list[float]]:
        """Return rows of N, K, m and the two medians, as `pad_observations` expects them."""
        return [
            [*map(float, one), *(float(np.median(seconds)) for seconds in kept)]
            for one, kept in sorted(self._seconds.items())
            if len(kept[0]) >= LEAST
        ]

    def measured(self) -> tuple[tuple[int, int], ...]:
        """Return the nodes and replicas of the rows of the table, in order, each once."""
        return tuple(sorted({(int(row[0]), int(row[1])) for row in self.table()}))

    def state(self) -> list[Any]:
        """Return the state for a checkpoint."""
        return [[*one, *map(list, kept)] for one, kept in self._seconds.items()]

    def load(self, state: list[Any]) -> None:
        """Restore `state`."""
        for *configuration, gradient, step in state:
            kept = deque(gradient, maxlen=KEPT), deque(step, maxlen=KEPT)
            self._seconds[Configuration(*configuration)] = kept
