"""Renewal of stored results that are older than their code, by the commands that made them.

A result whose quick rows are stored is first confirmed by them, which takes a part of the time. It
is made anew where they come out otherwise, or where there are none.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.studies.artifacts import ARTIFACTS
from goodalloc.experiments.studies.documents import QUICK, stored_names, stored_result
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.studies.framework.stored_result import ResultOrigin

    #: Function that runs a command and returns what it complains of; empty if it succeeds.
    Run = Callable[[Sequence[str]], str]

#: Word of stored commands that stands for a folder of published data.
PLACEHOLDER = "ARTIFACT"


#: Outcomes after which a result is that of the present code.
DONE = ("confirmed", "stored")


class Stale(NamedTuple):
    """Stored result that is older than its code.

    Attributes
    ----------
    name
        Name of the study.
    origin
        Origin of its result.
    quick
        Origin of its quick result; None if none is stored.
    """

    name: str
    origin: ResultOrigin
    quick: ResultOrigin | None


class Renewed(NamedTuple):
    """Outcome of one renewal.

    Attributes
    ----------
    result
        Name of the study.
    outcome
        "confirmed", "stored", or why it was left.
    minutes
        Minutes that it took.
    """

    result: str
    outcome: str
    minutes: float


@dataclass(frozen=True)
class Renewal:
    """Commands that renew a stale result.

    Parameters
    ----------
    artifacts
        Folders of published data, by the names of `ARTIFACTS`.
    out
        Folder in which the studies work; what is there from earlier runs is used.
    """

    artifacts: Mapping[str, Path]
    out: Path

    def __post_init__(self) -> None:
        for name, folder in self.artifacts.items():
            if name not in ARTIFACTS:
                raise ValueError(
                    f"Artifact '{name}' does not exist{did_you_mean(name, ARTIFACTS)}; expected "
                    f"one of {', '.join(ARTIFACTS)}."
                )
            if not folder.is_dir():
                raise ValueError(f"Artifact '{name}': '{folder}' is no folder; expected one.")

    def command(self, study: str, origin: ResultOrigin, option: str) -> list[str]:
        """Return the stored command with an option, and the folder of its data.

        Raises
        ------
        ValueError
            If the folder of its data is not given; the message names it.
        """
        _, *words = shlex.split(origin.command)
        if PLACEHOLDER in words:
            (name,) = (one for one, studies in ARTIFACTS.items() if study in studies)
            if name not in self.artifacts:
                raise ValueError(f"left: expected --artifact {name}=FOLDER")
            words[words.index(PLACEHOLDER)] = str(self.artifacts[name])
        return [*words, option, "--out", str(self.out)]


def stale_results() -> tuple[Stale, ...]:
    """Return the stored results of which some module, or one of their quick rows', has changed."""
    names, found = stored_names(), []
    for name in names:
        if name.endswith(QUICK):
            continue
        origin = stored_result(name).origin
        quick = stored_result(f"{name}{QUICK}").origin if f"{name}{QUICK}" in names else None
        if origin.changed_modules or (quick is not None and quick.changed_modules):
            found.append(Stale(name, origin, quick))
    return tuple(found)


def run_command(words: Sequence[str]) -> str:
    """Run a goodalloc command in a process of its own; return what it complains of."""
    command = [sys.executable, "-P", "-m", "goodalloc.experiments.cli.main", *words]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def renew(results: Sequence[Stale], renewal: Renewal, run: Run = run_command) -> Iterator[Renewed]:
    """Renew stale results, one after the other, and yield the outcome of each.

    Parameters
    ----------
    results
        The stale results.
    renewal
        Folders of published data, and the folder to work in.
    run
        Function that runs a command.
    """
    for result in results:
        begin = time.perf_counter()
        outcome = _renew(result, renewal, run)
        yield Renewed(result.name, outcome, round((time.perf_counter() - begin) / 60.0, 1))


def _renew(result: Stale, renewal: Renewal, run: Run) -> str:
    try:
        if result.quick is not None:
            words = renewal.command(result.name, result.quick, "--confirm")
            if not run(words):
                return "confirmed"
        complaint = run(renewal.command(result.name, result.origin, "--store"))
        if not complaint and result.quick is not None:
            complaint = run(renewal.command(result.name, result.quick, "--store"))
    except ValueError as error:
        return str(error)
    return complaint or "stored"
