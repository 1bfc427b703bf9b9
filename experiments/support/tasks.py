"""Independent tasks, each with its folder, run alone or several at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from goodalloc.experiments.support.stop_request import whole_interrupt
from goodalloc.experiments.support.workers import ALONE, map_unordered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.experiments.support.workers import Workers

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
    try:
        task.run(report)
    except ValueError as error:
        return task.folder, str(error)
    return task.folder, None
