"""Command `launch`: train a job on the slots that its scheduler allocates."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.experiments.cli.output import FAILED, Output, make_folder
from goodalloc.experiments.live.launcher import Launcher, LaunchFailed
from goodalloc.experiments.support.stop_request import stop_request

if TYPE_CHECKING:
    import argparse


def launch_command(arguments: argparse.Namespace) -> Output:
    """Train a job to its end on the slots that its scheduler allocates."""
    program = tuple(arguments.program)
    if shutil.which(program[0]) is None:
        raise ValueError(f"Command '{program[0]}' is not there; expected a program.")
    with stop_request() as stopped:
        launcher = Launcher(
            cluster=Path(arguments.cluster),
            name=arguments.name,
            command=program,
            replicas=arguments.replicas,
            retries=arguments.retries,
            stopped=stopped,
            say=log_line,
        )
        make_folder(arguments.cluster)
        try:
            launched = launcher.run()
        except LaunchFailed as failure:
            return Output(str(failure), {"job": arguments.name, "error": str(failure)}, FAILED)
    text = (
        f"{launched.job} is done after {launched.seconds:.0f} s, starts: {launched.starts}, "
        f"failures: {launched.failures}"
    )
    return Output(text, {**launched._asdict(), "error": ""})


def log_line(text: str) -> None:
    """Write `text` with the time to the standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
