"""Submission: runs of a solver on rounds of the library, in a folder that survives interruptions.

The folder holds ``submission.json`` (solver, limits, machine and versions), ``runs.csv`` (a row for
each run, written as soon as it ends), ``answers/ROUND.json`` (the result with its allocation) and,
where there are any, ``certificates/ROUND.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.json_file import (
    check_keys,
    in_file,
    read_document,
)
from goodalloc.data.library.catalogue import find_round, known_numbers
from goodalloc.experiments.library.protocol import LIMITS
from goodalloc.models.support.validation import require_count, require_name, require_number

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.library.library_round import LibraryRound

SUBMISSION_FORMAT, VERSION = "goodalloc-library-submission", 1

#: Files and folders of a submission.
DESCRIPTION, RUNS, ANSWERS, CERTIFICATES = (
    "submission.json",
    "runs.csv",
    "answers",
    "certificates",
)


@dataclass(frozen=True)
class Submission:
    """Description of a submission.

    Parameters
    ----------
    solver
        Name, or ``package.module:function``.
    name
        Name in rankings.
    seed
        Seed of the solver.
    seconds
        Time limit of every run; None for that of the class of its round.
    certificates
        Whether a certificate is sought for every answer, after the solver's time.

    Raises
    ------
    ValueError
        If a name is empty, or a number is out of range.
    """

    solver: str
    name: str
    seed: int = 0
    seconds: float | None = None
    certificates: bool = False

    def __post_init__(self) -> None:
        require_name("Submission: solver", self.solver)
        require_name("Submission: name", self.name)
        require_count("Submission: seed", self.seed, minimum=0)
        if self.seconds is not None:
            require_number("Submission: seconds", self.seconds, minimum=0.0, strict=True)

    def limit(self, line: LibraryRound) -> float:
        """Return the time limit of a round, in seconds."""
        return LIMITS[line.category] if self.seconds is None else self.seconds


class Run(NamedTuple):
    """Run of a submission, a row of ``runs.csv``.

    Attributes
    ----------
    round, sha256
        The round and its digest.
    seconds_limit, seconds
        Time limit, and seconds of the solver.
    status
        Status by the package's own bound, or why there is no answer.
    fitness, claimed_bound
        Recomputed fitness, None without an allocation; and what the solver claims, None if nothing.
    message
        Remarks.
    """

    round: str
    sha256: str
    seconds_limit: float
    seconds: float
    status: str
    fitness: float | None
    claimed_bound: float | None
    message: str


#: Columns of ``runs.csv``.
COLUMNS = Run._fields

#: Those of them that are texts.
TEXTS = ("round", "sha256", "status", "message")


def read_submission(folder: Path) -> Submission:
    """Read the description of a submission.

    Raises
    ------
    ValueError
        If there is none, or it is malformed.
    """
    path = folder / DESCRIPTION
    document = read_document(path, (SUBMISSION_FORMAT,))
    names = [field.name for field in fields(Submission)]
    told = ("format", "version", "code", "goodalloc", "python", "machine", "versions")
    try:
        check_keys("Submission", document, (*told, *names))
        return Submission(**{name: document[name] for name in names})
    except (ValueError, TypeError) as error:
        raise ValueError(in_file(path, ValueError(str(error)))) from error


def read_runs(folder: Path) -> list[Run]:
    """Read the runs of a submission; none without a file.

    Raises
    ------
    ValueError
        If the file is malformed, a number is out of range, or a round is not in the library.
    """
    path = folder / RUNS
    if not path.exists():
        return []
    table = read_table(path, COLUMNS, least=0)
    limits = table.numbers("seconds_limit", 0.0, strict=True)
    seconds = table.numbers("seconds", 0.0)
    fitness, claimed = (known_numbers(table, name) for name in ("fitness", "claimed_bound"))
    runs = []
    for row in range(len(table)):
        texts = {name: table.columns[name][row] for name in TEXTS}
        find_round(texts["round"])
        runs.append(
            Run(
                seconds_limit=float(limits[row]),
                seconds=float(seconds[row]),
                fitness=fitness[row],
                claimed_bound=claimed[row],
                **texts,
            )
        )
    return runs
