"""Descriptions of folders of records, which keep different records apart."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: File of the description in its folder.
DESCRIPTION = "replay.json"


def check_description(path: Path, description: Mapping[str, Any]) -> None:
    """Write the description of a folder, and refuse a folder that has another one.

    Raises
    ------
    ValueError
        If the file exists with another description, or cannot be written.
    """
    text = dump(dict(description)) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        other, mine = _values(path.read_text(encoding="utf-8")), _values(text)
        different = sorted(name for name in {*mine, *other} if other.get(name) != mine.get(name))
        if different == ["library"]:
            raise ValueError(begun_otherwise(path.parent))
        raise ValueError(
            f"Folder '{path.parent}' holds another replay: {', '.join(different)} in its "
            f"{path.name} differ{'s' if len(different) == 1 else ''}; take another folder, or "
            "remove this one."
        )
    write_atomically(path, text)


def begun_otherwise(folder: Path) -> str:
    """Return the message on records of another version of the code."""
    return (
        f"Folder '{folder}' was begun by another version of goodalloc; remove it or take another "
        "folder."
    )


def _values(text: str) -> dict[str, Any]:
    """Return the values of a description; none if it cannot be read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def digest(description: Mapping[str, Any]) -> str:
    """Return a digest of a description, of twelve characters."""
    return hashlib.sha256(dump(description).encode()).hexdigest()[:12]
