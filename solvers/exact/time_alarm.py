"""Alarm: interruption of code that looks at no clock when its time is up."""

from __future__ import annotations

import math
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class TimeIsUp(BaseException):
    """Raised by `alarm`; like `KeyboardInterrupt` it must not be caught by libraries."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUp` inside the block after this time, as Ctrl-C would raise an exception there.

    Python code is left at once, a call of compiled code when it returns. Only the main thread of a
    process on a system with timers can be interrupted in this way, and only if the timer is not in
    use; in other cases nothing is raised, and the caller has to estimate beforehand or look at the
    clock.

    Parameters
    ----------
    seconds
        Time until the alarm rings; infinite for never.
    """
    if not math.isfinite(seconds) or not _can_ring():
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        yield
    finally:
        try:  # it rings once at most, but that may be here
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:
            signal.signal(signal.SIGALRM, before)


def _can_ring() -> bool:
    """Return whether this thread can be interrupted and the timer is free."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0
