"""First rows of the library: exact solvers, POP, the genetic algorithm and greedy heuristics.

Every solver runs on the core of the library under one limit of time. A solver that needs a module
which is not installed is left out. What counts as solved is in
`goodalloc.experiments.library.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.library.catalogue import core_rounds, find_round
from goodalloc.experiments.library.checks import checked_submission
from goodalloc.experiments.library.first_solvers import FIRST_SOLVERS
from goodalloc.experiments.library.protocol import LONG, judge
from goodalloc.experiments.library.ranking import (
    common_rounds,
    plot_ranking,
    ranked,
)
from goodalloc.experiments.library.submission import Submission
from goodalloc.experiments.library.submission_run import run_submission
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.experiments.library.protocol import Runs
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Seconds of every run, and of a quick one.
SECONDS, QUICK_SECONDS = 10.0, 3.0

#: Rounds of a quick run: small ones of the core.
QUICK_ROUNDS = 4

#: Names of the exact solvers.
EXACT = ("goodalloc", "highs-nodes", "scip-nodes", "cp-sat-nodes")


@dataclass(frozen=True)
class SubmissionTask:
    """Runs of one solver, which go on where they were interrupted.

    Parameters
    ----------
    folder
        Folder of the submission.
    solver
        Key of `FIRST_SOLVERS`.
    rounds
        Names of the rounds.
    seconds
        Limit of every run.
    """

    folder: Path
    solver: str
    rounds: tuple[str, ...]
    seconds: float

    def run(self, report: Report = lambda _: None) -> None:
        """Make the missing runs."""
        found = FIRST_SOLVERS[self.solver]
        submission = Submission(found.path, self.solver, seconds=self.seconds)
        lines = [find_round(name) for name in self.rounds]
        done = 0

        def told(_: object) -> None:
            nonlocal done
            done += 1
            report(done / len(lines))

        run_submission(submission, lines, self.folder, told)


class LibraryRow(NamedTuple):
    """Run of a solver on a round.

    Attributes
    ----------
    solver, round, origin, category
        The solver, and the round.
    sha256
        Digest of the round.
    limit_seconds, solver_seconds
        Limit, and seconds of the solver.
    fitness
        Recomputed; None without an allocation.
    loss_percent
        How far it is below the best known value.
    solved
        1 if solved to proven optimality, by the library's bound.
    long
        1 if an exact solver did not solve the round in `LONG` seconds.
    """

    solver: str
    round: str
    origin: str
    category: str
    sha256: str
    limit_seconds: float
    solver_seconds: float
    fitness: float | None
    loss_percent: float
    solved: int
    long: int


def _rounds(plan: Plan) -> tuple[LibraryRound, ...]:
    core = core_rounds()
    if plan.quick:
        return tuple(sorted(core, key=lambda one: one.jobs * one.nodes)[:QUICK_ROUNDS])
    return core


def _tasks(plan: Plan) -> list[SubmissionTask]:
    rounds = tuple(one.name for one in _rounds(plan))
    seconds = QUICK_SECONDS if plan.quick else SECONDS
    kind = "quick" if plan.quick else "whole"
    return [
        SubmissionTask(plan.folder / "library" / f"{kind}-{name}", name, rounds, seconds)
        for name, found in FIRST_SOLVERS.items()
        if found.installed
    ]


def _checked(plan: Plan) -> dict[str, Runs]:
    """Return the judged runs of all solvers, each checked anew."""
    found = {}
    for task in _tasks(plan):
        name, runs, checks = checked_submission(task.folder)
        for one in checks:
            if one.refusal or "REFUTES" in one.news:
                raise ValueError(f"{name} on {one.run.round}: {one.refusal or one.news}")
        found[name] = {key: run for key, run in runs.items() if key in task.rounds}
    return found


def _rows(plan: Plan) -> list[LibraryRow]:
    rows = []
    for solver, runs in _checked(plan).items():
        for name, run in runs.items():
            known = not np.isnan(run.fitness)
            slow = not run.solved or run.seconds > LONG
            rows.append(
                LibraryRow(
                    solver=solver,
                    round=name,
                    origin=run.origin,
                    category=run.category,
                    sha256=find_round(name).sha256,
                    limit_seconds=run.limit,
                    solver_seconds=rounded(run.seconds, 4),
                    fitness=run.fitness if known else None,
                    loss_percent=rounded(100.0 * run.loss, 6),
                    solved=int(run.solved),
                    long=int(solver in EXACT and slow),
                )
            )
    return rows


def _judged(rows: list[LibraryRow]) -> dict[str, Runs]:
    """Return the runs of rows, as the library judges them."""
    found: dict[str, Runs] = {}
    for row in rows:
        value = np.nan if row.fitness is None else row.fitness
        line = find_round(row.round)
        found.setdefault(row.solver, {})[row.round] = judge(
            line, row.solver, row.limit_seconds, row.solver_seconds, float(value)
        )
    return found


def summarise_library(rows: list[LibraryRow]) -> Rows:
    """Return a row for every class, and one for all rounds, of every solver, in order of rank."""
    submissions = _judged(rows)
    rounds = common_rounds(submissions)
    shown = []
    for category in ("all", "easy", "hard", "degenerate"):
        group = [n for n in rounds if category in ("all", find_round(n).category)]
        if not group:
            continue
        for line in ranked(submissions, group):
            shown.append(
                {
                    "class": category,
                    "rank": line.rank,
                    "solver": line.solver,
                    "what": FIRST_SOLVERS[line.solver].text,
                    "rounds": line.rounds,
                    "solved": line.solved,
                    "within_1_percent": line.within_1,
                    "within_5_percent": line.within_5,
                    "none": line.none,
                    "seconds": rounded(line.seconds, 4),
                    "mean_loss_percent": rounded(line.mean_loss_percent, 4),
                }
            )
    return shown


def plot_library(rows: list[LibraryRow]) -> Figure:
    """Draw the profiles of the ranking."""
    submissions = _judged(rows)
    return plot_ranking(submissions, common_rounds(submissions))


FIRST_ROWS = Reproduction(
    "Solvers on the core of the library of rounds",
    _tasks,
    _rows,
    lambda _, rows: plot_library(rows),
    shown=summarise_library,
    ignores=("pollux", "seeds", "artifact", "gaps", "workloads"),
    times=True,
)
