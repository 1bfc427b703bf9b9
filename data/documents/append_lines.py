"""Files that grow by whole lines, whatever interrupts their writer."""

from __future__ import annotations

import os
from pathlib import Path


def append_lines(path: str | os.PathLike[str], text: str, heading: str = "") -> None:
    """Append lines, which are all on the disk when this returns, or none of them.

    None where it raises a `ValueError`; after an interrupt the one or the other. A last line that
    was never finished, as a power cut may leave it, is cut off before. A file has one writer at a
    time.

    Parameters
    ----------
    path
        The file; made if there is none.
    text
        The lines, each with its end.
    heading
        Lines that come first where the file is empty.

    Raises
    ------
    ValueError
        If the lines cannot be written, for instance on a full disk.
    """
    try:
        cut_unfinished(path)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            _append(handle, text, heading)
        finally:
            os.close(handle)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"File '{path}' cannot be written ({reason}).") from error


def _append(handle: int, text: str, heading: str) -> None:
    before = os.fstat(handle).st_size
    rest = memoryview((text if before else heading + text).encode("utf-8"))
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]  # which may take less than it was given
        os.fsync(handle)
    except BaseException as error:
        if rest or isinstance(error, OSError):
            os.ftruncate(handle, before)
        raise


def cut_unfinished(path: str | os.PathLike[str]) -> None:
    """Remove an unfinished last line; do nothing without a file.

    Raises
    ------
    OSError
        If the file cannot be read or written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import cut_unfinished
    >>> _ = Path("rows.jsonl").write_text("[1]\\n[2]\\n[3")
    >>> cut_unfinished("rows.jsonl")
    >>> Path("rows.jsonl").read_text()
    '[1]\\n[2]\\n'
    """
    try:
        with Path(path).open("r+b") as stream:
            size = stream.seek(0, os.SEEK_END)
            if size == 0:
                return
            stream.seek(size - 1)
            if stream.read() != b"\n":
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return
