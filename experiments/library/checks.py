"""Checks of a submission: every allocation anew, and certificates by the stand-alone checker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.json_file import read_document
from goodalloc.data.files.format_names import RESULT_FORMAT
from goodalloc.data.library.catalogue import find_round
from goodalloc.data.library.stored_files import file_of, read_compressed
from goodalloc.experiments.library.loaded_round import LoadedRound
from goodalloc.experiments.library.protocol import judge
from goodalloc.experiments.library.submission import (
    ANSWERS,
    CERTIFICATES,
    read_runs,
    read_submission,
)
from goodalloc.solvers.certificates.certificate_file import CERTIFICATE_FORMAT
from goodalloc.solvers.interface.result import refutes
from goodalloc.solvers.interface.result_file import read_result, result_from_dict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.library.protocol import Runs
    from goodalloc.experiments.library.submission import Run
    from goodalloc.solvers.interface.result import Result

#: Relative difference up to which a stated fitness is that of its allocation.
SAME = 1e-9


class Checked(NamedTuple):
    """Run that was checked.

    Attributes
    ----------
    run
        The run.
    fitness
        Fitness of its allocation, recomputed; NaN without one or if it is refused.
    certified_bound
        Bound that its certificate proves; infinite without one.
    refusal
        Why it is refused; empty if it is not.
    news
        What it tells of the library: a better value or bound, or a bound that it refutes.
    """

    run: Run
    fitness: float
    certified_bound: float = math.inf
    refusal: str = ""
    news: str = ""


def check_run(run: Run, folder: Path) -> Checked:
    """Check a run of a submission.

    The allocation is read, checked and valued anew; nothing that the run says of itself counts but
    its seconds.

    Parameters
    ----------
    run
        The run.
    folder
        Folder of the submission.
    """
    line = find_round(run.round)
    if run.sha256 != line.sha256:
        return Checked(run, math.nan, refusal="it is of another version of the round")
    answer = folder / ANSWERS / f"{run.round}.json"
    if run.fitness is None and not answer.exists():
        return Checked(run, math.nan)
    round_ = LoadedRound.of(run.round)
    try:
        stated = math.nan if run.fitness is None else run.fitness
        value = _value(round_, read_result(answer, round_.instance), stated)
        bound = _certified(round_, answer, folder / CERTIFICATES / f"{run.round}.json")
    except ValueError as error:
        return Checked(run, math.nan, refusal=str(error))
    return Checked(run, value, bound, news=_news(run, value, bound))


def _value(round_: LoadedRound, result: Result, stated: float) -> float:
    """Return the fitness of an answer; raise an error if there is none or it is not as stated."""
    if result.allocation is None:
        raise ValueError("its answer has no allocation.")
    value = round_.value(result.allocation)
    if not abs(stated - value) <= SAME * abs(value):
        raise ValueError(f"its fitness is stated as {stated:.12g}; expected {value:.12g}.")
    return value


def _certified(round_: LoadedRound, answer: Path, certificate: Path) -> float:
    """Return the bound that a certificate proves, infinite without one."""
    if not certificate.exists():
        return math.inf
    verdict = round_.verified(
        read_document(answer, (RESULT_FORMAT,)), read_document(certificate, (CERTIFICATE_FORMAT,))
    )
    if not verdict.verified:
        raise ValueError(f"its certificate is refused: {' '.join(verdict.reasons)}")
    return float(verdict.claimed)


def _news(run: Run, value: float, bound: float) -> str:
    """Return what a checked run tells of the library."""
    line = find_round(run.round)
    judged = judge(line, "", run.seconds_limit, run.seconds, value)
    told = []
    if judged.refutes:
        told.append(
            f"REFUTES the library's bound {line.bound:.12g}: its checked value is {value:.12g}"
        )
    elif judged.better:
        told.append(f"BETTER than the best known value {line.fitness:.12g}: {value:.12g}")
    if refutes(line.fitness, bound):
        told.append(
            f"its certified bound {bound:.12g} is REFUTED by the best known value "
            f"{line.fitness:.12g}"
        )
    elif bound < line.bound * (1.0 - SAME):
        told.append(f"TIGHTER than the library's bound {line.bound:.12g}: {bound:.12g}")
    return "; ".join(told)


def checked_submission(
    folder: Path, report: Callable[[Checked], None] = lambda checked: None
) -> tuple[str, Runs, list[Checked]]:
    """Check all runs of a submission, and judge them; what is refused counts as no allocation.

    Parameters
    ----------
    folder
        Folder of the submission.
    report
        Called with every checked run.

    Returns
    -------
    tuple
        Name of the submission, its judged runs by round, and the checks.

    Raises
    ------
    ValueError
        If the folder holds no submission.
    """
    name = read_submission(folder).name
    runs: Runs = {}
    checks = []
    for run in read_runs(folder):
        found = check_run(run, folder)
        report(found)
        checks.append(found)
        line = find_round(run.round)
        if run.sha256 == line.sha256:
            runs[run.round] = judge(line, name, run.seconds_limit, run.seconds, found.fitness)
    return name, runs, checks


class LibraryCheck(NamedTuple):
    """Check of what the library itself says of a round.

    Attributes
    ----------
    round
        Its name.
    certified
        Whether a certificate proves the bound.
    refusal
        What is wrong; empty if nothing is.
    """

    round: str
    certified: bool
    refusal: str


def check_library(name: str, *, exact: bool = False) -> LibraryCheck:
    """Check the digest, the best known allocation and the certificate of a round of the library.

    Parameters
    ----------
    name
        Name of the round.
    exact
        Whether the certificate is checked in rational numbers.

    Examples
    --------
    >>> from goodalloc.experiments.library import check_library
    >>> check_library("tiny-cold")
    LibraryCheck(round='tiny-cold', certified=True, refusal='')
    """
    line = find_round(name)
    paths = {kind: file_of(kind, name) for kind in ("answers", "certificates")}
    try:
        round_, answer = LoadedRound.of(name), read_compressed(paths["answers"])
        if not paths["certificates"].is_file():
            _value(round_, result_from_dict(answer, round_.instance), line.fitness)
            return LibraryCheck(name, False, "")
        certificate = read_compressed(paths["certificates"])
        verdict = round_.verified(answer, certificate, exact=exact)
    except ValueError as error:
        return LibraryCheck(name, False, str(error))
    reasons = list(verdict.reasons)
    if verdict.verified and not abs(verdict.fitness - line.fitness) <= SAME * line.fitness:
        reasons.append(f"the allocation is worth {verdict.fitness!r}, the table {line.fitness!r}.")
    if verdict.verified and not verdict.claimed <= line.bound * (1.0 + SAME):
        reasons.append(f"the certificate proves {verdict.claimed!r}, the table {line.bound!r}.")
    return LibraryCheck(name, verdict.verified, " ".join(reasons))
