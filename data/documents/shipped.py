"""Documents that ship with the package: how they are read, and how they are derived anew."""

from __future__ import annotations

import argparse
import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import check_format, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.data.documents.json_file import Document

#: Significant digits of the numbers of a derived document.
DIGITS = 12


def read_shipped(path: str) -> str:
    """Read the text of a shipped file, by its path below this folder.

    Examples
    --------
    >>> from goodalloc.data.documents import read_shipped
    >>> read_shipped("profiles/applications.json")[:1]
    '{'
    """
    return resources.files("goodalloc.data").joinpath(*path.split("/")).read_text(encoding="utf-8")


def parse_document(text: str, name: str, version: int) -> Document:
    """Return the object of a text, of this format and version.

    Raises
    ------
    ValueError
        If it is not JSON, or of another format or version.

    Examples
    --------
    >>> from goodalloc.data.documents import parse_document
    >>> parse_document('{"format": "mine", "version": 1, "jobs": 3}', "mine", 1)["jobs"]
    3
    """
    return check_format(parse(text), (name,), version)


def write_document(value: object, indent: str = "") -> str:
    """Return JSON with sorted keys, a line per list of numbers and numbers of 12 digits.

    Parameters
    ----------
    value
        Nested dictionaries, lists and scalars.
    indent
        White space in front of the closing bracket.
    """
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {write_document(value[key], inner)}" for key in sorted(value)]
        return _block("{", items, "}", indent)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return _block("[", [write_document(item, inner) for item in value], "]", indent)
    if isinstance(value, list):
        return "[" + ", ".join(write_document(item) for item in value) + "]"
    if isinstance(value, float):
        value = float(f"{value:.{DIGITS}g}")
    return json.dumps(value)


def _block(opening: str, items: Sequence[str], closing: str, indent: str) -> str:
    """Return each item on a line of its own."""
    lines = ",\n".join(f"{indent}  {item}" for item in items)
    return f"{opening}\n{lines}\n{indent}{closing}"


def run_fit(
    derive: Callable[[Path], Document],
    path: str,
    holds: str,
    arguments: Sequence[str] | None,
    *,
    text: Callable[[Any], str] = write_document,
) -> None:
    """Derive a document from published data and write it, as a command line asks.

    Parameters
    ----------
    derive
        Makes the document from the folder of the published data.
    path
        Path below this folder, the default target.
    holds
        Contents of the folder of published data, for the help text.
    arguments
        Arguments of the command line; None for those of the process.
    text
        Writes a document out.
    """
    parser = argparse.ArgumentParser(description=f"Derive the shipped file {path}.")
    parser.add_argument("--reference", type=Path, required=True, help=f"folder that holds {holds}")
    shipped = Path(__file__).parent.parent / path
    parser.add_argument("--out", type=Path, default=shipped, help="file to write")
    options = parser.parse_args(arguments)
    write_atomically(options.out, text(derive(options.reference)) + "\n")
