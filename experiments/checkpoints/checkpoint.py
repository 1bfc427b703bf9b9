"""File from which a replay is resumed: plain JSON, of which nothing is run.

``goodalloc-replay-checkpoint`` (`data/FORMAT.md`) states the version of the code that wrote it,
since only that version can resume from it, and a digest of the state, which reveals any damage.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import check_format, check_keys, parse, read_text
from goodalloc.experiments.support.version import code_digest, library_version

if TYPE_CHECKING:
    from pathlib import Path

#: Name and version of the format.
FORMAT, VERSION = "goodalloc-replay-checkpoint", 1


class OtherVersion(ValueError):
    """Error of a checkpoint that another version of the code wrote."""


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Parameters
    ----------
    path
        The file.
    state
        The state in terms of JSON, without infinities.

    Raises
    ------
    ValueError
        If the state has an infinity or NaN, or the file cannot be written.
    """
    text = json.dumps(state, allow_nan=False)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "library": library_version(),
        "code": code_digest(),
        "digest": _digest(text),
    }
    write_atomically(path, f'{json.dumps(head)[:-1]}, "state": {text}}}\n')


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state in a checkpoint.

    Raises
    ------
    OtherVersion
        If another version of the code wrote the file.
    ValueError
        If the file cannot be read or was changed.
    """
    document = parse(read_text(path))
    if isinstance(document, dict) and document.get("format") == FORMAT:
        said = tuple(document.get(key) for key in ("version", "library", "code"))
        if said != (VERSION, library_version(), code_digest()):
            raise OtherVersion
    check_format(document, (FORMAT,), VERSION)
    keys = ("format", "version", "library", "code", "digest", "state")
    state = check_keys("Checkpoint", document, keys)["state"]
    if document["digest"] != _digest(json.dumps(state)) or not isinstance(state, dict):
        raise ValueError("its digest is that of another state")
    return state


def _digest(text: str) -> str:
    """Return the digest of a state as JSON."""
    return hashlib.sha256(text.encode()).hexdigest()
