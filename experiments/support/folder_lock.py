"""Locks of folders, so that one process at a time writes to each."""

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

#: Patience that suffices while others only look at a lock (`is_locked`), in seconds.
LOCK_SECONDS = 1.0


@contextlib.contextmanager
def locked(folder: Path, refusal: str = "", patience: float = 0.0) -> Iterator[tuple[int, ...]]:
    """Hold the lock of a folder, which the system releases when this process ends.

    The value is the handle of the lock, none on systems without locks; a child that inherits it
    holds the lock too.

    Parameters
    ----------
    folder
        The folder.
    refusal
        Message if another process holds the lock.
    patience
        Seconds to wait for another process to release the lock.

    Raises
    ------
    ValueError
        If another process holds the lock, or the folder cannot be opened or locked.
    """
    if sys.platform == "win32":  # the standard library has no such lock on Windows
        yield ()
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ValueError(f"Folder '{folder}' cannot be opened ({error.strerror}).") from error
    try:
        deadline = time.monotonic() + patience
        while not _lock(handle, folder):
            if time.monotonic() >= deadline:
                raise ValueError(
                    refusal
                    or f"Folder '{folder}' is being written by another run; "
                    "wait for it to end or choose another folder."
                )
            time.sleep(GLANCE)
        yield (handle,)
    finally:
        os.close(handle)


def measuring_alone(folder: Path, what: str) -> contextlib.AbstractContextManager[object]:
    """Return a context in which no other measurement of the same folder runs.

    Parameters
    ----------
    folder
        Folder that all such measurements share.
    what
        Name of the measured quantities, as the beginning of a sentence.

    Raises
    ------
    ValueError
        If another measurement of the folder runs.
    """
    refusal = (
        f"{what} are measured one after the other, or each would slow the other down; "
        f"expected no other run in '{folder}'."
    )
    return locked(folder, refusal)


def make_folder(folder: Path) -> None:
    """Make a folder, unless it exists.

    Raises
    ------
    ValueError
        If the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"Folder '{folder}' cannot be made ({reason}).") from error


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder.

    The look itself holds the lock for a moment, so that lockers need `LOCK_SECONDS` of patience.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        # shared, so that two looks do not see each other
        return not _lock(handle, folder, shared=True)
    finally:
        os.close(handle)


def require_locks(item: str) -> None:
    """Refuse an item where folders cannot be locked.

    Raises
    ------
    ValueError
        If this system is Windows.
    """
    if sys.platform == "win32":
        raise ValueError(f"{item} needs locks that Windows does not have; expected another system.")


def _lock(handle: int, folder: Path, *, shared: bool = False) -> bool:
    """Lock an open folder; return False if another process holds the lock.

    Raises
    ------
    ValueError
        If its file system has no locks.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ValueError(
            f"Folder '{folder}' cannot be locked ({error.strerror}); expected a file system with "
            "locks."
        ) from error
    return True
