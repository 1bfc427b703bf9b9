"""Which process it is: its number, when it started, and in which run of which system.

Numbers are given again, and so are start times, which Linux counts from the start of the machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import subprocess
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where Linux tells of processes; others have `ps`.
PROC = Path("/proc")

_TEXT = re.compile(r"([0-9]{1,19}):([^@]+)@(.+)")


class ProcessIdentity(NamedTuple):
    """A process, whoever's it is.

    Attributes
    ----------
    number
        That the system gave it.
    start
        When it started, in the system's words; empty if it has ended.
    system
        The run of the system in which it has that number (`this_system`).
    """

    number: int
    start: str
    system: str

    @classmethod
    def of(cls, number: int) -> ProcessIdentity:
        """The process that has this number here and now."""
        return cls(number, _start(number), this_system())

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """The reverse of `str`.

        Raises
        ------
        ValueError
            If it is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"Process is '{text}'; expected NUMBER:START@SYSTEM.")
        return cls(int(found[1]), found[2], found[3])

    def __str__(self) -> str:
        return f"{self.number}:{self.start}@{self.system}"

    @property
    def alive(self) -> bool:
        """Whether it still runs, here."""
        here = bool(self.start) and self.system == this_system()
        return here and _start(self.number) == self.start

    def started_with(self, variables: Mapping[str, str]) -> bool:
        """Whether it runs and was started with these variables of its environment.

        False where the system does not say.
        """
        text, mark = _environment(self.number)
        words = (f"{mark}{name}={value}{mark}" for name, value in variables.items())
        return all(word in text for word in words) and self.alive

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


@lru_cache(maxsize=1)
def this_system() -> str:
    """What tells this run of this system from others in which processes have the same numbers.

    Linux gives every boot an identity of its own, and containers numbers of their own.
    """
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = os.readlink(PROC / "self/ns/pid")
        return f"{boot}/{space}"
    return _said("sysctl", "-n", "kern.bootsessionuuid") or platform.node() or "here"


def _start(number: int) -> str:
    """When the process of a number started; empty if there is none or only its exit code is left.

    Linux tells it in clock ticks since the machine started, others by `ps`, to the second.
    """
    if (PROC / "self/stat").exists():
        try:
            line = (PROC / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        state, *others = line.rpartition(")")[2].split()
        return "" if state in "ZX" else others[18]
    state, _, start = _said("ps", "-o", "state=,lstart=", "-p", str(number)).partition(" ")
    return "" if state[:1] in ("", "Z") else start.strip()


def _environment(number: int) -> tuple[str, str]:
    """The variables that a process was started with, empty if unknown, and what is around each.

    By `ps` that is a blank, and the arguments stand there too: no proof against whoever can choose
    the arguments of a process, who can end it anyway.
    """
    if (PROC / "self/stat").exists():
        try:
            return os.fsdecode(b"\0" + (PROC / str(number) / "environ").read_bytes()), "\0"
        except OSError:
            return "", "\0"
    return f" {_said('ps', 'eww', '-o', 'command=', '-p', str(number))} ", " "


def _said(*command: str) -> str:
    """What a program prints; nothing if there is no such program, or it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
