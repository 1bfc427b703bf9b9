"""Refits of the throughput model beside training, in a child process.

The child reads a line of JSON (rows of N, K, m and seconds of a pass without and with
synchronisation) and answers with a line of the seven parameters. Training neither waits for it nor
compiles anything nor loads JAX: the child does, on the processor and with a lower priority. A child
whose fit exceeds its time limit is killed. The child ends at the end of its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.support.compiled import compilation_cache
from goodalloc.experiments.support.process_messages import end_with_parent
from goodalloc.experiments.support.processes import fresh_interpreter
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.experiments.support.processes import PipedProcess

#: Module that the child runs.
PROGRAM = "goodalloc.experiments.agent.fit_process"

#: Time limit of a fit in seconds, which includes compilation in the first.
PATIENCE = 60.0

#: Niceness of the child: on a busy machine the lowest priority would delay a fit by minutes.
NICENESS = 5


class FitProcess:
    """Child process that fits, started when it is first needed.

    Parameters
    ----------
    patience
        Time limit of a fit in seconds.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._child: PipedProcess[bytes] | None = None
        self._asked: float | None = None
        self._heard = b""

    def __del__(self) -> None:
        """End the child of an agent that nobody closed."""
        if getattr(self, "_child", None) is not None:
            self.close()

    @property
    def busy(self) -> bool:
        """Whether a fit is in progress."""
        return self._asked is not None

    def submit(self, table: Sequence[Sequence[float]]) -> None:
        """Request a fit of `table`, unless one is in progress or `table` is empty."""
        if self.busy or not table:
            return
        if self._child is None:
            variables = {"JAX_PLATFORMS": "cpu"} | compilation_cache()
            self._child = fresh_interpreter(PROGRAM, variables, stderr=subprocess.DEVNULL)
            os.set_blocking(self._child.answers.fileno(), False)
        try:
            self._child.requests.write(json.dumps(table).encode() + b"\n")
            self._child.requests.flush()
        except OSError:
            self.close()
            return
        self._asked = time.monotonic()

    def collect(self) -> ThroughputParameters | None:
        """Return the requested fit; None if it is not finished, failed or was not requested."""
        if self._child is None or self._asked is None:
            return None
        with contextlib.suppress(BlockingIOError):
            self._heard += os.read(self._child.answers.fileno(), 65536)
        line, end, rest = self._heard.partition(b"\n")
        if end:
            self._heard, self._asked = rest, None
            return ThroughputParameters(*json.loads(line))
        if (
            time.monotonic() - self._asked > self._patience
            or self._child.process.poll() is not None
        ):
            self.close()
        return None

    def close(self) -> None:
        """End the child; the next request starts another one."""
        child, self._child = self._child, None
        self._asked, self._heard = None, b""
        if child is not None:
            child.process.kill()
            child.process.wait()
            for stream in (child.requests, child.answers):
                with contextlib.suppress(OSError):
                    stream.close()


def fit_table(table: Sequence[Sequence[float]]) -> ThroughputParameters:
    """Fit the throughput parameters of one job, as schedulers refit online.

    Parameters
    ----------
    table
        Rows of N, K, m, and seconds of a pass without and with synchronisation.
    """
    from goodalloc.models.fitting.fit import ONLINE, fit_throughput
    from goodalloc.models.fitting.problem import pad_observations

    fitted = fit_throughput(pad_observations([table]), ONLINE).parameters
    return ThroughputParameters(*(float(np.asarray(column)[0]) for column in fitted))


def main() -> int:
    """Answer every line of the input."""
    end_with_parent()
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(fit_table(json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
