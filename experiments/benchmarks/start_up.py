"""Benchmark of the start of commands; processor time in fresh processes.

Run as ``python -m goodalloc.experiments.benchmarks.start_up [--repeats 5] [--out FILE]``. A row has
the least processor seconds, user and system, of several runs, including those of Python itself, and
the large libraries that were loaded. A scheduler is run until it waits for jobs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Libraries that take a noticeable time to load.
LARGE = ("cvxpy", "highspy", "jax", "matplotlib", "pandas", "pyomo", "scipy", "torch")

#: Commands, and the most processor seconds that they should take to start.
COMMANDS: Mapping[str, float | None] = {
    "--help": 0.3,
    "reproduce list": 0.7,
    "schedule --policy tiresias": 1.2,
    "schedule --policy pollux": None,
    "solve tiny-cold --solver greedy": None,
}

#: Program that runs a command and prints the large libraries that it loaded; a scheduler is
#: interrupted when it would wait.
PROGRAM = """
import sys, time
from goodalloc.experiments.cli.main import main

def interrupted(seconds):
    raise KeyboardInterrupt

words = sys.argv[1:]
if words[:1] == ["schedule"]:
    time.sleep = interrupted
main(words)
print("loaded", *(name for name in {large} if name in sys.modules))
"""


class Start(NamedTuple):
    """Row of the table: start of a command.

    Attributes
    ----------
    command
        The command.
    seconds
        Least processor seconds of all runs.
    target
        Most seconds that it should take; None for no limit.
    loaded
        Large libraries that were loaded, separated by blanks.
    """

    command: str
    seconds: float
    target: float | None
    loaded: str


def start(command: str) -> Start:
    """Start a command once, in a process of its own.

    Raises
    ------
    RuntimeError
        If the process fails.
    """
    words = command.split()
    with tempfile.TemporaryDirectory() as folder:
        if words[0] == "schedule":
            words += ["--cluster", folder, "--nodes", "1", "--gpus-per-node", "2"]
        before = os.times()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(large=LARGE), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        after = os.times()
    *_, last = done.stdout.splitlines() or [""]
    if done.returncode != 0 or not last.startswith("loaded"):
        raise RuntimeError(f"Command '{command}' did not start: {done.stderr.strip()[-300:]}")
    seconds = sum(after[2:4]) - sum(before[2:4])
    return Start(command, seconds, COMMANDS[command], last.removeprefix("loaded").strip())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_start_up", __doc__)
    parser.add_argument("--repeats", type=whole(1), default=5)
    given = parser.parse_args(argv)
    rows = [
        min((start(command) for _ in range(given.repeats)), key=lambda row: row.seconds)
        for command in COMMANDS
    ]
    write_measurements(Start._fields, rows, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
