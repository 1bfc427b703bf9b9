"""Output of a command, and checks of files that all commands share."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

#: Exit codes: nothing found or a solver that failed; bad input; Ctrl-C.
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True)
class Output:
    """Text for people, data for machines, and the exit code."""

    text: str
    data: Any
    code: int = 0


def counted(number: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Return a number with a noun whose plural ends with s, as "1 job" and "2 jobs".

    Parameters
    ----------
    number, noun
        The number, and the noun in the singular.
    verbs
        The verb that follows, for one and for several, as "1 job is" and "2 jobs are".
    """
    one = number == 1
    told = f"{number} {noun}{'' if one else 's'}"
    return told if verbs is None else f"{told} {verbs[0 if one else 1]}"


def check_target(path: str | None, *suffixes: str) -> None:
    """Refuse a file that cannot be written, before any time is spent.

    Parameters
    ----------
    path
        The file; None for none.
    suffixes
        Ends of names of what is written, of which a name has one or none; any by default.

    Raises
    ------
    ValueError
        If `path` is a directory, its directory does not exist or cannot be written, or it has
        another suffix.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"File '{path}' is a directory; expected a file.")
    if not target.parent.is_dir():
        raise ValueError(f"File '{path}' cannot be written (no directory '{target.parent}').")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"File '{path}' cannot be written (no permission).")
    if suffixes and target.suffix not in ("", *suffixes):
        raise ValueError(
            f"File '{path}' ends in {target.suffix}; expected {' or '.join(suffixes)}, which is "
            "what is written."
        )


def check_distinct(*paths: str | None) -> None:
    """Refuse to write one file over another that the same command reads or writes.

    Raises
    ------
    ValueError
        If two of `paths`, None aside, lead to the same file.
    """
    seen: set[Path] = set()
    for path in paths:
        if path is None:
            continue
        target = Path(path).resolve()
        if target in seen:
            raise ValueError(f"File '{path}' is named twice; expected different files.")
        seen.add(target)


def check_kept(folder: str, names: Iterable[str], *inputs: str | None) -> None:
    """Refuse inputs that a command would write over.

    Parameters
    ----------
    folder, names
        Folder of the output, and names of its files.
    inputs
        Files that are read, or None.

    Raises
    ------
    ValueError
        If one of them is among the output.
    """
    written = {(Path(folder) / name).resolve() for name in names}
    for path in inputs:
        if path is not None and Path(path).resolve() in written:
            raise ValueError(
                f"File '{path}' would be written over, as results are written to '{folder}'; "
                "expected another folder with --out."
            )


def make_folder(path: str) -> Path:
    """Return the folder `path`, created if necessary.

    Raises
    ------
    ValueError
        If `path` is a file or cannot be created or written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"Folder '{path}' cannot be created ({reason.lower()}).") from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"Folder '{path}' cannot be written (no permission).")
    return folder


def policy_folder(arguments: argparse.Namespace, policy: str) -> Path:
    """Return the folder of the records of a policy, within that of the output."""
    return Path(arguments.out).absolute() / policy.replace(":", ".")


def all_refused(refused: Mapping[Path, str], folder: Path) -> ValueError:
    """Return the error of tasks all of which were refused, and leave no empty folder.

    Parameters
    ----------
    refused
        Complaint of every task, by its folder. The error has the first one, and the names of
        folders with another.
    folder
        Folder of all results, which is removed if nothing was written.
    """
    with contextlib.suppress(OSError):
        folder.rmdir()
    said = {own: complaint.replace(str(own), "") for own, complaint in refused.items()}
    first = next(iter(refused))
    others = [own.name for own in refused if said[own] != said[first]]
    end = f" (Refused for other reasons: {', '.join(others)}.)" if others else ""
    return ValueError(refused[first] + end)


def flat(lists: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    """Return all items of `lists` as one tuple."""
    return tuple(item for items in lists for item in items)


def distinct(option: str, lists: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Return all numbers of an option, each of which counts once.

    Parameters
    ----------
    option
        Name of the option.
    lists
        Its numbers.

    Raises
    ------
    ValueError
        If a number occurs twice.
    """
    found = flat(lists)
    for number in found:
        if found.count(number) > 1:
            raise ValueError(f"argument --{option}: got {number} twice; expected each number once.")
    return found


@contextlib.contextmanager
def telling_what_is_written(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Add to an interrupt of the block which of these files it has written.

    Parameters
    ----------
    folder, names
        Folder and names of the files.
    """
    begin = time.time_ns()
    try:
        yield
    except KeyboardInterrupt:
        files = {name: folder / name for name in names}
        new = [name for name, file in files.items() if _changed(file) >= begin]
        if not new:
            raise
        raise KeyboardInterrupt(f"interrupted; {folder} has {', '.join(new)}.") from None


def _changed(file: Path) -> int:
    """Return when a file was last written, in nanoseconds; 0 if there is none."""
    return file.stat().st_mtime_ns if file.exists() else 0


@contextlib.contextmanager
def drawing(written: str) -> Iterator[None]:
    """Add to an interrupt of the block, which draws figures, that `written` is complete."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted while drawing; {written}.") from None
