"""Time sharing and shares as files: versioned JSON, documented in `FORMAT.md`."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_format,
    check_keys,
    check_list,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.models.gavel.share_goal import Gain, Level, Total, Worst, require_goal
from goodalloc.models.gavel.time_sharing import TimeSharing, real_rates
from goodalloc.models.support.validation import real_array, require_choice, require_name

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.support.array_types import Floats


SHARING_FORMAT = "goodalloc-time-sharing"
SHARES_FORMAT = "goodalloc-time-shares"
VERSION = 1

#: Goals by their names, and the names of their numbers.
GOALS: dict[str, tuple[type[Goal], tuple[str, ...]]] = {
    "worst": (Worst, ("delay", "work")),
    "total": (Total, ("delay", "work")),
    "gain": (Gain, ("worth",)),
    "level": (Level, ("floor", "step")),
}

_ARRAYS = ("rate", "gpus", "replicas", "pairs", "pair_rate", "cluster_gpus")
_KEYS = ("format", "version", "names", *_ARRAYS, "goal", "promised")


class ShareProblem(NamedTuple):
    """Problem of `best_shares`.

    Attributes
    ----------
    sharing
        Jobs, GPUs and rates.
    goal
        Objective.
    promised
        Least steps per second of every job, shape (jobs,); None for no promises.
    """

    sharing: TimeSharing
    goal: Goal
    promised: Floats | None = None


def read_time_sharing(path: str | os.PathLike[str]) -> ShareProblem:
    """Read the problem in a file.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.

    Examples
    --------
    >>> from goodalloc.data.documents import dump, write_atomically
    >>> from goodalloc.data.gavel import ShareProblem, read_time_sharing, time_sharing_to_dict
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])
    >>> problem = ShareProblem(sharing, max_min(sharing))
    >>> write_atomically("problem.json", dump(time_sharing_to_dict(problem)))
    >>> read_time_sharing("problem.json").sharing.num_jobs
    2
    """
    document = read_document(path, (SHARING_FORMAT,))
    try:
        return time_sharing_from_dict(document)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_time_sharing(problem: ShareProblem, path: str | os.PathLike[str]) -> None:
    """Write a problem to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written, or the goal or the promises are of other jobs.
    """
    document = time_sharing_to_dict(problem)
    tables = {name: document.pop(name) for name in ("rate", "pairs", "pair_rate")}
    write_atomically(path, rows_text(document, tables))


def time_sharing_to_dict(problem: ShareProblem) -> Document:
    """Return a problem as a JSON object; see `FORMAT.md`.

    Raises
    ------
    ValueError
        If the goal or the promises are of other jobs.

    Examples
    --------
    >>> from goodalloc.data.gavel import ShareProblem, time_sharing_to_dict
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])
    >>> time_sharing_to_dict(ShareProblem(sharing, max_min(sharing)))["gpus"]
    [1]
    """
    sharing, goal, promised = problem
    require_goal(sharing, goal)
    if promised is not None:
        promised = real_rates("Promised rates", promised, (sharing.num_jobs,))
    kind, (_, fields) = next(item for item in GOALS.items() if type(goal) is item[1][0])
    return {
        "format": SHARING_FORMAT,
        "version": VERSION,
        "names": list(sharing.names),
        **{name: getattr(sharing, name).tolist() for name in _ARRAYS},
        "goal": {"kind": kind, **{name: getattr(goal, name).tolist() for name in fields}},
        "promised": None if promised is None else promised.tolist(),
    }


def time_sharing_from_dict(document: object) -> ShareProblem:
    """Return the problem of a document of `time_sharing_to_dict`.

    Raises
    ------
    ValueError
        If the document is malformed or a value is out of range; the message names the item.
    """
    checked = check_format(document, (SHARING_FORMAT,), VERSION)
    check_keys("Time sharing", checked, _KEYS)
    found: dict[str, Any] = {name: numbers(f"Key '{name}'", checked[name]) for name in _ARRAYS}
    if not found["pairs"] and not found["pair_rate"]:
        found["pairs"] = found["pair_rate"] = None
    sharing = TimeSharing(_names(checked["names"]), **found)
    goal = _goal(checked["goal"])
    require_goal(sharing, goal)
    promised = checked["promised"]
    if promised is not None:
        listed = numbers("Promised rates", promised)
        promised = real_rates("Promised rates", listed, (sharing.num_jobs,))
    return ShareProblem(sharing, goal, promised)


def _goal(value: object) -> Goal:
    if not isinstance(value, dict) or "kind" not in value:
        expected = f"an object with its kind, one of {', '.join(GOALS)}"
        raise ValueError(f"Goal is {shown(value)}; expected {expected}.")
    require_choice("Goal: kind", value["kind"], tuple(GOALS))
    goal, fields = GOALS[value["kind"]]
    check_keys("Goal", value, ("kind", *fields))
    arrays: Any = {name: numbers(f"Goal: {name}", value[name]) for name in fields}
    return goal(**arrays)


def digest_of(document: Document) -> str:
    """Return the SHA-256 of a document, invariant to order, spaces and 1 for 1.0.

    Examples
    --------
    >>> from goodalloc.data.gavel import digest_of
    >>> digest_of({"a": 1, "b": 2.0}) == digest_of({"b": 2, "a": 1.0})
    True
    """
    even = json.loads(json.dumps(document), parse_int=float)
    text = json.dumps(even, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_time_shares(path: str | os.PathLike[str], sharing: TimeSharing) -> Floats | None:
    """Read the shares in a file, shape (lines, types); None if the file has none.

    They need not keep to the limits; ask `share_violations`.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or of other jobs.

    Examples
    --------
    >>> from goodalloc.data.documents import dump, write_atomically
    >>> from goodalloc.data.gavel import read_time_shares
    >>> from goodalloc.models.gavel import TimeSharing
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])
    >>> head = {"format": "goodalloc-time-shares", "version": 1, "names": ["a", "b"]}
    >>> write_atomically("shares.json", dump(head | {"shares": [[0.5], [0.5]]}))
    >>> read_time_shares("shares.json", sharing).tolist()
    [[0.5], [0.5]]
    """
    document = read_document(path, (SHARES_FORMAT,))
    try:
        return time_shares_from_dict(document, sharing)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_time_shares(
    shares: Floats | None, sharing: TimeSharing, path: str | os.PathLike[str]
) -> None:
    """Write shares to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written, or the shares are of other jobs.
    """
    document = time_shares_to_dict(shares, sharing)
    tables = {} if shares is None else {"shares": document.pop("shares")}
    write_atomically(path, rows_text(document, tables))


def time_shares_to_dict(shares: Floats | None, sharing: TimeSharing) -> Document:
    """Return shares as a JSON object; see `FORMAT.md`.

    Raises
    ------
    ValueError
        If they are of other jobs or no finite numbers.
    """
    found = None if shares is None else _shares(shares, sharing).tolist()
    return {
        "format": SHARES_FORMAT,
        "version": VERSION,
        "names": list(sharing.names),
        "shares": found,
    }


def time_shares_from_dict(document: object, sharing: TimeSharing) -> Floats | None:
    """Return the shares of a document of `time_shares_to_dict`.

    Raises
    ------
    ValueError
        If the document is malformed or a value is out of range; the message names the item.
    """
    checked = check_format(document, (SHARES_FORMAT,), VERSION)
    check_keys("Time shares", checked, ("format", "version", "names", "shares"))
    names = _names(checked["names"])
    if names != sharing.names:
        raise ValueError(
            f"Time shares: names are {shown(list(names))}; expected {shown(list(sharing.names))}."
        )
    if checked["shares"] is None:
        return None
    return _shares(numbers("Shares", checked["shares"]), sharing)


def _shares(values: object, sharing: TimeSharing) -> Floats:
    found = real_array("Shares", values, (sharing.num_lines, sharing.num_types))
    wrong = found[~np.isfinite(found)]
    if wrong.size:
        raise ValueError(f"Shares are {wrong[0]} somewhere; expected finite numbers.")
    return found


def _names(value: object) -> tuple[str, ...]:
    names = check_list("Key 'names'", value)
    for name in names:
        require_name("Key 'names'", name)
    return tuple(names)


def numbers(item: str, value: object, depth: int = 3) -> list[Any]:
    """Return lists of numbers, and of nothing else, as lists of floats.

    Parameters
    ----------
    item
        Plural noun of the lists, for messages.
    value
        The lists.
    depth
        How deep they may be nested.

    Raises
    ------
    ValueError
        If there is anything else.

    Examples
    --------
    >>> from goodalloc.data.gavel import numbers
    >>> numbers("Rates", [[1, 2], [3, 4.5]], depth=2)
    [[1.0, 2.0], [3.0, 4.5]]
    """
    return [
        numbers(item, entry, depth - 1)
        if depth > 1 and isinstance(entry, list)
        else _number(item, entry)
        for entry in check_list(item, value)
    ]


def _number(item: str, value: object) -> float:
    number = as_float(value)
    if type(number) is not float:
        raise ValueError(f"{item}: an entry is {shown(value)}; expected a number.")
    return number
