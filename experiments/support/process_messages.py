"""Messages of a process that `processes.py` started, one line of JSON each.

The process ends at once when its parent does: on Linux by a signal, and everywhere by a thread that
reads standard input to its end. No other module of this package is imported, because the start of
these processes is measured.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from functools import lru_cache
from typing import Any

#: Exit code of a process that ends because its parent has.
LEFT_ALONE = 3

#: Option of `prctl` on Linux: the signal that a process gets when its parent ends.
PR_SET_PDEATHSIG = 1


def say(**answer: Any) -> None:
    """Send an answer to the parent."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    """Return the next order; from the first call on this process ends with its parent."""
    found: dict[str, Any] = json.loads(_listener().get())
    return found


@lru_cache(maxsize=1)
def _listener() -> queue.SimpleQueue[bytes]:
    """Return a queue of the lines of standard input."""
    end_with_parent()
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    return heard


def _listen(heard: queue.SimpleQueue[bytes]) -> None:
    """Put the lines of standard input into a queue; end the process at the end of the input."""
    rest = b""
    while chunk := os.read(0, 65536):  # a thread that reads `sys.stdin` would prevent a clean exit
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            heard.put(line)
    os._exit(LEFT_ALONE)


def end_with_parent() -> None:
    """Have the system kill this process when its parent ends, on Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
