"""Task of a study that works out one row, on its own or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.experiments.studies.framework.records import Record
    from goodalloc.experiments.support.tasks import Report


@dataclass(frozen=True)
class RowTask(RecordedTask):
    """One row of a study, whose record are its fields.

    Parameters
    ----------
    form
        Name of the format of the record.
    recipe
        What the row is worked out from, in terms of JSON.
    row_of
        Function of the recipe that returns the row.

    Examples
    --------
    >>> from pathlib import Path
    >>> from typing import NamedTuple
    >>> from goodalloc.experiments.studies.framework.row_task import RowTask
    >>> class Square(NamedTuple):
    ...     side: float
    ...     area: float = 0.0
    ...
    >>> task = RowTask(Path("square"), "square", Square(3.0), lambda one: Square(one.side, 9.0))
    >>> task.run()
    >>> task.record()
    {'side': 3.0, 'area': 9.0}
    """

    form: str
    recipe: Record
    row_of: Callable[[Any], Record]

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = {"format": self.form, "version": 1, "library": library_version()}
        return told | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.recipe._asdict().items()
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Work out the row."""
        found = self.row_of(self.recipe)._asdict()
        report(1.0)
        return found
