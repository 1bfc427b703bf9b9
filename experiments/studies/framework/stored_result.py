"""Results of studies that are kept in the repository, with the origin of every one.

The rows are a CSV file, as ``goodalloc reproduce`` writes it, in the folder ``results`` beside the
code of the study. A JSON file of the same name tells the origin: command, commit, versions,
machine, processor seconds, and digests of the code of all modules that took part.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.json_file import (
    check_keys,
    check_object,
    check_text,
    dump,
    in_file,
    read_document,
    read_text,
    shown,
)
from goodalloc.experiments.support.module_code import (
    GONE,
    STUDIES,
    changed_modules,
    code_digests,
    taking_part,
)
from goodalloc.experiments.support.tasks import origin_of
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Task

STORED_FORMAT = "goodalloc-stored-result"

#: Suffix of the file, and of the name in documents, of the table as people read it.
SUMMARY = "-summary"


@dataclass(frozen=True)
class ResultOrigin:
    """Origin of a stored result.

    Parameters
    ----------
    command
        Command that repeats it; ``ARTIFACT`` stands for a folder of published data.
    commit
        Commit of the code.
    machine
        Processor and number of cores.
    processor_seconds
        Processor seconds of all its tasks.
    versions
        Versions of Python and of the libraries, by name.
    modules
        Digests of the code of the modules that took part, by name.
    confirmed
        Commit at which a quick run gave the stored quick rows again, though code had changed;
        empty if none was needed.

    Raises
    ------
    ValueError
        If `processor_seconds` is negative or not a number.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import ResultOrigin
    >>> modules = {"models.no_such_module": "1234abcd"}
    >>> ResultOrigin("goodalloc reproduce mine", "0" * 40, "", 1.5, {}, modules).changed_modules
    ('models.no_such_module',)
    """

    command: str
    commit: str
    machine: str
    processor_seconds: float
    versions: Mapping[str, str]
    modules: Mapping[str, str]
    confirmed: str = ""

    def __post_init__(self) -> None:
        require_number("Stored result: processor_seconds", self.processor_seconds, minimum=0.0)

    @property
    def changed_modules(self) -> tuple[str, ...]:
        """Modules whose code has changed since, in alphabetical order."""
        return changed_modules(self.modules)


#: Difference of two numbers that counts as none: bounds of an optimum differ in their last digits.
ROUNDING = 1e-12


@dataclass(frozen=True)
class StoredResult:
    """Rows of a study with their origin.

    Parameters
    ----------
    name
        Name of the study; with the suffix ``-quick`` that of its quick version.
    rows
        Cells of each row as text, by column.
    summary
        Cells of each row of the table as people read it, which may have means; else the rows.
    origin
        Where they come from.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import ResultOrigin, StoredResult
    >>> origin = ResultOrigin("goodalloc reproduce mine", "0" * 40, "2 cores", 1.5, {}, {})
    >>> StoredResult("mine", ({"policy": "fifo"},), (), origin).rows[0]["policy"]
    'fifo'
    """

    name: str
    rows: tuple[Mapping[str, str], ...]
    summary: tuple[Mapping[str, str], ...]
    origin: ResultOrigin


class Confirmation(NamedTuple):
    """Quick run of a study, by which its stored result is confirmed.

    Attributes
    ----------
    rows
        The quick rows as they come out now.
    clocked
        Columns with the seconds of a clock, which differ between runs.
    modules
        Digests of the code of the modules that took part, by name.
    commit
        The present commit.
    study
        Name of the study's module, below `goodalloc`.
    part
        Whether only some workloads of the quick run are run again.
    """

    rows: Rows
    clocked: tuple[str, ...]
    modules: Mapping[str, str]
    commit: str
    study: str
    part: bool = False


def confirm_stored(folder: Path, name: str, sample: StoredResult, now: Confirmation) -> None:
    """Take a stored result for that of the present code, since its quick rows came out again.

    Columns that the study did not have before are not compared.

    Parameters
    ----------
    folder, name
        Folder and name of the stored result.
    sample
        Its stored quick result.
    now
        The quick run.

    Raises
    ------
    ValueError
        If a row differs, or a module changed that took no part in the stored quick run.
    """
    stored = read_stored(folder, name)
    changed = taking_part(now.study, stored.origin.changed_modules)
    unseen = [one for one in changed if one not in sample.origin.modules]
    if unseen:
        raise ValueError(
            f"Result '{name}': module {unseen[0]} changed and took no part in the quick run; "
            "expected a whole run with --store."
        )
    rows = _read_rows(csv_text(now.rows, tuple(now.rows[0])))
    ignored = {*now.clocked, "version"}
    if now.part:
        _require_part(name, rows, sample.rows, ignored | {"workload_numbers"})
    else:
        _require_same(name, rows, sample.rows, ignored)
    for result in (stored, sample):
        before = code_digests(taking_part(now.study, result.origin.modules))
        there = {module: digest for module, digest in before.items() if digest != GONE}
        modules = there | dict(now.modules)
        origin = replace(result.origin, modules=dict(sorted(modules.items())), confirmed=now.commit)
        _write_origin(folder, result.name, origin)


def _require_same(
    name: str,
    rows: Sequence[Mapping[str, str]],
    stored: Sequence[Mapping[str, str]],
    ignored: set[str],
) -> None:
    """Refuse rows that are not the stored ones."""
    if len(rows) != len(stored):
        raise ValueError(
            f"Result '{name}': the quick run has {len(rows)} rows, and its stored one "
            f"{len(stored)}; expected a whole run with --store."
        )
    for index, (before, after) in enumerate(zip(stored, rows, strict=True), start=1):
        for column in before.keys() - ignored:
            if not _agree(before[column], after.get(column)):
                raise ValueError(
                    f"Result '{name}': in row {index} of the quick run {column} is "
                    f"{shown(after.get(column))}, and was {shown(before[column])}; expected a "
                    "whole run with --store."
                )


def _agree(before: str, after: str | None) -> bool:
    """Return whether two cells are equal, numbers but for their rounding."""
    if before == after or after is None:
        return before == after
    try:
        return abs(float(before) - float(after)) <= ROUNDING
    except ValueError:
        return False


def _require_part(
    name: str,
    rows: Sequence[Mapping[str, str]],
    stored: Sequence[Mapping[str, str]],
    ignored: set[str],
) -> None:
    """Refuse rows of which one is not among the stored ones."""
    for index, after in enumerate(rows, start=1):
        if not any(
            all(_agree(before[column], after.get(column)) for column in before.keys() - ignored)
            for before in stored
        ):
            raise ValueError(
                f"Result '{name}': row {index} of the quick run is none of the stored ones; "
                "expected a whole run with --store."
            )


def write_stored(
    folder: Path, name: str, table: Rows, summary: Rows | None, origin: ResultOrigin
) -> None:
    """Write the rows of a study and their origin.

    Parameters
    ----------
    folder
        Folder of the results.
    name
        Name of the files, without suffix.
    table, summary, origin
        The rows, the table as people read it (None if that is the same), and where they come from.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.studies.framework import ResultOrigin, read_stored, write_stored
    >>> origin = ResultOrigin("goodalloc reproduce mine", "0" * 40, "2 cores", 1.5, {}, {})
    >>> rows = [{"policy": "fifo", "average_hours": 2.5}]
    >>> write_stored(Path("."), "mine", rows, None, origin)
    >>> read_stored(Path("."), "mine").rows
    ({'policy': 'fifo', 'average_hours': '2.5'},)
    """
    folder.mkdir(exist_ok=True)
    for suffix, rows in (("", table), (SUMMARY, summary)):
        if rows is not None:
            write_atomically(folder / f"{name}{suffix}.csv", csv_text(rows, tuple(rows[0])))
    _write_origin(folder, name, origin)


def _write_origin(folder: Path, name: str, origin: ResultOrigin) -> None:
    document = {"format": STORED_FORMAT, "version": 1, **asdict(origin)}
    write_atomically(folder / f"{name}.json", dump(document) + "\n")


def read_stored(folder: Path, name: str) -> StoredResult:
    """Read the rows of a study and their origin.

    Raises
    ------
    ValueError
        If a file cannot be read or is malformed; the message names it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.studies.framework import read_stored
    >>> try:
    ...     read_stored(Path("."), "mine")
    ... except ValueError as error:
    ...     print(error)
    File 'mine.csv' does not exist.
    """
    path = folder / f"{name}.json"
    rows, other = _rows(folder / f"{name}.csv"), folder / f"{name}{SUMMARY}.csv"
    summary = _rows(other) if other.exists() else rows
    document = read_document(path, (STORED_FORMAT,))
    try:
        return StoredResult(name, rows, summary, _origin(document))
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def _rows(path: Path) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a CSV file, of which there must be one."""
    rows = _read_rows(read_text(path, "CSV"))
    if not rows:
        raise ValueError(f"File '{path}' has no rows; expected at least one.")
    return rows


def _read_rows(text: str) -> tuple[Mapping[str, str], ...]:
    return tuple(csv.DictReader(io.StringIO(text)))


def _origin(document: Mapping[str, Any]) -> ResultOrigin:
    """Return the origin that a document tells."""
    names = ("command", "commit", "machine")
    tables = ("versions", "modules")
    required = ("format", "version", *names, "processor_seconds", *tables)
    found = check_keys("Stored result", document, required, ("confirmed",))
    told: dict[str, Any] = {"processor_seconds": found["processor_seconds"]}
    told |= {name: check_text(f"Stored result: {name}", found[name]) for name in names}
    told["confirmed"] = check_text("Stored result: confirmed", found.get("confirmed", ""))
    told |= {name: check_object(f"Stored result: {name}", found[name]) for name in tables}
    return ResultOrigin(**told)


def spent_on(tasks: Iterable[Task]) -> tuple[float, dict[str, str]]:
    """Return the processor seconds of tasks and the digests of the code that did their work.

    Parameters
    ----------
    tasks
        Tasks that are done.

    Raises
    ------
    ValueError
        If some code has changed since a task ran, or the origin of a task is not known.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import spent_on
    >>> spent_on([])
    (0.0, {})
    """
    seconds, modules = 0.0, dict[str, str]()
    for task in tasks:
        origin = origin_of(task.folder)
        took_part = taking_part(_root(task), origin.modules)
        there = {name: origin.modules[name] for name in took_part}
        changed = changed_modules(there)
        if changed or not there:
            why = f"module {changed[0]} has changed since" if changed else "nothing tells by which"
            raise ValueError(
                f"Folder '{task.folder}': its records are of other code ({why}); expected none, so "
                "remove it, and run the command again."
            )
        seconds += origin.processor_seconds
        modules |= there
    return round(seconds, 1), modules


def _root(task: Task) -> str:
    """Return the module that a task's work begins in: of its class, or of a policy of a study."""
    policy = str(getattr(task, "policy", "")).partition(":")[0].partition(".")[2]
    return policy if policy.startswith(STUDIES) else type(task).__module__.partition(".")[2]
