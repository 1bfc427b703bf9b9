"""Independent pieces of work, each with its folder, run alone or several at a time."""

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

#: Is told a share, from 0 to 1.
Report = Callable[[float], None]


class Task(Protocol):
    """A piece of work that keeps records in a folder and does only what is left of it."""

    @property
    def folder(self) -> Path: ...

    def run(self, report: Report) -> None:
        """Do what is left of it, telling what share of it is done."""
        ...


def run_tasks(
    tasks: Sequence[Task], workers: Workers = ALONE, report: Report = lambda _: None
) -> dict[Path, str]:
    """Do tasks, several at a time in processes of their own or on a cluster.

    Parameters
    ----------
    tasks
        What to do; what is done already takes no time.
    workers
        Who does it; one local process is this one. All must see the folders of the tasks, whose
        paths are absolute unless they are this process's.
    report
        Is told how many tasks have been done since it was told last, fractions included.

    Returns
    -------
    dict
        Why a task cannot be done, by its folder; the others are done.

    Raises
    ------
    ValueError
        As `map_unordered` for a cluster that cannot be reached.
    KeyboardInterrupt
        By Ctrl-C, whatever a solver would make of it; each task's records go on from there.
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
    """Do a task, here or in a process of its own: its folder, and why it cannot be done."""
    try:
        task.run(report)
    except ValueError as error:
        return task.folder, str(error)
    return task.folder, None
