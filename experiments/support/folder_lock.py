"""One process at a time writes to a folder."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Seconds between two tries to lock a folder.
GLANCE = 0.05

LOCK_SECONDS = 1.0
"""Patience in which whoever only asks about a folder (`is_locked`) has let go of it."""


@contextlib.contextmanager
def locked(folder: Path, refusal: str = "", patience: float = 0.0) -> Iterator[tuple[int, ...]]:
    """Keep other processes from writing to a folder; the system frees it however this one ends.

    Gives the handle of the lock, none where there are no locks: a child that is given it holds the
    lock too.

    Parameters
    ----------
    folder
        The folder.
    refusal
        What to say if another process holds it.
    patience
        Seconds in which whoever holds it may let go.

    Raises
    ------
    ValueError
        If another process holds it, or it cannot be opened.
    """
    if sys.platform == "win32":  # the standard library has no such lock there
        yield ()
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ValueError(f"Folder '{folder}' cannot be opened ({error.strerror}).") from error
    deadline = time.monotonic() + patience
    while not _lock(handle):
        if time.monotonic() >= deadline:
            os.close(handle)
            raise ValueError(
                refusal
                or f"Folder '{folder}' is being written by another run; "
                "wait for it to end or choose another folder."
            )
        time.sleep(GLANCE)
    try:
        yield (handle,)
    finally:
        os.close(handle)


def measuring_alone(folder: Path, what: str) -> contextlib.AbstractContextManager[object]:
    """A context in which nothing else is measured in a folder.

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
    refusal = (
        f"{what} are measured one after the other, or each would slow the other down; "
        f"expected no other run in '{folder}'."
    )
    return locked(folder, refusal)


def make_folder(folder: Path) -> None:
    """Make a folder, unless it is there.

    Raises
    ------
    ValueError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"Folder '{folder}' cannot be made ({reason}).") from error


def is_locked(folder: Path) -> bool:
    """Whether a process holds a folder; to ask holds it for a moment, so be patient to lock it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _lock(handle, shared=True)  # who asks does not see others who ask
    finally:
        os.close(handle)


def require_locks(item: str) -> None:
    """Refuse an item where folders cannot be locked.

    Raises
    ------
    ValueError
        On Windows.
    """
    if sys.platform == "win32":
        raise ValueError(f"{item} needs locks that Windows does not have; expected another system.")


def _lock(handle: int, *, shared: bool = False) -> bool:
    """Lock what a handle is open on, unless somebody else has."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
