"""Submissions that ship: the rows of stored studies, judged by the library as it is."""

from __future__ import annotations

import math
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.library.catalogue import library_rounds
from goodalloc.experiments.library.protocol import judge
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from importlib.resources.abc import Traversable

    from goodalloc.experiments.library.protocol import Runs

#: Columns of the study that the judgement needs.
COLUMNS = ("solver", "round", "sha256", "limit_seconds", "solver_seconds", "fitness")


#: Studies whose solvers are submissions that ship: on the core, and on the other kinds of rounds.
STUDIES = ("library", "library-trees", "library-pods", "library-large")


def stored_table(name: str = STUDIES[0]) -> Traversable:
    """Return the file of the stored rows of a study of the library."""
    return files("goodalloc.experiments") / "studies" / "library" / "results" / f"{name}.csv"


def study_of(rounds: Collection[str]) -> str:
    """Return the study of stored submissions that has most of some rounds, the core's if none has.

    Parameters
    ----------
    rounds
        Names of rounds.

    Examples
    --------
    >>> from goodalloc.experiments.library.stored_rows import study_of
    >>> study_of({"tiny-cold"}), study_of({"tree-20x16-cold-1"})
    ('library', 'library-trees')
    """
    shared = {name: len(_stored_rounds(name) & set(rounds)) for name in STUDIES}
    return max(STUDIES, key=shared.__getitem__)


def _stored_rounds(study: str) -> set[str]:
    """Return the rounds of a study; none where it is not stored."""
    if not stored_table(study).is_file():
        return set()
    with as_file(stored_table(study)) as path:
        return set(read_table(path, COLUMNS).columns["round"])


def stored_submissions(
    names: Sequence[str] | None = None, study: str = STUDIES[0]
) -> dict[str, Runs]:
    """Return the judged runs of stored submissions by name.

    Rows of rounds that have changed since are left out.

    Parameters
    ----------
    names
        Which of them; all if None.
    study
        One of `STUDIES`.

    Raises
    ------
    ValueError
        If none of these names is stored.
    """
    found: dict[str, Runs] = {}
    if stored_table(study).is_file():
        with as_file(stored_table(study)) as path:
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
