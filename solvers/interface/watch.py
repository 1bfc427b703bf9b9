"""Clock of one solve."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.solvers.interface.result import Limit

if TYPE_CHECKING:
    from goodalloc.solvers.interface.stop import Stop


@dataclass
class Watch:
    """Clock of one solve: its limits, and whether Ctrl-C was pressed.

    Examples
    --------
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> watch = Watch(Stop(seconds=60.0))
    >>> 0.0 < watch.left <= 60.0, watch.limit is None
    (True, True)
    """

    stop: Stop
    begin: float = field(default_factory=time.perf_counter)
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.begin

    @property
    def left(self) -> float:
        """Remaining seconds, infinite without a limit."""
        return math.inf if self.stop.seconds is None else self.stop.seconds - self.seconds

    @property
    def limit(self) -> Limit | None:
        """Limit that is reached, or None."""
        if self.interrupted:
            return Limit.INTERRUPTED
        return Limit.TIME if self.left <= 0 else None
