"""Submissions that ship: the rows of the stored study `library`, judged by the library as it is."""

from __future__ import annotations

import math
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.library.catalogue import library_rounds
from goodalloc.experiments.library.protocol import judge
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable

    from goodalloc.experiments.library.protocol import Runs

#: Columns of the study that the judgement needs.
COLUMNS = ("solver", "round", "sha256", "limit_seconds", "solver_seconds", "fitness")


def stored_table(name: str = "library") -> Traversable:
    """Return the file of the stored rows of a study of the library."""
    return files("goodalloc.experiments") / "studies" / "library" / "results" / f"{name}.csv"


def stored_submissions(names: Sequence[str] | None = None) -> dict[str, Runs]:
    """Return the judged runs of stored submissions by name.

    Rows of rounds that have changed since are left out.

    Parameters
    ----------
    names
        Which of them; all if None.

    Raises
    ------
    ValueError
        If none of these names is stored.
    """
    found: dict[str, Runs] = {}
    if stored_table().is_file():
        with as_file(stored_table()) as path:
            table = read_table(path, COLUMNS)
        limits, seconds = table.numbers("limit_seconds"), table.numbers("solver_seconds", 0.0)
        known = library_rounds()
        for row in range(len(table)):
            cell = {name: table.columns[name][row] for name in COLUMNS}
            runs = found.setdefault(cell["solver"], {})
            line = known.get(cell["round"])
            if line is not None and line.sha256 == cell["sha256"]:
                value = float(cell["fitness"] or math.nan)
                taken, limit = float(seconds[row]), float(limits[row])
                runs[line.name] = judge(line, cell["solver"], limit, taken, value)
    for name in names or ():
        if name not in found:
            closest = did_you_mean(name, tuple(found))
            expected = ", ".join((*found, "none"))
            raise ValueError(
                f"Stored submission {literal(name)} is unknown{closest}; expected some of "
                f"{expected}."
            )
    return {name: runs for name, runs in found.items() if names is None or name in names}
