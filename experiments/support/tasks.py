"""Independent tasks, each with its folder, run alone or several at a time."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.support.compiled import forget_programs
from goodalloc.experiments.support.module_code import code_digests, used_modules
from goodalloc.experiments.support.stop_request import whole_interrupt
from goodalloc.experiments.support.workers import ALONE, map_unordered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.support.workers import Workers

#: File of the origin of the records in a task's folder.
ORIGIN = "origin.json"

#: Callback that receives a share of the work, from 0 to 1.
Report = Callable[[float], None]


class Task(Protocol):
    """Task that keeps records in a folder, from which it is resumed."""

    @property
    def folder(self) -> Path:
        """Folder of the records."""
        ...

    def run(self, report: Report) -> None:
        """Do the remaining work; `report` receives the share that is done."""
        ...


def run_tasks(
    tasks: Sequence[Task], workers: Workers = ALONE, report: Report = lambda _: None
) -> dict[Path, str]:
    """Run tasks, several at a time in processes of their own or on a cluster.

    Parameters
    ----------
    tasks
        The tasks; work that is done already takes no time.
    workers
        The workers; a single local process is this one. All must see the folders of the tasks,
        whose paths are absolute unless this process runs them.
    report
        Callback that receives the number of tasks done since its last call, fractions included.

    Returns
    -------
    dict
        Error messages of the tasks that failed, by their folders; the others are done.

    Raises
    ------
    ValueError
        If the cluster cannot be reached.
    KeyboardInterrupt
        On Ctrl-C, even within a solver; the tasks can be resumed from their records.
    """
    refused: dict[Path, str] = {}
    with whole_interrupt() as check:
        if workers != ALONE:
            with contextlib.closing(map_unordered(_attempt, tasks, workers)) as finished:
                for folder, complaint in finished:
                    if complaint is not None:
                        refused[folder] = complaint
                    report(1.0)
            return refused
        for task in tasks:
            done = 0.0

            def advanced(share: float) -> None:
                nonlocal done
                check()
                report(share - done)
                done = share

            folder, complaint = _attempt(task, advanced)
            if complaint is not None:
                refused[folder] = complaint
            report(1.0 - done)
    return refused


def _attempt(task: Task, report: Report = lambda _: None) -> tuple[Path, str | None]:
    """Run a task; return its folder, and the error message if it fails."""
    begin = processor_seconds()
    code_digests(used_modules())  # of the files as they are now: they may be edited meanwhile
    try:
        before = origin_of(task.folder)
        try:
            task.run(report)
        finally:
            if task.folder.is_dir():
                _note_origin(task.folder, before, processor_seconds() - begin)
            forget_programs()
    except ValueError as error:
        return task.folder, str(error)
    return task.folder, None


class Origin(NamedTuple):
    """What a task has cost so far, and the code that did its work.

    Attributes
    ----------
    processor_seconds
        Seconds of all its runs, ended ones and interrupted ones.
    modules
        Digests of the code of the modules that were loaded, by name; of a module that changed
        between two runs that of the first.
    """

    processor_seconds: float
    modules: Mapping[str, str]


def origin_of(folder: Path) -> Origin:
    """Return the origin of the records in the folder of a task; empty if it never ran.

    Raises
    ------
    ValueError
        If the file of the origin cannot be read.
    """
    path = folder / ORIGIN
    if not path.exists():
        return Origin(0.0, {})
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Origin(float(document["processor_seconds"]), dict(document["modules"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"File '{path}' tells no origin of records ({error}).") from error


def _note_origin(folder: Path, before: Origin, seconds: float) -> None:
    """Add a run of a task, in this process, to its origin."""
    total = round(before.processor_seconds + seconds, 2)
    modules = code_digests(used_modules()) | dict(before.modules)
    text = dump({"processor_seconds": total, "modules": modules}) + "\n"
    write_atomically(folder / ORIGIN, text)


def processor_seconds() -> float:
    """Return the processor seconds of this process and of the processes that it waited for."""
    return sum(os.times()[:4])
