"""Progress of a command: a bar on a terminal, lines at intervals in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two lines, and before the first.
INTERVAL = 30.0

#: Share of the steps from which the remaining time is told: the first ones compile programs, too.
FORESEEABLE = 0.05


def progress_bar(name: str, total: int, *, quiet: bool, expected: str = "") -> Any:
    """Return a context whose `update(steps)` shows the progress of a command on standard error.

    Parameters
    ----------
    name
        Name of the command.
    total
        Total number of steps.
    quiet
        Whether nothing is shown.
    expected
        Expected duration in words; empty where it is not known.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import progress_bar
    >>> with progress_bar("replay", total=2, quiet=True) as bar:
    ...     for _ in range(2):
    ...         _ = bar.update(1)
    """
    if not quiet and not sys.stderr.isatty():
        if expected:
            sys.stderr.write(f"{name}: {expected} in all\n")
        return ProgressLines(name, total, sys.stderr)
    from tqdm import tqdm

    label = f"{name} ({expected})" if expected else None
    return tqdm(desc=label, total=total, disable=quiet, file=sys.stderr, leave=False)


def percents(bar: Any) -> Callable[[float], None]:
    """Return a callback that moves a bar of 100 to the share that is done.

    Parameters
    ----------
    bar
        The bar.
    """
    done = 0

    def report(share: float) -> None:
        nonlocal done
        bar.update(round(100 * share) - done)
        done = round(100 * share)

    return report


@dataclass
class ProgressLines:
    """Progress as lines, for batch jobs and logs; short runs write none.

    Parameters
    ----------
    name
        Beginning of each line.
    total
        Total number of steps.
    stream
        Stream of the lines.
    clock
        Clock in seconds, of any origin.
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
        """Count `steps` more; the remaining time assumes the mean speed so far.

        It is told from `FORESEEABLE` of the steps on.
        """
        self._done += steps
        now = self.clock()
        if now - self._last < INTERVAL or self._done <= 0:
            return
        self._last, passed = now, now - self._begin
        share = self._done / self.total
        line = f"{self.name}: {100.0 * share:.0f} % after {passed:.0f} s"
        if share >= FORESEEABLE:
            line += f", about {passed * max(1.0 / share - 1.0, 0.0):.0f} s left"
        self.stream.write(f"{line}\n")
        self.stream.flush()

    def __enter__(self) -> ProgressLines:
        return self

    def __exit__(self, *_: object) -> None:
        """Write nothing, as the output of the command shows its end."""
