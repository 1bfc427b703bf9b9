"""Guard of one process: whatever ends the guard, or its parent, ends the process and its children.

Run as ``python -m goodalloc.experiments.live.guard PARENT COMMAND …``, with the number of the
parent, which may end before the guard can ask for it. The exit code is that of the command; a
command that a signal ended ends the guard by the same signal. It imports nothing but the standard
library, as one runs beside every replica.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

#: Seconds that the process has to end on request, and between two looks at it.
GRACE, GLANCE = 3.0, 0.05

#: Exit code of a command that cannot be started, as of a shell.
NOT_FOUND = 127

#: Number of the request to the kernel of Linux for a signal when the parent dies.
_PARENT_DEATH_SIGNAL = 1


def main(arguments: list[str]) -> int:
    """Run a command to its end; return its exit code."""
    parent, command = int(arguments[0]), arguments[1:]
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    if os.getppid() != parent:
        return NOT_FOUND
    try:
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=_die_with_parent)
    except OSError as error:
        sys.stdout.write(f"{command[0]}: {error.strerror}\n")
        return NOT_FOUND
    while (code := process.poll()) is None:
        gone = os.getppid() != parent
        if asked or gone:
            code = _end(process, 0.0 if gone else GRACE)
            break
        time.sleep(GLANCE)
    _signal(process.pid, signal.SIGKILL)  # children that it left behind
    if code < 0:
        with contextlib.suppress(OSError):  # nobody handles SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _end(process: subprocess.Popen[bytes], grace: float) -> int:
    """Ask the group of a process to end, kill what is left of it, and return its exit code.

    Without a parent there is no time to lose: another job may be given the GPU.
    """
    if grace > 0.0:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(grace)
    _signal(process.pid, signal.SIGKILL)
    return process.wait()


def _signal(group: int, number: int) -> None:
    """Send a signal to a group of processes, if there is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _die_with_parent() -> None:
    """Let the kernel of Linux kill this process when its parent dies; others have no such call."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
