"""Gavel's table of throughputs: its jobs on three types of GPU, alone and two at a time (OSDI'20).

The table that Gavel's simulator lives on has the steps per second of 26 configurations on 1, 2, 4
or 8 GPUs of a type, consolidated on as few servers as possible or not, and of every two of them
that share one GPU. `goodalloc.data.gavel.model` has one that was fitted to it and ships.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import (
    as_float,
    check_list,
    in_file,
    parse,
    read_text,
    shown,
)
from goodalloc.models.gavel.rate_table import Configuration, RateTable
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

#: The published table, as a folder holds it.
TABLE = "simulation_throughputs.json"

#: What a folder of several tables calls that of this one.
FOLDER = "gavel-throughputs"

#: Types of GPU, the fastest first, and numbers of GPUs that a job may have.
TYPES, REPLICAS = ("v100", "p100", "k80"), (1, 2, 4, 8)

#: What the table adds to a type where the replicas are not consolidated.
APART = "_unconsolidated"

_JOB = re.compile(r"\('(.+)', (\d+)\)")
_CONFIGURATION = re.compile(r"(.+?)(?: \(batch size (\d+)\))?")


def require_gavel_table(folder: Path | None) -> None:
    """Refuse a folder without the published table; None, for the fitted one, will do.

    Raises
    ------
    ValueError
        With what the folder was to hold.

    Examples
    --------
    >>> from goodalloc.data.gavel import require_gavel_table
    >>> require_gavel_table(None)
    """
    if folder is not None and not (folder / TABLE).is_file():
        raise ValueError(
            f"Folder '{folder}' holds neither {TABLE} nor {FOLDER}/{TABLE}; expected the table "
            "that github.com/stanford-futuredata/gavel publishes in its folder scheduler."
        )


def read_gavel_rates(folder: str | os.PathLike[str]) -> RateTable:
    """Read the published table (github.com/stanford-futuredata/gavel, commit c4fa400, MIT).

    It says everything about a pair twice, in mirror image, and for one GPU also as unconsolidated;
    what it says must agree. A job that a type does not list does not run there.

    Parameters
    ----------
    folder
        Folder that holds `simulation_throughputs.json`.

    Raises
    ------
    ValueError
        If it does not, or the file is not such a table.
    """
    path = Path(folder) / TABLE
    text = read_text(path)
    try:
        return _table(parse(text))
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


#: By type of the table: by configuration and replicas, the rate alone and the pairs' rates.
_Row = dict[tuple[Configuration, int], tuple[float, float]]
_Found = dict[tuple[Configuration, int], tuple[float, _Row]]


def _table(document: object) -> RateTable:
    """Return the rates of a document of the published form."""
    expected = [kind + end for kind in TYPES for end in ("", APART)]
    if not isinstance(document, dict) or sorted(document) != sorted(expected):
        raise ValueError(f"the types are not {', '.join(expected)}; expected an object of these.")
    found = {kind: _rows(f"'{kind}'", document[kind]) for kind in expected}
    configurations = tuple(sorted({job[0] for rows in found.values() for job in rows}))
    place = {configuration: index for index, configuration in enumerate(configurations)}
    many, shape = len(configurations), (len(REPLICAS), len(TYPES))
    alone, paired = np.zeros((many, *shape, 2)), np.zeros((many, many, *shape))
    for kind, name in enumerate(TYPES):
        for spread, end in enumerate(("", APART)):
            for (configuration, replicas), (rate, _) in found[name + end].items():
                alone[place[configuration], REPLICAS.index(replicas), kind, spread] = rate
        for first, second, replicas, rate in _pairs(name, found):
            paired[place[first], place[second], REPLICAS.index(replicas), kind] = rate
    return RateTable(TYPES, configurations, REPLICAS, alone, paired)


def _pairs(
    name: str, found: dict[str, _Found]
) -> Iterator[tuple[Configuration, Configuration, int, float]]:
    """Return both jobs of a pair, their replicas and the rate of the first."""
    rows, apart = found[name], found[name + APART]
    for job, (_, pairs) in rows.items():
        for other, (rate, rate_of_other) in pairs.items():
            mirrored = rows[other][1].get(job) if other in rows else None
            again = apart[job][1].get(other) if job in apart else None
            for item, said, meant in (
                ("mirrored", mirrored, (rate_of_other, rate)),
                ("unconsolidated", again or (rate, rate_of_other), (rate, rate_of_other)),
            ):
                if said != meant:
                    raise ValueError(
                        f"'{name}': {_named(job)} beside {_named(other)}, {item}, has the rates "
                        f"{shown(said)}; expected {shown(meant)}."
                    )
            yield job[0], other[0], job[1], rate


def _rows(item: str, value: object) -> _Found:
    """Return the rows of a type."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{item} is {shown(value)}; expected an object of jobs.")
    return {_job(item, text): _row(f"{item}: {text}", text, value[text]) for text in value}


def _row(item: str, text: str, value: object) -> tuple[float, _Row]:
    """Return the rates of a job on a type: alone, and beside others of as many replicas."""
    if not isinstance(value, dict) or "null" not in value:
        raise ValueError(f"{item} is {shown(value)}; expected an object with the rate of 'null'.")
    pairs: _Row = {}
    for other, entry in value.items():
        if other == "null":
            continue
        rates = check_list(f"{item} beside {other}", entry)
        if len(rates) != 2 or _job(item, other)[1] != _job(item, text)[1]:
            raise ValueError(
                f"{item} beside {other} is {shown(entry)}; expected two rates, and as many "
                "replicas of both."
            )
        first, second = (_number(f"{item} beside {other}", rate) for rate in rates)
        pairs[_job(item, other)] = (first, second)
    return _number(f"{item} alone", value["null"]), pairs


def _number(item: str, value: object) -> float:
    number: Any = as_float(value)
    require_number(item, number, minimum=0.0)
    return float(number)


def _job(item: str, text: str) -> tuple[Configuration, int]:
    """Return the configuration and the GPUs of a job from its text in the table."""
    job = _JOB.fullmatch(text)
    if job is None or int(job[2]) not in REPLICAS:
        expected = "('MODEL (batch size N)', GPUs) with 1, 2, 4 or 8 GPUs"
        raise ValueError(f"{item}: job is {shown(text)}; expected {expected}.")
    match = _CONFIGURATION.fullmatch(job[1])
    family, batch_size = match.groups() if match else (job[1], None)
    return Configuration(family, int(batch_size or 0)), int(job[2])


def _named(job: tuple[Configuration, int]) -> str:
    return f"'{job[0].name}' on {job[1]}"
