"""Table of the library's rounds, and the rounds themselves, checked against their digests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.files.instance import instance_digest, instance_from_dict
from goodalloc.data.library.library_round import CATEGORIES, TREE, LibraryRound
from goodalloc.data.library.recipes import make_round
from goodalloc.data.library.stored_files import file_of, library_folder, read_compressed
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.data.documents.csv_table import Table
    from goodalloc.models.round.instance import Instance

#: File of the table in the folder of the library.
CATALOGUE = "catalogue.csv"

#: Columns of the table.
COLUMNS = (
    "name",
    "origin",
    "class",
    "jobs",
    "nodes",
    "gpus",
    "features",
    "fitness",
    "bound",
    "gap",
    "solver",
    "seconds",
    "greedy",
    "proof",
    "since",
    "recipe",
    "sha256",
)

#: Rounds of each origin and class in the core, and its greatest number of jobs.
CORE_EACH, CORE_JOBS = 2, 200

#: Columns whose cells are empty where nothing is known.
_NUMBERS = {"fitness": math.nan, "bound": math.inf, "seconds": math.nan, "greedy": math.nan}


@cache
def library_rounds() -> Mapping[str, LibraryRound]:
    """Return all rounds of the library by name, in the order of the table.

    Examples
    --------
    >>> from goodalloc.data.library import library_rounds
    >>> "tiny-cold" in library_rounds()
    True
    """
    with as_file(library_folder() / CATALOGUE) as path:
        return MappingProxyType({one.name: one for one in read_catalogue(path)})


def read_catalogue(path: str | os.PathLike[str]) -> tuple[LibraryRound, ...]:
    """Read a table of rounds.

    Raises
    ------
    ValueError
        If the file is unreadable or lacks a column, a value is out of range, or a name is there
        twice.
    """
    table = read_table(path, COLUMNS)
    numbers = {name: known_numbers(table, name) for name in _NUMBERS}
    counts = {name: table.counts(name, 0) for name in ("jobs", "nodes", "gpus", "since")}
    found, seen = [], set[str]()
    for row in range(len(table)):
        cell = {name: table.columns[name][row] for name in COLUMNS}
        if cell["name"] in seen:
            raise table.refusal(row, "name", "a name of its own")
        seen.add(cell["name"])
        values: dict[str, Any] = {
            name: unknown if numbers[name][row] is None else numbers[name][row]
            for name, unknown in _NUMBERS.items()
        }
        values |= {name: counts[name][row] for name in counts}
        texts = ("name", "origin", "recipe", "sha256", "solver", "proof")
        values |= {name: cell[name] for name in texts}
        features = tuple(cell["features"].split())
        found.append(LibraryRound(category=cell["class"], features=features, **values))
    return tuple(found)


def known_numbers(table: Table, column: str) -> list[float | None]:
    """Return the numbers of a column, at least 0; None where a cell is empty.

    Raises
    ------
    ValueError
        If a cell holds something else.
    """
    cells = table.columns[column]
    given = table.only(row for row, cell in enumerate(cells) if cell)
    values = iter(given.numbers(column, 0.0).tolist() if len(given) else [])
    return [next(values) if cell else None for cell in cells]


def catalogue_text(rounds: Iterable[LibraryRound]) -> str:
    """Return a table of rounds as CSV; the reverse of `read_catalogue`."""
    return csv_text((catalogue_row(one) for one in rounds), COLUMNS)


def catalogue_row(one: LibraryRound) -> dict[str, object]:
    """Return a round as a row of the table; what is unknown is empty.

    Examples
    --------
    >>> from goodalloc.data.library import catalogue_row, find_round
    >>> catalogue_row(find_round("tiny-cold"))["class"]
    'easy'
    """
    row: dict[str, object] = {
        "class": one.category,
        "features": " ".join(one.features),
        "gap": f"{one.gap:.3g}" if one.known else "",
    }
    for name in COLUMNS:
        if name not in row:
            value = getattr(one, name)
            unknown = isinstance(value, float) and not math.isfinite(value)
            row[name] = "" if unknown else value
    return row


def find_round(name: str) -> LibraryRound:
    """Return the line of a round.

    Raises
    ------
    ValueError
        If the library has no round of that name.

    Examples
    --------
    >>> from goodalloc.data.library import find_round
    >>> find_round("tiny-cold").jobs
    4
    """
    known = library_rounds()
    if name not in known:
        closest = did_you_mean(name, tuple(known))
        raise ValueError(
            f"Round {literal(name)} is not in the library{closest}; expected one of its "
            f"{len(known)} names, which `goodalloc library list` shows."
        )
    return known[name]


def load_round(name: str) -> Instance:
    """Return a round of the library: made anew, or read, and then checked by its digest.

    Raises
    ------
    ValueError
        If the library has no round of that name, it is on a tree, or what was made has another
        digest.

    Examples
    --------
    >>> from goodalloc.data.library import load_round
    >>> load_round("tiny-cold").num_jobs
    4
    """
    known = find_round(name)
    if known.on_tree:
        raise ValueError(
            f"Round '{name}' is on a tree; expected one without (`load_tree_round` loads it)."
        )
    if known.recorded:
        instance = instance_from_dict(read_compressed(file_of("rounds", name)))
    else:
        instance = make_round(known.recipe, name)
    check_digest(known, instance_digest(instance))
    return instance


def check_digest(known: LibraryRound, digest: str) -> None:
    """Refuse a round that was made or read and has another digest than that of the table.

    Raises
    ------
    ValueError
        If the digests differ.
    """
    if digest != known.sha256:
        raise ValueError(
            f"Round '{known.name}': its digest is {digest[:12]}…; expected {known.sha256[:12]}…, "
            "so that what was made here is another round."
        )


def core_rounds() -> tuple[LibraryRound, ...]:
    """Return the core: the first rounds of every origin and class that are not large.

    Examples
    --------
    >>> from goodalloc.data.library import core_rounds
    >>> core_rounds()[0].name
    'tiny-cold'
    """
    counts: dict[tuple[str, str], int] = {}
    core = []
    for one in library_rounds().values():
        key = (one.origin, one.category)
        if one.since > 1 or one.category == "large" or one.jobs > CORE_JOBS:
            continue
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= CORE_EACH:
            core.append(one)
    return tuple(core)


@dataclass(frozen=True)
class Selection:
    """Selection of rounds; what is empty or None selects all.

    Parameters
    ----------
    names, origins, categories, features
        Names, origins and classes, of which one has to hold, and features, which all have to hold.
        Rounds on trees, which few solvers take, are selected only by their names, their origin or
        the feature ``tree``.
    without
        Features of which none may hold.
    most_jobs
        Greatest number of jobs.
    only_open
        Whether only rounds without a proved optimum are selected.

    Raises
    ------
    ValueError
        If something is selected that no round of the library has.
    """

    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    most_jobs: int | None = None
    only_open: bool = False

    def __post_init__(self) -> None:
        for name in self.names:
            find_round(name)
        known = library_rounds().values()
        _refuse("Origin", self.origins, [one.origin for one in known])
        _refuse("Class", self.categories, CATEGORIES)
        features = [name for one in known for name in one.features]
        _refuse("Feature", (*self.features, *self.without), features)

    def __call__(self) -> tuple[LibraryRound, ...]:
        """Return the selected rounds, in the order of the table."""
        return tuple(one for one in library_rounds().values() if self._holds(one))

    def _holds(self, one: LibraryRound) -> bool:
        return (
            (not self.names or one.name in self.names)
            and (not self.origins or one.origin in self.origins)
            and (not self.categories or one.category in self.categories)
            and set(self.features) <= set(one.features)
            and not set(self.without) & set(one.features)
            and (self.most_jobs is None or one.jobs <= self.most_jobs)
            and not (self.only_open and one.closed)
            and (not one.on_tree or self._by_tree)
        )

    @property
    def _by_tree(self) -> bool:
        """Whether rounds on trees are wanted."""
        return bool(self.names) or TREE in (*self.origins, *self.features)


def _refuse(item: str, wanted: Sequence[str], known: Iterable[str]) -> None:
    """Refuse what is not known."""
    names = tuple(dict.fromkeys(known))
    for one in wanted:
        if one not in names:
            closest = did_you_mean(one, names)
            expected = ", ".join(names)
            raise ValueError(f"{item} {literal(one)} is unknown{closest}; expected {expected}.")
