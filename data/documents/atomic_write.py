"""Files written as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from functools import partial
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a file atomically: write a temporary file, then rename it.

    An existing file keeps its mode and, where permitted, its owner. If `path` is a link, the file
    that it points to is replaced.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import write_atomically
    >>> write_atomically("a.txt", "text")
    >>> Path("a.txt").read_text()
    'text'
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes as `write_atomically` writes text.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import write_bytes_atomically
    >>> write_bytes_atomically("a.bin", b"bytes")
    >>> Path("a.bin").read_bytes()
    b'bytes'
    """
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise ValueError(f"File '{path}' is a directory; expected a file.")
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        former = target.stat() if target.exists() else None
        temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
        # nobody else may read what replaces a private file, not for a moment
        mode = 0o666 if former is None else 0o600
        try:
            with open(temporary, "xb", opener=partial(os.open, mode=mode)) as stream:
                stream.write(content)
            if former is not None:
                _keep_access(temporary, former)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # the latter of links in a circle
        raise ValueError(f"File '{path}' cannot be written ({_reason(error)}).") from error


def _keep_access(path: Path, former: os.stat_result) -> None:
    """Give a file the owner, if that is allowed, and the mode that another had."""
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(path, former.st_uid, former.st_gid)
    path.chmod(stat.S_IMODE(former.st_mode))


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
