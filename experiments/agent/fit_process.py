"""Refits of the throughput model beside training: a child process that fits on demand.

It reads a line of JSON (rows of N, K, m and seconds of a pass without and with synchronisation) and
answers with a line of the seven parameters. Training does not wait for it, and neither compiles
anything nor loads JAX: the child does, on the processor and with a lower priority. A fit that
takes longer than its patience is given up, the child with it. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from goodalloc.experiments.support.compiled import compilation_cache
from goodalloc.experiments.support.process_messages import end_with_parent
from goodalloc.experiments.support.processes import fresh_interpreter
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "goodalloc.experiments.agent.fit_process"

PATIENCE = 60.0
"""Seconds that a fit may take, the first of which compiles."""

NICENESS = 5
"""Of the child: on a crowded machine the lowest priority would keep a fit waiting for minutes."""


class FitProcess:
    """A child that fits, started when it is first needed.

    Parameters
    ----------
    patience
        Seconds after which a fit is given up.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._child: subprocess.Popen[bytes] | None = None
        self._asked: float | None = None
        self._heard = b""

    @property
    def busy(self) -> bool:
        """Whether a fit is under way."""
        return self._asked is not None

    def submit(self, table: Sequence[Sequence[float]]) -> None:
        """Ask for a fit, unless one is under way or there is nothing to fit."""
        if self.busy or not table:
            return
        if self._child is None:
            variables = {"JAX_PLATFORMS": "cpu"} | compilation_cache()
            self._child = fresh_interpreter(PROGRAM, variables, stderr=subprocess.DEVNULL)
            assert self._child.stdout is not None
            os.set_blocking(self._child.stdout.fileno(), False)
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(table).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            self.close()
            return
        self._asked = time.monotonic()

    def collect(self) -> ThroughputParameters | None:
        """The fit that was asked for; None if it is not there, now or ever."""
        if self._child is None or self._asked is None:
            return None
        assert self._child.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._heard += os.read(self._child.stdout.fileno(), 65536)
        line, end, rest = self._heard.partition(b"\n")
        if end:
            self._heard, self._asked = rest, None
            return ThroughputParameters(*json.loads(line))
        if time.monotonic() - self._asked > self._patience or self._child.poll() is not None:
            self.close()
        return None

    def close(self) -> None:
        """End the child; another one is started when a fit is asked for again."""
        child, self._child = self._child, None
        self._asked, self._heard = None, b""
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()


def fit_table(table: Sequence[Sequence[float]]) -> ThroughputParameters:
    """Fit the parameters of one job, as schedulers refit online.

    Parameters
    ----------
    table
        Rows of N, K, m, and seconds of a pass without and with synchronisation.
    """
    from goodalloc.models.fitting.fit import ONLINE, fit_throughput
    from goodalloc.models.fitting.problem import pad_observations

    fitted = fit_throughput(pad_observations([table]), ONLINE).parameters
    return ThroughputParameters(*(float(column[0]) for column in fitted))


def main() -> int:
    """Answer every line until there are no more."""
    end_with_parent()
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(fit_table(json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
