"""Which process it is: its number, and when it started, since numbers are given again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """A process, whoever's it is.

    Attributes
    ----------
    number
        That the system gave it.
    start
        When it started, in the system's words; empty if it has ended.
    """

    number: int
    start: str

    @classmethod
    def of(cls, number: int) -> ProcessIdentity:
        """The process that has this number now."""
        return cls(number, _start(number))

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """The reverse of `str`.

        Raises
        ------
        ValueError
            If it is none.
        """
        number, colon, start = text.partition(":")
        if not (colon and start and number.isascii() and number.isdecimal() and len(number) < 20):
            raise ValueError(f"Process is '{text}'; expected NUMBER:START.")
        return cls(int(number), start)

    def __str__(self) -> str:
        return f"{self.number}:{self.start}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return bool(self.start) and _start(self.number) == self.start

    def kill(self) -> None:
        """End it at once with all of its group, if it is still there and leads one."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(self.number) == self.number:
                    os.killpg(self.number, signal.SIGKILL)
                else:
                    os.kill(self.number, signal.SIGKILL)


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone, even by kill -9; for a thread."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _start(number: int) -> str:
    """When the process of a number started; empty if there is none or only its exit code is left.

    Linux tells it in clock ticks since the machine started, others by `ps`, to the second.
    """
    if Path("/proc/self/stat").exists():
        try:
            line = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        state, *others = line.rpartition(")")[2].split()
        return "" if state in "ZX" else others[18]
    asked = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(number)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    state, _, start = asked.stdout.strip().partition(" ")
    return "" if state[:1] in ("", "Z") else start.strip()
