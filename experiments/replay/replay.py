"""Replays a workload into a folder: progress, records, and checkpoints that survive a kill.

The folder holds (schema in data/FORMAT.md)

- ``rounds.csv``: one row a round: who ran, on how many GPUs, how good the decision was;
- ``samples.csv``: one row an active job and round;
- ``jobs.csv``: one row a job, when all are complete;
- ``timing.csv``: wall times, the only file that differs between equal replays;
- ``checkpoint.json``: the state, replaced every so many rounds and removed at the end.

A killed replay goes on from its checkpoint: what was written after it is cut off and written again.
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
from goodalloc.data.documents.json_file import check_keys, write_atomically
from goodalloc.experiments.checkpoints.checkpoint import (
    OtherVersion,
    read_checkpoint,
    write_checkpoint,
)
from goodalloc.experiments.checkpoints.policy_memory import Memory
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

ROUND_COLUMNS = (
    "time",
    "active_jobs",
    "running_jobs",
    "nodes",
    "allocated_gpus",
    "restarts",
    "efficiency",
    "training_gpus",
    "throughput",
    "goodput",
    "fitness",
    "bound",
    "gap",
    "bound_source",
    "evidence",
    "starved",
    "served_fitness",
    "best_starved",
    "best_served_fitness",
)
SAMPLE_COLUMNS = (
    "time",
    "job",
    "application",
    "epoch",
    "progress",
    "gpus",
    "nodes",
    "batch_size",
    "efficiency",
    "restarts",
    "mode",
)
JOB_COLUMNS = (
    "job",
    "application",
    "submission",
    "start",
    "completion",
    "jct",
    "restarts",
    "attained_service",
)
TIMING_COLUMNS = ("time", "decision_seconds", "round_seconds")

#: The last columns of a round that nobody judged.
UNJUDGED = ("",) * 9

#: Files that grow row by row.
GROWING = {"rounds.csv": ROUND_COLUMNS, "samples.csv": SAMPLE_COLUMNS, "timing.csv": TIMING_COLUMNS}

#: Seconds between checkpoints, however few rounds that is.
LONGEST_UNSAVED = 20.0

CHECKPOINT = "checkpoint.json"

#: What earlier versions wrote; it is not read, as reading one may run anything.
OLD_CHECKPOINT = "checkpoint.pickle"


@dataclass
class Replay:
    """A simulator with the folder that its records go to.

    Parameters
    ----------
    simulator
        The replay; on resuming it takes over the state of the checkpoint.
    folder
        Where everything is written.
    description
        What is replayed: a folder that holds another replay is refused.
    judge
        Values every decision by Pollux's objective; None leaves these columns empty.
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
        write_atomically(self.folder / "jobs.csv", _csv(JOB_COLUMNS, self._job_rows()))
        (self.folder / CHECKPOINT).unlink(missing_ok=True)

    def _remembered(self) -> Document:
        """What the policy remembers; refuses at once one that no checkpoint could keep."""
        try:
            return self._memory.pack()
        except ValueError as error:
            raise ValueError(
                f"Policy of type {type(self.simulator.policy).__name__} cannot be kept in a "
                f"checkpoint (field {error}); expected names, numbers, arrays, containers of these "
                "and objects of its own module."
            ) from error

    def _record(self, record: RoundRecord, seconds: float) -> None:
        jobs = self.simulator.active
        running = [job for job in jobs if job.placement]
        verdict = self.judge(record.round_, record.decision) if self.judge else UNJUDGED
        gpus = sum(job.replicas for job in running if not job.host)
        seconds_each = self.simulator.setting.interval
        trained, useful, examples, efficient = total(job.interval for job in self.simulator.jobs)
        self._write(
            "rounds.csv",
            [
                (
                    record.round_.time,
                    len(jobs),
                    len(running),
                    record.round_.cluster.num_nodes,
                    gpus,
                    record.restarts,
                    efficient / trained if trained else "",
                    trained / seconds_each,
                    examples / seconds_each,
                    useful / seconds_each,
                    *verdict,
                )
            ],
        )
        now = record.round_.time
        self._write(
            "samples.csv",
            [
                (
                    now,
                    job.submission.name,
                    job.submission.application,
                    job.epoch,
                    job.progress,
                    job.replicas,
                    len(job.spread),
                    job.batch_size,
                    job.efficiency,
                    job.restarts or 0,
                    job.mode,
                )
                for job in jobs
            ],
        )
        self._write("timing.csv", [(now, record.seconds, seconds)])

    def _job_rows(self) -> Iterable[tuple[object, ...]]:
        for job in self.simulator.jobs:
            assert job.completion is not None, "all are complete at the end"
            completion, submitted = job.completion, job.submission
            yield (
                submitted.name,
                submitted.application,
                submitted.time,
                job.first_start,
                completion,
                completion - submitted.time,
                job.restarts or 0,
                job.attained_service,
            )

    def _write(self, name: str, rows: Iterable[tuple[object, ...]]) -> None:
        csv.writer(self._buffers[name], lineterminator="\n").writerows(map(_cells, rows))

    def _flush(self) -> None:
        for name, buffer in self._buffers.items():
            append_lines(self.folder / name, buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()

    def _checkpoint(self) -> None:
        """Write the rows, then the state together with how long the files are."""
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
        self._buffers = {name: io.StringIO() for name in GROWING}
        path = self.folder / CHECKPOINT
        if (self.folder / OLD_CHECKPOINT).exists():
            raise ValueError(
                f"Folder '{self.folder}' holds '{OLD_CHECKPOINT}', which an earlier version of "
                "goodalloc wrote and this one does not read; remove the folder or take another."
            )
        if not path.exists():
            for name, columns in GROWING.items():
                write_atomically(self.folder / name, _csv(columns, ()))
            return
        try:
            sizes = self._unpack(read_checkpoint(path))
        except OtherVersion:
            raise ValueError(begun_otherwise(self.folder)) from None
        except Exception as error:  # of Python's own types, by what makes no sense
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
        """Go on from a state; gives the sizes of the files then."""
        check_keys("Checkpoint", state, ("sizes", "simulator", "policy"))
        sizes = check_keys("Checkpoint: sizes", state["sizes"], GROWING)
        for name, size in sizes.items():
            require_count(f"Checkpoint: size of {name}", size, 0, sys.maxsize)
        self.simulator.unpack(state["simulator"])
        self._memory.unpack(state["policy"])
        return sizes


def _cells(row: tuple[object, ...]) -> list[object]:
    """Numbers to ten digits: enough, and equal wherever the last bits differ."""
    return [f"{cell:.10g}" if isinstance(cell, float) else cell for cell in row]


def _csv(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([columns, *map(_cells, rows)])
    return buffer.getvalue()
