"""Share of time in which a runnable thread had a core, rather than another program.

Linux counts the time that a runnable thread waits for a core (``/proc/thread-self/schedstat``, the
second number), which excludes the time in which it waits for another process, as for the gradients
of another replica. While other threads of its own process run, they may be the cause, so that their
time is subtracted. Without this counter, a process that waits for no other should have used as much
processor time as passed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

#: File of the counter.
SCHEDULED = Path("/proc/thread-self/schedstat")


class CoreMark(NamedTuple):
    """Readings of clocks, in seconds.

    Attributes
    ----------
    clock, process, thread
        Wall time, and processor time of the process and of this thread.
    waited
        Time in which this thread waited for a core; None if it is unknown.
    """

    clock: float
    process: float
    thread: float
    waited: float | None


def mark_core() -> CoreMark:
    """Return the present readings for this thread."""
    return CoreMark(time.perf_counter(), time.process_time(), time.thread_time(), _waited())


def _waited() -> float | None:
    """Return the seconds that this thread waited for a core; None if they are unknown."""
    try:
        ran, waited, _ = map(int, SCHEDULED.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return waited / 1e9 if ran else None


def core_share(begin: CoreMark, end: CoreMark, *, waits: bool) -> float:
    """Return the share of time, 0 to 1, in which no other program kept this thread from a core.

    Parameters
    ----------
    begin, end
        Readings, one after the other.
    waits
        Whether the thread waited for other processes in between. Without the counter of Linux
        nothing is known in this case, and the share is 1.
    """
    passed, process = end.clock - begin.clock, end.process - begin.process
    if begin.waited is None or end.waited is None:
        return 1.0 if waits else min(process / passed, 1.0)
    others = max(process - (end.thread - begin.thread), 0.0)
    kept_waiting = max(end.waited - begin.waited - others, 0.0)
    return max(1.0 - kept_waiting / passed, 0.0)
