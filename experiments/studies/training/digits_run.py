"""Trainings on digits as tasks, each of which writes its history or nothing."""

from __future__ import annotations

import contextlib
import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.agent.fit_process import fit_table
from goodalloc.experiments.studies.training.digits_training import Moment, train
from goodalloc.experiments.support.folder_lock import measuring_alone
from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.records import DESCRIPTION, check_description
from goodalloc.experiments.support.version import library_version
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.studies.training.digits_training import DigitsJob
    from goodalloc.experiments.support.tasks import Report

HISTORY, PROFILE = "history.csv", "profile.json"

#: Types of the columns of a history.
KINDS: tuple[Callable[[str], Any], ...] = (int, int, float, float, float, int, float, float, float)

#: Seconds for which passes of each batch size are timed.
PROFILE_SECONDS = 0.3


class Profile(NamedTuple):
    """Throughput of a job, measured before it begins.

    Attributes
    ----------
    throughput
        Fitted parameters.
    seconds
        Time of the measurement.
    """

    throughput: ThroughputParameters
    seconds: float


def measure_profile(job: DigitsJob, sizes: Sequence[int]) -> Profile:
    """Time the passes of a job at some batch sizes, and fit its throughput.

    Parameters
    ----------
    job
        Job; its rules have no effect.
    sizes
        Batch sizes M.
    """
    begin = time.perf_counter()
    table = []
    for size in sizes:
        with TemporaryDirectory() as folder:
            fixed = job._replace(batch_rule="fixed", total=size, target=0.0)
            table += train(fixed, Path(folder), most_seconds=PROFILE_SECONDS).times
    return Profile(fit_table(table), time.perf_counter() - begin)


@dataclass(frozen=True)
class DigitsRun:
    """Task of one training.

    Parameters
    ----------
    folder
        Folder of its history.
    job
        The trained job.
    profiled
        Batch sizes that are timed beforehand, so that the agent knows the throughput.
    timed
        Whether its seconds are evaluated; then no other measurement runs at the same time.
    """

    folder: Path
    job: DigitsJob
    profiled: tuple[int, ...] = ()
    timed: bool = False

    def description(self) -> dict[str, Any]:
        """Return all inputs that the history depends on, with the machine if it is timed."""
        return {
            "format": "goodalloc-digits-run",
            "version": 1,
            "library": library_version(),
            **self.job._asdict(),
            "profiled": list(self.profiled),
            **(machine() if self.timed else {"torch": machine()["torch"]}),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Train, unless the history exists.

        Raises
        ------
        ValueError
            If `folder` holds another training, or `timed` and another measurement is running.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / HISTORY).exists():
            return
        alone = measuring_alone(self.folder.parent, "Trainings")
        with alone if self.timed else contextlib.nullcontext(), TemporaryDirectory() as scratch:
            throughput = None
            if self.profiled:
                throughput, seconds = measure_profile(self.job, self.profiled)
                known = {**throughput._asdict(), "seconds": seconds}
                write_atomically(self.folder / PROFILE, dump(known) + "\n")
            found = train(self.job, Path(scratch), throughput, report).history
        text = csv_text([moment._asdict() for moment in found], Moment._fields)
        write_atomically(self.folder / HISTORY, text)

    def history(self) -> list[Moment]:
        """Return the history of a task that has run.

        Raises
        ------
        ValueError
            If the file is missing or damaged.
        """
        path = self.folder / HISTORY
        try:
            rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
            if not rows[1:] or tuple(rows[0]) != Moment._fields:
                raise ValueError("other columns")
            return [
                Moment(*(kind(text) for kind, text in zip(KINDS, row, strict=True)))
                for row in rows[1:]
            ]
        except (OSError, LookupError, ValueError) as error:
            raise ValueError(
                f"File '{path}' cannot be read as the history of a training; expected the one that "
                "was written, or an empty folder."
            ) from error

    def profile(self) -> Profile | None:
        """Return the measured throughput; None if `profiled` is empty."""
        if not self.profiled:
            return None
        found = json.loads((self.folder / PROFILE).read_text(encoding="utf-8"))
        seconds = found.pop("seconds")
        return Profile(ThroughputParameters(**found), seconds)
