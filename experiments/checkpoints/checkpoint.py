"""The file that a replay goes on from: plain JSON, of which nothing is ever run.

``goodalloc-replay-checkpoint`` (`data/FORMAT.md`) says which version of the code wrote it, since
only that one can go on from it, and holds a digest of the state, so that no damage goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import (
    check_format,
    check_keys,
    parse,
    read_text,
    write_atomically,
)
from goodalloc.experiments.support.version import code_digest, library_version

if TYPE_CHECKING:
    from pathlib import Path

FORMAT, VERSION = "goodalloc-replay-checkpoint", 1


class OtherVersion(ValueError):
    """A checkpoint that another version of the code wrote."""


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; it is there as a whole or not at all.

    Parameters
    ----------
    path
        The file.
    state
        What JSON knows, without infinities.

    Raises
    ------
    ValueError
        If it cannot be written.
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
    """The state that was written.

    Raises
    ------
    OtherVersion
        If another version of the code wrote it.
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
    return hashlib.sha256(text.encode()).hexdigest()
