"""Folders of records: what each is for, and that nothing else goes into it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import dump, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DESCRIPTION = "replay.json"


def check_description(path: Path, description: Mapping[str, Any]) -> None:
    """Write down what a folder is for, and refuse one that is for something else.

    Raises
    ------
    ValueError
        If the file is there and says something else, or cannot be written.
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
    """What to do with the records of another version's code, in a sentence."""
    return (
        f"Folder '{folder}' was begun by another version of goodalloc; remove it or take another "
        "folder."
    )


def _values(text: str) -> dict[str, Any]:
    """What a description says; nothing where it cannot be read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def digest(description: Mapping[str, Any]) -> str:
    """Twelve characters that tell descriptions apart; equal ones have the same."""
    return hashlib.sha256(dump(description).encode()).hexdigest()[:12]
