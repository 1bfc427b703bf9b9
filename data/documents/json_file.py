"""JSON documents: read strictly, written atomically, every refusal one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.regular_file import read_bytes
from goodalloc.models.support.validation import literal, require_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

#: A JSON object, as read.
Document = dict[str, Any]


class Literal:
    """Literal that JSON does not define (NaN, Infinity), which every check of a value refuses."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        If it is not JSON, is nested beyond reason, or an object names a key twice.

    Examples
    --------
    >>> from goodalloc.data.documents import parse
    >>> parse('{"jobs": [1, 2]}')
    {'jobs': [1, 2]}
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=Literal)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"line {error.lineno}, column {error.colno} is not JSON ({error.msg})."
        ) from error
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply.") from error
    except ValueError as error:
        if "digits" in str(error):  # Python's own limit on the length of whole numbers
            raise ValueError("a whole number has too many digits.") from error
        raise


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                name = document.get("name")
                where = f" of '{name}'" if isinstance(name, str) else ""
                raise ValueError(
                    f"key {literal(key)}{where} is given twice; expected each key once."
                )
            seen.add(key)
    return document


def read_text(path: str | os.PathLike[str], kind: str = "JSON") -> str:
    """Read the text of a file.

    Parameters
    ----------
    path
        The file.
    kind
        Expected kind of value, for messages.

    Raises
    ------
    ValueError
        If it is no file or cannot be read, is empty, or is not UTF-8 text.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import read_text
    >>> _ = Path("a.json").write_text("{}")
    >>> read_text("a.json")
    '{}'
    """
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"File '{path}' is not UTF-8 text (byte {error.start}); expected a {kind} file."
        ) from error
    if not text.strip():
        raise ValueError(f"File '{path}' is empty; expected a {kind} file.")
    return text


def read_document(path: str | os.PathLike[str], formats: Iterable[str]) -> Document:
    """Read the object in a file of one of our formats, version 1.

    Raises
    ------
    ValueError
        If the file cannot be read or is of another format or version; the sentence names the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import read_document
    >>> _ = Path("mine.json").write_text('{"format": "mine", "version": 1, "jobs": 3}')
    >>> read_document("mine.json", ("mine",))["jobs"]
    3
    """
    text = read_text(path)
    try:
        return check_format(parse(text), formats)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def in_file(path: str | os.PathLike[str], error: ValueError) -> str:
    """Return the sentence of an error, preceded by the file in which it occurred.

    Examples
    --------
    >>> from goodalloc.data.documents import in_file
    >>> in_file("round.json", ValueError("Job 'a': gpus is 0; expected at least 1."))
    "File 'round.json': Job 'a': gpus is 0; expected at least 1."
    """
    return f"File '{path}': {error}"


def check_format(document: object, formats: Iterable[str], version: int = 1) -> Document:
    """Return the document if it is an object of one of the formats and of that version.

    Examples
    --------
    >>> from goodalloc.data.documents import check_format
    >>> document = {"format": "mine", "version": 1}
    >>> check_format(document, ("mine",)) is document
    True
    """
    expected = " or ".join(f"'{name}'" for name in formats)
    if not isinstance(document, dict):
        raise ValueError(f"the document is {shown(document)}; expected an object of {expected}.")
    for key, wanted in (("format", expected), ("version", str(version))):
        if key not in document:
            raise ValueError(f"key '{key}' is missing; expected {wanted}.")
    if document["format"] not in formats:
        raise ValueError(f"format is {shown(document['format'])}; expected {expected}.")
    found = document["version"]
    if type(found) is not int or found != version:
        raise ValueError(f"version is {shown(found)}; expected {version}.")
    return document


def check_object(item: str, value: object) -> Document:
    """Return the value if it is an object.

    Examples
    --------
    >>> from goodalloc.data.documents import check_object
    >>> check_object("Job 'a'", {"gpus": 2})
    {'gpus': 2}
    """
    if not isinstance(value, dict):
        raise ValueError(f"{item} is {shown(value)}; expected an object.")
    return value


def check_keys(
    item: str, value: object, required: Iterable[str], optional: Iterable[str] = ()
) -> Document:
    """Return the value if it is an object with all required keys and no unknown ones.

    Examples
    --------
    >>> from goodalloc.data.documents import check_keys
    >>> check_keys("Job 'a'", {"gpus": 2}, required=("gpus",), optional=("cores",))
    {'gpus': 2}
    """
    found, required, optional = check_object(item, value), tuple(required), tuple(optional)
    known = (*required, *optional)
    for key in found:
        if key not in known:
            meant = "".join(f" (did you mean '{k}'?)" for k in get_close_matches(key, known, 1))
            raise ValueError(
                f"{item}: key {literal(key)} is unknown{meant}; expected one of {', '.join(known)}."
            )
    for key in required:
        if key not in found:
            raise ValueError(f"{item}: key '{key}' is missing.")
    return found


def check_list(item: str, value: object) -> list[Any]:
    """Return the value if it is a list.

    Examples
    --------
    >>> from goodalloc.data.documents import check_list
    >>> check_list("Jobs", [1, 2])
    [1, 2]
    """
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{item} is {shown(value)}; expected a list.")
    return list(value)


def check_text(item: str, value: object) -> str:
    """Return the value if it is a string of printable characters, possibly empty.

    Examples
    --------
    >>> from goodalloc.data.documents import check_text
    >>> check_text("Name", "job-1")
    'job-1'
    """
    if value == "":
        return ""
    require_name(item, value)
    return str(value)


def as_float(value: object) -> Any:
    """Return an integer as a float; other values, and too large integers, unchanged.

    Examples
    --------
    >>> from goodalloc.data.documents import as_float
    >>> as_float(3), as_float("3")
    (3.0, '3')
    """
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return value
    return value


def pack_number(value: float) -> float | str | None:
    """Return a number in JSON's terms: infinities as ``"inf"`` and ``"-inf"``, NaN as null.

    Examples
    --------
    >>> from math import inf, nan
    >>> from goodalloc.data.documents import pack_number
    >>> pack_number(0.5), pack_number(-inf), pack_number(nan)
    (0.5, '-inf', None)
    """
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(value)


def unpack_number(item: str, value: object) -> float:
    """Return the number that `pack_number` packed.

    Examples
    --------
    >>> from goodalloc.data.documents import unpack_number
    >>> unpack_number("Bound", "inf")
    inf
    """
    if value is None:
        return math.nan
    if value in ("inf", "-inf"):
        return float(str(value))
    number = as_float(value)
    if type(number) is not float or math.isinf(number):
        raise ValueError(f"{item} is {shown(value)}; expected a number, 'inf', '-inf' or null.")
    return number


def shown(value: object) -> str:
    """Return a value of a document for a message; long ones by their length only.

    Examples
    --------
    >>> from goodalloc.data.documents import shown
    >>> shown("a"), shown([0] * 100)
    ("'a'", 'a list of 100 entries')
    """
    if isinstance(value, (dict, list)) and len(value) > 4:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    return literal(value)


def rows_text(head: Mapping[str, Any], tables: Mapping[str, Any]) -> str:
    """Return a JSON object as indented text, with each entry of its tables on one line.

    Examples
    --------
    >>> from goodalloc.data.documents import rows_text
    >>> print(rows_text({"version": 1}, {"jobs": [{"gpus": 1}, {"gpus": 2}]}))
    {
     "version": 1,
     "jobs": [
      {"gpus": 1},
      {"gpus": 2}
     ]
    }
    """
    parts = [f" {json.dumps(key)}: {dump(value)}" for key, value in head.items()]
    for key, table in tables.items():
        if isinstance(table, Mapping):
            lines = [f"  {json.dumps(k, ensure_ascii=False)}: {dump(v)}" for k, v in table.items()]
            opening, closing = "{", "}"
        else:
            lines = [f"  {dump(value)}" for value in table]
            opening, closing = "[", "]"
        body = "\n" + ",\n".join(lines) + "\n " if lines else ""
        parts.append(f" {json.dumps(key)}: {opening}{body}{closing}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def dump(value: object) -> str:
    """Return one line of JSON, floats by their shortest exact decimal.

    Examples
    --------
    >>> from goodalloc.data.documents import dump
    >>> dump({"gap": 0.1, "jobs": [1, 2]})
    '{"gap": 0.1, "jobs": [1, 2]}'
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
