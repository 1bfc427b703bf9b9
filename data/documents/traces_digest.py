"""Digest of a folder of measurements."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from goodalloc.data.documents.regular_file import read_bytes


@lru_cache(maxsize=8)
def traces_digest(folder: str | None) -> str:
    """Return a digest of the names and contents of all CSV files of a folder; empty for None.

    Raises
    ------
    ValueError
        If there is no such folder.
    """
    if folder is None:
        return ""
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"Folder '{folder}': there is no such folder; expected measurements.")
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.csv")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(read_bytes(path))
    return digest.hexdigest()[:12]
