"""Work that is done at once or not at all, and leaves one record in a folder of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from goodalloc.experiments.support.tasks import Report

RECORD = "record.json"


@dataclass(frozen=True)
class RecordedTask:
    """Task whose record is one JSON file; subclasses define its inputs and its work.

    Parameters
    ----------
    folder
        Folder of its record.
    """

    folder: Path

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        raise NotImplementedError

    def work(self, report: Report) -> Any:
        """Run the task, report the share that is done, and return the record as JSON data."""
        raise NotImplementedError

    def run(self, report: Report = lambda _: None) -> None:
        """Run the task and store its record, unless the record exists.

        Raises
        ------
        ValueError
            If the folder holds the record of another task.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if not (self.folder / RECORD).exists():
            write_atomically(self.folder / RECORD, dump(self.work(report)) + "\n")

    def record(self) -> Any:
        """Return the record of a task that has run."""
        return json.loads((self.folder / RECORD).read_text(encoding="utf-8"))

    def among(self, folder: Path, name: str) -> Self:
        """Return the same task in a folder of its own, named for its inputs.

        Parameters
        ----------
        folder
            Folder of all records.
        name
            Prefix of the name of the new folder.
        """
        return replace(self, folder=folder / "replays" / f"{name}-{digest(self.description())}")
