"""Results as versioned JSON files, documented in `data/FORMAT.md`, and as rows of a CSV table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    check_format,
    check_keys,
    check_list,
    check_text,
    in_file,
    pack_number,
    read_document,
    rows_text,
    shown,
    unpack_number,
)
from goodalloc.data.files.allocation import (
    VERSION,
    check_instance_name,
    modes_to_dict,
    placements_from_dict,
    placements_to_dict,
)
from goodalloc.data.files.format_names import RESULT_FORMAT
from goodalloc.models.support.validation import require_choice, require_count
from goodalloc.solvers.interface.base import ships
from goodalloc.solvers.interface.result import Evidence, Incumbent, Limit, Result, Status, refutes

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.instance import Instance

_NUMBERS = (
    "fitness",
    "bound",
    "build_seconds",
    "compile_seconds",
    "solve_seconds",
    "check_seconds",
    "bound_seconds",
)
_TEXTS = ("solver", "bound_source", "message")
_COUNTS = ("seed", "iterations")
#: Keys that are missing from files of earlier versions, which believed every solver.
_BELIEF = ("evidence", "claimed_bound")
#: Further keys that are missing from files of earlier versions.
_PARTS = ("starved", "served_fitness")
_KEYS = (
    "format",
    "version",
    "instance",
    "status",
    "limit",
    "gap",
    *_TEXTS,
    *_NUMBERS,
    *_COUNTS,
    "history",
    "placements",
)

#: Columns of a result in a table.
COLUMNS = (
    "instance",
    "solver",
    "seed",
    "status",
    "limit",
    "starved",
    "served_fitness",
    "fitness",
    "bound",
    "gap",
    "bound_source",
    "evidence",
    "claimed_bound",
    "solve_seconds",
    "build_seconds",
    "compile_seconds",
    "check_seconds",
    "bound_seconds",
    "iterations",
    "message",
)


def read_result(path: str | os.PathLike[str], instance: Instance) -> Result:
    """Return the result for an instance in a file.

    Raises
    ------
    ValueError
        If the file cannot be read, belongs to another instance, or has a missing, unknown or
        invalid entry.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers import read_result, solve, write_result
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> result = solve(instance, "greedy")
    >>> write_result(result, instance, "result.json")
    >>> read_result("result.json", instance).fitness == result.fitness
    True
    """
    document = read_document(path, (RESULT_FORMAT,))
    try:
        return result_from_dict(document, instance)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_result(result: Result, instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write a result for an instance to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers import solve, write_result
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> write_result(solve(instance, "greedy"), instance, "written.json")
    >>> '"format": "goodalloc-result"' in Path("written.json").read_text()
    True
    """
    document = result_to_dict(result, instance)
    tables = {"history": document.pop("history")}
    for name in ("placements", "modes"):
        if document.get(name) is not None:
            tables[name] = document.pop(name)
    write_atomically(path, rows_text(document, tables))


def result_to_dict(result: Result, instance: Instance) -> Document:
    """Return a result as a JSON document.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.interface import result_to_dict
    >>> instance = Instance(
    ...     Cluster.uniform(1, 2), (Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5))),)
    ... )
    >>> document = result_to_dict(solve(instance, "greedy"), instance)
    >>> document["solver"], document["status"]
    ('greedy', 'optimal')
    """
    placements, modes = None, {}
    if result.allocation is not None:
        placements = placements_to_dict(result.allocation, instance)
        modes = modes_to_dict(result.allocation, instance)
    history = [
        [step.seconds, step.iteration, pack_number(step.fitness), pack_number(step.bound)]
        for step in result.history
    ]
    return {
        "format": RESULT_FORMAT,
        "version": VERSION,
        "instance": instance.name,
        "solver": result.solver,
        "status": str(result.status),
        "limit": None if result.limit is None else str(result.limit),
        "gap": pack_number(result.gap),
        **{name: pack_number(getattr(result, name)) for name in _NUMBERS},
        **{name: str(getattr(result, name)) for name in ("bound_source", "evidence", "message")},
        "claimed_bound": pack_number(result.claimed_bound),
        "starved": result.starved,
        "served_fitness": pack_number(result.served_fitness),
        **{name: int(getattr(result, name)) for name in _COUNTS},
        "history": history,
        "placements": placements,
        **modes,
    }


def result_from_dict(document: object, instance: Instance) -> Result:
    """Return the result in a JSON document; the reverse of `result_to_dict`.

    Raises
    ------
    ValueError
        If an entry is missing, unknown or invalid, the document is of another instance, or its
        fitness refutes its bound; the message names the item.
    """
    checked = check_format(document, (RESULT_FORMAT,), VERSION)
    check_keys("Result", checked, _KEYS, ("modes", *_BELIEF, *_PARTS))
    check_instance_name(checked, instance)
    require_choice("Result: status", checked["status"], tuple(map(str, Status)))
    limit = checked["limit"]
    if limit is not None:
        require_choice("Result: limit", limit, tuple(map(str, Limit)))
    for name in _COUNTS:
        require_count(f"Result: {name}", checked[name], minimum=0)
    for name in _TEXTS:
        if name == "solver":
            check_text("Result: solver", checked[name])
        elif not isinstance(checked[name], str):
            raise ValueError(f"Result: {name} is {shown(checked[name])}; expected a string.")
    placements = checked["placements"]
    allocation = None
    if placements is not None:
        allocation = placements_from_dict(placements, instance, checked.get("modes", {}))
    known: dict[str, Any] = {name: checked[name] for name in (*_TEXTS, *_COUNTS)}
    known |= {name: unpack_number(f"Result: {name}", checked[name]) for name in _NUMBERS}
    known["status"] = Status(checked["status"])
    known |= _belief(checked, known)
    if checked.get("starved") is not None:
        require_count("Result: starved", checked["starved"], 0, instance.num_jobs)
        known["starved"] = checked["starved"]
    served = unpack_number("Result: served_fitness", checked.get("served_fitness"))
    return Result(
        instance=instance.name,
        allocation=allocation,
        served_fitness=served,
        limit=None if limit is None else Limit(limit),
        history=tuple(map(_incumbent, check_list("Result: history", checked["history"]))),
        **known,
    )


def _belief(checked: Document, known: dict[str, Any]) -> dict[str, Any]:
    """Return bound, evidence and claimed bound, also for documents without `_BELIEF`."""
    bound, fitness = known["bound"], known["fitness"]
    if "evidence" not in checked and not ships(checked["solver"]):
        status = Status.FEASIBLE if known["status"] is Status.OPTIMAL else known["status"]
        return {"bound": math.inf, "bound_source": "", "claimed_bound": bound, "status": status}
    vouched = str(Evidence.SOLVER if math.isfinite(bound) else Evidence.NONE)
    evidence = checked.get("evidence", vouched)
    require_choice("Result: evidence", evidence, tuple(map(str, Evidence)))
    if refutes(fitness, bound):
        raise ValueError(f"Result: bound is {bound:g}; expected at least the fitness, {fitness:g}.")
    if evidence == Evidence.NONE and (math.isfinite(bound) or known["status"] is Status.OPTIMAL):
        raise ValueError("Result: evidence is 'none'; expected what the bound or status rests on.")
    claimed = unpack_number("Result: claimed_bound", checked.get("claimed_bound", "inf"))
    return {"evidence": Evidence(evidence), "claimed_bound": claimed}


def _incumbent(row: object) -> Incumbent:
    item = "Result: history"
    values = check_list(item, row)
    if len(values) != 4:
        raise ValueError(f"{item}: an entry is {shown(row)}; expected 4 numbers.")
    require_count(f"{item}: iteration", values[1], minimum=0)
    seconds, fitness, bound = (unpack_number(item, values[i]) for i in (0, 2, 3))
    return Incumbent(seconds, values[1], fitness, bound)


def result_row(result: Result) -> dict[str, object]:
    """Return a result as a row of a table, without its allocation and its history; see `COLUMNS`.

    Unknown values are empty, and so is `claimed_bound` where nothing is claimed.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.interface import result_row
    >>> instance = Instance(
    ...     Cluster.uniform(1, 2), (Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5))),)
    ... )
    >>> row = result_row(solve(instance, "greedy"))
    >>> row["solver"], row["claimed_bound"]
    ('greedy', '')
    """
    row: dict[str, object] = {}
    for name in COLUMNS:
        value = getattr(result, name)
        unknown = value is None or (isinstance(value, float) and math.isnan(value))
        row[name] = "" if unknown or (name == "claimed_bound" and value == math.inf) else value
    return row
