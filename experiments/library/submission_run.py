"""Runs of a submission: each in a process of its own, kept as soon as it ends."""

from __future__ import annotations

import hashlib
import inspect
import math
import platform
import tempfile
from dataclasses import asdict, astuple
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.append_lines import append_lines, cut_unfinished
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.json_file import dump, read_document, rows_text
from goodalloc.experiments.gap.gap import GRACE_FACTOR, GRACE_SECONDS
from goodalloc.experiments.gap.worker import Failure, Worker
from goodalloc.experiments.library.loaded_round import LoadedRound
from goodalloc.experiments.library.submission import (
    ANSWERS,
    CERTIFICATES,
    COLUMNS,
    DESCRIPTION,
    RUNS,
    SUBMISSION_FORMAT,
    VERSION,
    Run,
    read_runs,
    read_submission,
)
from goodalloc.experiments.support.folder_lock import locked, make_folder
from goodalloc.experiments.support.machine_description import processor
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.interface.base import find_solver, ships
from goodalloc.solvers.interface.result_file import write_result
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.experiments.library.submission import Submission
    from goodalloc.solvers.interface.result import Result

#: Libraries whose versions are told.
LIBRARIES = ("numpy", "scipy", "highspy", "pyomo", "jax")


def run_submission(
    submission: Submission,
    rounds: Sequence[LibraryRound],
    folder: Path,
    report: Callable[[Run], None] = lambda run: None,
) -> list[Run]:
    """Make the runs that a folder lacks, and return all runs of these rounds.

    Every run is in a process of its own, which is killed long after its limit.

    Parameters
    ----------
    submission
        The solver and its limits.
    rounds
        The rounds.
    folder
        Folder of the submission.
    report
        Called with every run, also with those that were there.

    Raises
    ------
    ValueError
        If there is no such solver, the folder holds another submission, or another process writes
        to it.
    """
    code = solver_code(submission.solver)
    for name in (ANSWERS, CERTIFICATES):
        make_folder(folder / name)
    with locked(folder), Worker() as worker, tempfile.TemporaryDirectory() as scratch:
        _describe(submission, code, folder)
        if (folder / RUNS).exists():
            cut_unfinished(folder / RUNS)
        done = {(run.round, run.sha256): run for run in read_runs(folder)}
        found = []
        for line in rounds:
            run = done.get((line.name, line.sha256))
            if run is None:
                run = _run(submission, line, folder, worker, Path(scratch))
                row = csv_text([run._asdict()], COLUMNS).splitlines(keepends=True)
                append_lines(folder / RUNS, row[1], heading=row[0])
            found.append(run)
            report(run)
    return found


def _run(
    submission: Submission, line: LibraryRound, folder: Path, worker: Worker, scratch: Path
) -> Run:
    """Run the solver on a round, and keep its answer."""
    round_, limit = LoadedRound.of(line.name), submission.limit(line)
    path = str(scratch / f"{line.name}.json")
    task = round_.task(path, submission.solver, submission.seed, Stop(seconds=limit))
    written = round_.write(path)
    outcome = worker.run(task, GRACE_FACTOR * limit + GRACE_SECONDS)
    for file in written:
        Path(file).unlink()
    if isinstance(outcome, Failure):
        message = " ".join(outcome.message.split())
        status = str(outcome.status)
        return Run(line.name, line.sha256, limit, outcome.seconds, status, None, None, message)
    if outcome.allocation is not None:
        _keep(outcome, round_, folder, certificate=submission.certificates, limit=limit)
    claimed = outcome.claimed_bound if math.isfinite(outcome.claimed_bound) else None
    return Run(
        round=line.name,
        sha256=line.sha256,
        seconds_limit=limit,
        seconds=outcome.solve_seconds,
        status=str(outcome.status),
        fitness=None if math.isnan(outcome.fitness) else outcome.fitness,
        claimed_bound=claimed,
        message=" ".join(outcome.message.split()),
    )


def _keep(
    result: Result, round_: LoadedRound, folder: Path, *, certificate: bool, limit: float
) -> None:
    """Write an answer, with a certificate if one is wanted."""
    instance = round_.instance
    if certificate:
        result = round_.certified(result, Stop(seconds=limit))
        document = round_.certificate_document(result)
        if document is not None:
            path = folder / CERTIFICATES / f"{instance.name}.json"
            write_atomically(path, rows_text(document, {}))
    write_result(result, instance, folder / ANSWERS / f"{instance.name}.json")


def solver_code(solver: str) -> str:
    """Return the SHA-256 of the file of a solver of one's own, empty for those that ship.

    Parameters
    ----------
    solver
        Name, or ``package.module:function``.

    Raises
    ------
    ValueError
        If there is no such solver.
    """
    found = find_solver(solver)
    if ships(solver):
        return ""
    try:
        path = inspect.getsourcefile(inspect.unwrap(found))
    except TypeError:  # of a built-in, or an object that is called
        return ""
    if path is None:
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _describe(submission: Submission, code: str, folder: Path) -> None:
    """Write the description, or refuse a folder of another submission."""
    path = folder / DESCRIPTION
    if not path.exists():
        versions = {name: version(name) for name in LIBRARIES}
        document = {
            "format": SUBMISSION_FORMAT,
            "version": VERSION,
            **asdict(submission),
            "code": code,
            "goodalloc": library_version(),
            "python": platform.python_version(),
            "machine": processor(),
            "versions": versions,
        }
        write_atomically(path, dump(document) + "\n")
        return
    held = read_submission(folder)
    for name, mine, theirs in zip(
        asdict(submission), astuple(submission), astuple(held), strict=True
    ):
        if mine != theirs:
            raise ValueError(
                f"Folder '{folder}' holds a submission whose {name} is {theirs!r}, not {mine!r}; "
                "expected the same arguments, or another folder."
            )
    if read_document(path, (SUBMISSION_FORMAT,))["code"] != code:
        raise ValueError(
            f"Folder '{folder}' holds runs of '{submission.solver}' before its file was changed; "
            "expected another folder, or none of that name."
        )
