"""Documents of the repository, and the stored results that they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import goodalloc.experiments.studies
from goodalloc.experiments.studies.catalogue import ENTRIES
from goodalloc.experiments.studies.framework.stored_result import SUMMARY, read_stored
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.studies.framework.stored_result import StoredResult

#: Suffix of the name of a result whose study ran with ``--quick``.
QUICK = "-quick"

#: Prefix of the name of a result of a benchmark.
BENCH = "bench-"

#: Name under which documents find what the stored results themselves took.
ORIGINS = "origins"

#: Folders and files whose tables show no results of studies.
NO_RESULTS = (
    "CHANGELOG.md",
    "data/ARTIFACTS.md",
    "data/FORMAT.md",
    "experiments/tutorials",
    "formulations/NOTATION.md",
)


def repository() -> Path:
    """Return the folder of the repository.

    Raises
    ------
    ValueError
        If goodalloc is installed without it.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import repository
    >>> try:
    ...     found = (repository() / "README.md").is_file()
    ... except ValueError as error:
    ...     found = "no copy of goodalloc's repository" in str(error)
    >>> found
    True
    """
    folder = Path(goodalloc.experiments.studies.__path__[0]).resolve().parents[1]
    if not (folder / "pyproject.toml").is_file():
        raise ValueError(
            f"Folder '{folder}' is no copy of goodalloc's repository; expected goodalloc to be "
            "installed from one by `make setup`."
        )
    return folder


def documents() -> tuple[Path, ...]:
    """Return all Markdown documents of the repository that may show results.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import documents
    >>> try:
    ...     found = [path.name for path in documents()]
    ... except ValueError:  # goodalloc is installed without them
    ...     found = ["RESULTS.md"]
    >>> "RESULTS.md" in found
    True
    """
    root, found = repository(), []
    for folder in (".docs", "data", "experiments", "formulations", "models", "solvers"):
        found += sorted((root / folder).rglob("*.md"))
    found += sorted(root.glob("*.md"))
    return tuple(
        path
        for path in found
        if not any(path.is_relative_to(root / excluded) for excluded in NO_RESULTS)
    )


def results_folder(name: str) -> Path:
    """Return the folder of the stored results of a study, or of the benchmarks, beside the code.

    Parameters
    ----------
    name
        Name of the study, of its quick version, or of a result of a benchmark (`BENCH`).

    Raises
    ------
    ValueError
        If there is no such study.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import results_folder
    >>> results_folder("hesrpt-quick").parts[-2:]
    ('classical', 'results')
    """
    studies = Path(goodalloc.experiments.studies.__path__[0])
    if name.startswith(BENCH):
        return studies.parent / "benchmarks" / "results"
    study = name.removesuffix(QUICK)
    if study not in ENTRIES:
        raise ValueError(
            f"Study '{name}' does not exist{did_you_mean(study, ENTRIES)}; expected one of "
            f"{', '.join(ENTRIES)}."
        )
    room = ENTRIES[study].path.partition(".")[0]
    return studies / room / "results"


def stored_result(name: str) -> StoredResult:
    """Return the stored result of a study.

    Raises
    ------
    ValueError
        If there is none, or it cannot be read.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import stored_result
    >>> stored_result("hesrpt").origin.command
    'goodalloc reproduce hesrpt'
    """
    folder = results_folder(name)
    if not (folder / f"{name}.json").is_file():
        what, command = "Study", f"goodalloc reproduce {name.removesuffix(QUICK)} --store"
        if name.startswith(BENCH):
            what, command = "Benchmark", f"make bench STORE=1 BENCH={name.split('-')[1]}"
        raise ValueError(
            f"{what} '{name}' has no stored result in '{folder}'; `{command}` makes one."
        )
    return read_stored(folder, name)


def stored_rows(name: str) -> Sequence[Mapping[str, str]]:
    """Return the rows of a stored result, or with the suffix ``-summary`` its summary.

    Under the name `ORIGINS` there is a row for every stored result: its name, its kind (full, quick
    or benchmark), and the processor time that it took.

    Raises
    ------
    ValueError
        As `stored_result`.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import stored_rows
    >>> stored_rows("hesrpt-summary")[0]["jobs"]
    '16'
    """
    if name == ORIGINS:
        return [_origin_row(one) for one in (*stored_names(), *benchmark_names())]
    if name.endswith(SUMMARY):
        return stored_result(name.removesuffix(SUMMARY)).summary
    return stored_result(name).rows


def _origin_row(name: str) -> Mapping[str, str]:
    """Return what a stored result took."""
    seconds = stored_result(name).origin.processor_seconds
    kind = "quick" if name.endswith(QUICK) else "full"
    return {
        "result": name,
        "kind": "benchmark" if name.startswith(BENCH) else kind,
        "processor_minutes": str(seconds / 60.0),
        "processor_hours": str(seconds / 3600.0),
    }


def whole_minutes(name: str) -> float | None:
    """Return the processor minutes that the stored result of a study took; None if there is none.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import whole_minutes
    >>> whole_minutes("table2") > 1.0
    True
    """
    if not (results_folder(name) / f"{name}.json").is_file():
        return None
    return stored_result(name).origin.processor_seconds / 60.0


def stored_names() -> tuple[str, ...]:
    """Return the names of all stored results, in the order of the catalogue.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import stored_names
    >>> "hesrpt" in stored_names()
    True
    """
    return tuple(
        name
        for study in ENTRIES
        for name in (study, f"{study}{QUICK}")
        if (results_folder(study) / f"{name}.json").is_file()
    )


def benchmark_names() -> tuple[str, ...]:
    """Return the names of all stored results of benchmarks, in alphabetical order.

    Their seconds are those of one machine and one commit, and may be older than the code.

    Examples
    --------
    >>> from goodalloc.experiments.studies.documents import BENCH, benchmark_names
    >>> all(name.startswith(BENCH) for name in benchmark_names())
    True
    """
    return tuple(sorted(path.stem for path in results_folder(BENCH).glob(f"{BENCH}*.json")))
