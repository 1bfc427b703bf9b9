"""What a process started by `processes.py` says and hears: a line of JSON each.

It ends at once when the process that started it does, whatever it is at: Linux sees to that, and
everywhere a thread to which standard input then ends. Nothing else of this package is imported:
what it costs the processes to start is measured.
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

#: Exit code of a process that ends because another one is gone.
LEFT_ALONE = 3

#: Of Linux: the signal that a process gets when the one that started it ends.
PR_SET_PDEATHSIG = 1


def say(**answer: Any) -> None:
    """Answer the process that started this one."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    """What to do next; from the first call on this process ends with the one that started it."""
    found: dict[str, Any] = json.loads(_listener().get())
    return found


@lru_cache(maxsize=1)
def _listener() -> queue.SimpleQueue[bytes]:
    """The lines of standard input, as they come."""
    end_with_parent()
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    return heard


def _listen(heard: queue.SimpleQueue[bytes]) -> None:
    rest = b""
    while chunk := os.read(0, 65536):  # a thread in `sys.stdin` would be in the way of a clean end
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            heard.put(line)
    os._exit(LEFT_ALONE)


def end_with_parent() -> None:
    """Have the system kill this process when the one that started it ends, where it can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
