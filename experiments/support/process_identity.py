"""Identity of a process: its number, its start time, and the run of the system.

Numbers are reused, and so are start times, which Linux counts from the start of the machine.
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

#: Folder of information on processes on Linux; other systems have `ps`.
PROC = Path("/proc")

_TEXT = re.compile(r"([0-9]{1,19}):([^@]+)@(.+)")


class ProcessIdentity(NamedTuple):
    """Identity of a process of any user.

    Attributes
    ----------
    number
        Its process identifier.
    start
        Its start time as the system reports it; empty if it has ended.
    system
        Run of the system in which it has that number (`this_system`).
    """

    number: int
    start: str
    system: str

    @classmethod
    def of(cls, number: int) -> ProcessIdentity:
        """Return the identity of the process that has this number now."""
        return cls(number, _start(number), this_system())

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """Return the identity that `str` wrote.

        Raises
        ------
        ValueError
            If `text` does not have the form NUMBER:START@SYSTEM.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"Process is '{text}'; expected NUMBER:START@SYSTEM.")
        return cls(int(found[1]), found[2], found[3])

    def __str__(self) -> str:
        return f"{self.number}:{self.start}@{self.system}"

    @property
    def alive(self) -> bool:
        """Whether it still runs on this system."""
        here = bool(self.start) and self.system == this_system()
        return here and _start(self.number) == self.start

    def started_with(self, variables: Mapping[str, str]) -> bool:
        """Return whether it runs and was started with these environment variables.

        False where the system does not report them.
        """
        text, mark = _environment(self.number)
        words = (f"{mark}{name}={value}{mark}" for name, value in variables.items())
        return all(word in text for word in words) and self.alive

    def kill(self) -> None:
        """Kill it if it runs, with its group if it leads one."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(self.number) == self.number:
                    os.killpg(self.number, signal.SIGKILL)
                else:
                    os.kill(self.number, signal.SIGKILL)


def end_with(parent: int) -> None:
    """End this process when its parent is gone, even by kill -9; to be run in a thread."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


@lru_cache(maxsize=1)
def this_system() -> str:
    """Return a name of this run of the system, in which numbers of processes are unique.

    Linux has an identifier of every boot, and a name space of numbers in every container.
    """
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = os.readlink(PROC / "self/ns/pid")
        return f"{boot}/{space}"
    return _said("sysctl", "-n", "kern.bootsessionuuid") or platform.node() or "here"


def _start(number: int) -> str:
    """Return the start time of a process; empty if there is none or it is a zombie.

    On Linux it is in clock ticks since the start of the machine, elsewhere by `ps`, in seconds.
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
    """Return the environment of a process, empty if unknown, and the separator of its variables.

    With `ps` the separator is a blank, and the output has the arguments as well, so that a user who
    chooses the arguments of a process can imitate variables; such a user can also end it.
    """
    if (PROC / "self/stat").exists():
        try:
            return os.fsdecode(b"\0" + (PROC / str(number) / "environ").read_bytes()), "\0"
        except OSError:
            return "", "\0"
    return f" {_said('ps', 'eww', '-o', 'command=', '-p', str(number))} ", " "


def _said(*command: str) -> str:
    """Return the output of a command; empty if it does not exist or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
