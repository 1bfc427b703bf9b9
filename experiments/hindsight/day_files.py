"""Files of a day with hindsight that are the same for every objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.hindsight.bound_file import problem_document, schedule_document

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule


class Outcome(Protocol):
    """Problem, its best ideal schedule, and the bound as the stand-alone checker proves it."""

    @property
    def problem(self) -> OfflineProblem: ...
    @property
    def schedule(self) -> HindsightSchedule: ...
    @property
    def certificate(self) -> Document: ...


def write_day(
    folder: Path,
    day: Outcome,
    tables: Mapping[str, str],
    figure: Figure,
    pictures: str,
) -> tuple[str, ...]:
    """Write problem, schedule, certificate, tables and a picture; return the files' names.

    Parameters
    ----------
    folder
        Folder of the files.
    day
        The outcome of the day.
    tables
        Text of CSV files, by their names.
    figure
        The picture.
    pictures
        Format of the picture.
    """
    from goodalloc.experiments.reporting.plots import save

    texts = {
        "problem.json": dump(problem_document(day.problem)) + "\n",
        "schedule.json": dump(schedule_document(day.schedule.segments)) + "\n",
        "bound.json": dump(day.certificate) + "\n",
        **tables,
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    picture = f"hindsight.{pictures}"
    save(figure, folder / picture)
    return (*texts, picture)
