"""Whether a thread had a core whenever it wanted one, or another program ran instead.

Linux counts how long a thread that could run waited for a core (``/proc/thread-self/schedstat``,
the second number). That tells a thread that waits for another process, as for the gradients of
another replica, from one that is kept waiting. For as long as other threads of its own process
run, those may be why, so their time is not counted. Where Linux does not say, a process that waits
for nobody should have used as much time of a core as passed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

SCHEDULED = Path("/proc/thread-self/schedstat")


class CoreMark(NamedTuple):
    """Seconds so far: by the clock, of the process, of this thread, and that it waited for a core.

    Attributes
    ----------
    waited
        None where it is not known.
    """

    clock: float
    process: float
    thread: float
    waited: float | None


def mark_core() -> CoreMark:
    """This moment, of this thread."""
    return CoreMark(time.perf_counter(), time.process_time(), time.thread_time(), _waited())


def _waited() -> float | None:
    try:
        ran, waited, _ = map(int, SCHEDULED.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return waited / 1e9 if ran else None


def core_share(begin: CoreMark, end: CoreMark, *, waits: bool) -> float:
    """Share of the time in which no other program had the core that this thread wanted, 0 to 1.

    Parameters
    ----------
    begin, end
        Two moments, one after the other.
    waits
        Whether the thread waited for other processes in between. Where Linux does not tell that
        apart, nothing is known then, and the share is 1.
    """
    passed, process = end.clock - begin.clock, end.process - begin.process
    if begin.waited is None or end.waited is None:
        return 1.0 if waits else min(process / passed, 1.0)
    others = max(process - (end.thread - begin.thread), 0.0)
    kept_waiting = max(end.waited - begin.waited - others, 0.0)
    return max(1.0 - kept_waiting / passed, 0.0)
