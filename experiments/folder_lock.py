"""One process at a time writes to a folder."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder; the system frees it however this one ends.

    Raises
    ------
    ValueError
        If another process holds it, or it cannot be opened.
    """
    if sys.platform == "win32":  # the standard library has no such lock there
        yield
        return
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ValueError(f"Folder '{folder}' cannot be opened ({error.strerror}).") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise ValueError(
            f"Folder '{folder}' is being written by another run; "
            "wait for it to end or choose another folder."
        ) from error
    try:
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def measuring_alone(folder: Path, what: str) -> Iterator[None]:
    """Measure nothing else in a folder meanwhile.

    Parameters
    ----------
    folder
        Which all such measurements share.
    what
        Is measured, as a sentence begins.

    Raises
    ------
    ValueError
        If something else is being measured there.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except ValueError as error:
            raise ValueError(
                f"{what} are measured one after the other, or each would slow the other down; "
                f"expected no other run in '{folder}'."
            ) from error
        yield
