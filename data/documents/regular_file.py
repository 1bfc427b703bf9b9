"""Reading of files that users name: regular files only, of at most `LARGEST_FILE` bytes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

#: Bytes of the largest file that is read.
LARGEST_FILE = 2**30

#: Where a pipe took the place of a file meanwhile, nobody is waited for.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, and refuse pipes and devices, which may have no end.

    Raises
    ------
    ValueError
        If `path` is not a regular file, does not exist, cannot be opened or is larger than
        `LARGEST_FILE`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import open_regular
    >>> _ = Path("a.txt").write_text("text")
    >>> file = open_regular("a.txt")
    >>> file.read()
    b'text'
    >>> file.close()
    """
    handle = -1
    try:
        fault = _fault(os.stat(path))  # merely to open a device may do something
        if not fault:
            handle = os.open(path, _FLAGS)
            fault = _fault(os.fstat(handle))
    except FileNotFoundError as error:
        raise ValueError(f"File '{path}' does not exist.") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"File '{path}' cannot be read ({_reason(error)}).") from error
    if fault:
        if handle >= 0:
            os.close(handle)
        raise ValueError(f"File '{path}' {fault}.")
    return os.fdopen(handle, "rb")


def _fault(found: os.stat_result) -> str:
    """Return why a path cannot be read, as a part of a sentence; empty if it can."""
    if not stat.S_ISREG(found.st_mode):
        return f"is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}; expected a file"
    if found.st_size > LARGEST_FILE:
        return f"has {found.st_size} bytes; expected at most {LARGEST_FILE}"
    return ""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read the content of a file.

    Raises
    ------
    ValueError
        As `open_regular`, or if it cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import read_bytes
    >>> _ = Path("a.txt").write_text("text")
    >>> read_bytes("a.txt")
    b'text'
    """
    with open_regular(path) as stream:
        try:
            return stream.read(LARGEST_FILE)
        except OSError as error:
            raise ValueError(f"File '{path}' cannot be read ({_reason(error)}).") from error


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
