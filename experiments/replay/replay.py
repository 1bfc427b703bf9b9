"""Replay of a workload into a folder: records, and checkpoints from which it can be resumed.

The folder holds (schema in data/FORMAT.md)

- ``rounds.csv``: a row per round: running jobs, allocated GPUs, quality of the decision;
- ``samples.csv``: a row per active job and round;
- ``jobs.csv``: a row per job, written when all are complete;
- ``timing.csv``: wall times, the only file that differs between equal replays;
- ``checkpoint.json``: the state, replaced at regular intervals and removed at the end.

A killed replay continues from its checkpoint: rows written after it are cut off and written again.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import check_keys
from goodalloc.experiments.checkpoints.checkpoint import (
    OtherVersion,
    read_checkpoint,
    write_checkpoint,
)
from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.experiments.replay.round_record import (
    GROWING,
    JobRow,
    RoundRow,
    SampleRow,
    TimingRow,
)
from goodalloc.experiments.replay.simulated_job import total
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.support.records import DESCRIPTION, begun_otherwise, check_description
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from goodalloc.data.documents.json_file import Document
    from goodalloc.experiments.replay.judge import Judge
    from goodalloc.experiments.replay.round_record import RoundRecord
    from goodalloc.experiments.replay.simulator import Simulator

#: Most seconds between checkpoints.
LONGEST_UNSAVED = 20.0

CHECKPOINT = "checkpoint.json"

#: Checkpoint of earlier versions, which is not read, as reading a pickle may run any code.
OLD_CHECKPOINT = "checkpoint.pickle"


@dataclass
class Replay:
    """Simulator together with the folder of its records.

    Parameters
    ----------
    simulator
        The replay; a resumed one takes over the state of the checkpoint.
    folder
        Folder of all files.
    description
        Description of the replay; a folder that holds another one is refused.
    judge
        Judge of every decision by Pollux's objective; None leaves its columns empty.
    every
        Rounds between checkpoints.
    """

    simulator: Simulator
    folder: Path
    description: Mapping[str, Any]
    judge: Judge | None = None
    every: int = 100
    _buffers: dict[str, io.StringIO] = field(default_factory=dict, init=False, repr=False)
    _memory: Memory = field(init=False, repr=False)

    def run(self, report: Callable[[Simulator], None] = lambda _: None) -> None:
        """Replay to the end, from the last checkpoint if there is one.

        Raises
        ------
        ValueError
            If the folder holds another replay, another process writes to it, or it cannot be used.
        """
        with locked(self.folder):
            self._run(report)

    def _run(self, report: Callable[[Simulator], None]) -> None:
        """Replay to the end, with the lock of the folder."""
        check_description(self.folder / DESCRIPTION, self.description)
        if (self.folder / "jobs.csv").exists():
            return
        self._memory = Memory(self.simulator.policy)
        self._resume()
        rounds, saved, checked = 0, time.monotonic(), False
        while not self.simulator.finished:
            begin = time.perf_counter()
            record = self.simulator.step()
            if record is not None:
                if not checked:
                    self._remembered()
                    checked = True
                self._record(record, time.perf_counter() - begin)
            rounds += 1
            if rounds % self.every == 0 or time.monotonic() - saved > LONGEST_UNSAVED:
                self._checkpoint()
                saved = time.monotonic()
            report(self.simulator)
        self._flush()
        write_atomically(self.folder / "jobs.csv", _csv(JobRow._fields, self._job_rows()))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def _remembered(self) -> Document:
        """Return the packed memory of the policy; refuse one that no checkpoint can store."""
        try:
            return self._memory.pack()
        except ValueError as error:
            raise ValueError(
                f"Policy of type {type(self.simulator.policy).__name__} cannot be kept in a "
                f"checkpoint (field {error}); expected names, numbers, arrays, containers of these "
                "and objects of its own module."
            ) from error

    def _record(self, record: RoundRecord, seconds: float) -> None:
        """Add the rows of a round."""
        simulator, now = self.simulator, record.round_.time
        jobs = simulator.active
        running = [job for job in jobs if job.placement]
        verdict = self.judge(record.round_, record.decision)._asdict() if self.judge else {}
        interval = simulator.setting.interval
        done = total(job.interval for job in simulator.jobs)
        trained = done.gpu_seconds
        row = RoundRow(
            time=now,
            active_jobs=len(jobs),
            running_jobs=len(running),
            nodes=record.round_.cluster.num_nodes,
            allocated_gpus=sum(job.replicas for job in running if not job.host),
            restarts=record.restarts,
            efficiency=done.efficient_gpu_seconds / trained if trained else None,
            training_gpus=trained / interval,
            throughput=done.examples / interval,
            goodput=done.useful_examples / interval,
            **verdict,
        )
        samples = [
            SampleRow(
                time=now,
                job=job.submission.name,
                application=job.submission.application,
                epoch=job.epoch,
                progress=job.progress,
                gpus=job.replicas,
                nodes=len(job.spread),
                batch_size=job.batch_size,
                efficiency=job.efficiency,
                restarts=job.restarts or 0,
                mode=job.mode,
            )
            for job in jobs
        ]
        self._write("rounds.csv", [row])
        self._write("samples.csv", samples)
        self._write("timing.csv", [TimingRow(now, record.seconds, seconds)])

    def _job_rows(self) -> Iterable[JobRow]:
        """Return a row for each complete job, which at the end are all."""
        for job in self.simulator.jobs:
            if job.completion is not None:
                submitted = job.submission
                yield JobRow(
                    job=submitted.name,
                    application=submitted.application,
                    submission=submitted.time,
                    start=job.first_start,
                    completion=job.completion,
                    jct=job.completion - submitted.time,
                    restarts=job.restarts or 0,
                    attained_service=job.attained_service,
                )

    def _write(self, name: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Add rows to the buffer of a file."""
        csv.writer(self._buffers[name], lineterminator="\n").writerows(map(_cells, rows))

    def _flush(self) -> None:
        """Append the buffers to their files."""
        for name, buffer in self._buffers.items():
            append_lines(self.folder / name, buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()

    def _checkpoint(self) -> None:
        """Write the rows, then the state and the sizes of the files."""
        self._flush()
        write_checkpoint(
            self.folder / CHECKPOINT,
            {
                "sizes": {name: (self.folder / name).stat().st_size for name in GROWING},
                "simulator": self.simulator.pack(),
                "policy": self._remembered(),
            },
        )

    def _resume(self) -> None:
        """Restore the last checkpoint, or begin the files if there is none."""
        self._buffers = {name: io.StringIO() for name in GROWING}
        path = self.folder / CHECKPOINT
        if (self.folder / OLD_CHECKPOINT).exists():
            raise ValueError(
                f"Folder '{self.folder}' holds '{OLD_CHECKPOINT}', which an earlier version of "
                "goodalloc wrote and this one does not read; remove the folder or take another."
            )
        if not path.exists():
            for name, kind in GROWING.items():
                write_atomically(self.folder / name, _csv(kind._fields, ()))
            return
        try:
            sizes = self._unpack(read_checkpoint(path))
        except OtherVersion:
            raise ValueError(begun_otherwise(self.folder)) from None
        except Exception as error:  # a damaged file may raise any of Python's own types
            said = str(error) if isinstance(error, ValueError) else type(error).__name__
            reason = said.removeprefix(f"File '{path}' ").rstrip(".")
            raise ValueError(
                f"File '{path}' cannot be read as a checkpoint ({reason}); "
                "expected the file as it was written; remove the folder or take another."
            ) from error
        for name, size in sizes.items():
            if not (self.folder / name).is_file() or (self.folder / name).stat().st_size < size:
                raise ValueError(
                    f"File '{self.folder / name}' is shorter than its checkpoint says, or gone; "
                    "expected the file as it was written; remove the folder or take another."
                )
            os.truncate(self.folder / name, size)

    def _unpack(self, state: Document) -> dict[str, int]:
        """Restore `state`; return the sizes that the files had then."""
        check_keys("Checkpoint", state, ("sizes", "simulator", "policy"))
        sizes = check_keys("Checkpoint: sizes", state["sizes"], GROWING)
        for name, size in sizes.items():
            require_count(f"Checkpoint: size of {name}", size, 0, sys.maxsize)
        self.simulator.unpack(state["simulator"])
        self._memory.unpack(state["policy"])
        return sizes


def _cells(row: tuple[object, ...]) -> list[object]:
    """Return the cells of `row`, numbers to ten digits, so that the last bits do not matter."""
    return [f"{cell:.10g}" if isinstance(cell, float) else cell for cell in row]


def _csv(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Return a table as text."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([columns, *map(_cells, rows)])
    return buffer.getvalue()
