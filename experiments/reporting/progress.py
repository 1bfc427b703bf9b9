"""How far a command is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two lines, and before the first.
INTERVAL = 30.0


def progress_bar(name: str, total: int, *, quiet: bool, expected: str = "") -> Any:
    """A context whose `update(steps)` says on standard error how far a command is.

    Parameters
    ----------
    name
        Of the command.
    total
        Steps to the end.
    quiet
        Whether nothing is said.
    expected
        How long it should take, in words; empty where that is not known.
    """
    if not quiet and not sys.stderr.isatty():
        if expected:
            sys.stderr.write(f"{name}: {expected} in all\n")
        return ProgressLines(name, total, sys.stderr)
    from tqdm import tqdm

    label = f"{name} ({expected})" if expected else None
    return tqdm(desc=label, total=total, disable=quiet, file=sys.stderr, leave=False)


@dataclass
class ProgressLines:
    """Progress where nobody watches, in batch jobs and logs; short runs say nothing.

    Parameters
    ----------
    name
        What each line begins with.
    total
        Steps to the end.
    stream
        Where the lines go.
    clock
        Seconds from anywhere.
    """

    name: str
    total: float
    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    _done: float = field(default=0.0, init=False)
    _begin: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._begin = self._last = self.clock()

    def update(self, steps: float = 1.0) -> None:
        """So many steps more are done; the rest is taken to be as fast."""
        self._done += steps
        now = self.clock()
        if now - self._last < INTERVAL or self._done <= 0:
            return
        self._last, passed = now, now - self._begin
        left = passed * max(self.total / self._done - 1.0, 0.0)
        share = 100.0 * self._done / self.total
        line = f"{self.name}: {share:.0f} % after {passed:.0f} s, about {left:.0f} s left\n"
        self.stream.write(line)
        self.stream.flush()

    def __enter__(self) -> ProgressLines:
        return self

    def __exit__(self, *_: object) -> None:
        """The command's own output says that it has ended."""
