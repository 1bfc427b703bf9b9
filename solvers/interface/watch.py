"""The clock of one solve."""

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
    """The clock of one solve: its limits, and whether somebody pressed Ctrl-C."""

    stop: Stop
    begin: float = field(default_factory=time.perf_counter)
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.begin

    @property
    def left(self) -> float:
        """Seconds left, infinite without a limit."""
        return math.inf if self.stop.seconds is None else self.stop.seconds - self.seconds

    @property
    def limit(self) -> Limit | None:
        """The limit that is reached, if any."""
        if self.interrupted:
            return Limit.INTERRUPTED
        return Limit.TIME if self.left <= 0 else None
