"""First rows of the library: exact solvers, POP, the genetic algorithm and greedy heuristics.

Every solver runs on the same rounds under the same limits of time: the core of the library under
one limit, and large rounds, rounds on trees and rounds of pods that share GPUs beside it. A solver
that needs a module which is not installed is left out. What counts as solved is in
`goodalloc.experiments.library.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.library.catalogue import core_rounds, find_round, library_rounds
from goodalloc.data.library.library_round import CATEGORIES, TREE
from goodalloc.experiments.library.checks import checked_submission
from goodalloc.experiments.library.first_solvers import (
    FIRST_SOLVERS,
    LARGE_SOLVERS,
    POD_SOLVERS,
    TREE_SOLVERS,
)
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
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.experiments.library.first_solvers import FirstSolver
    from goodalloc.experiments.library.protocol import Judged, Runs
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Seconds of every run on the core, and of a quick one.
SECONDS, QUICK_SECONDS = 10.0, 3.0

#: Rounds of a quick run: the smallest ones.
QUICK_ROUNDS = 4


@dataclass(frozen=True)
class SubmissionTask:
    """Runs of one solver, which go on where they were interrupted.

    Parameters
    ----------
    folder
        Folder of the submission.
    submission
        The solver and its limits.
    rounds
        Names of the rounds.
    """

    folder: Path
    submission: Submission
    rounds: tuple[str, ...]

    def run(self, report: Report = lambda _: None) -> None:
        """Make the missing runs."""
        lines = [find_round(name) for name in self.rounds]
        done = 0

        def told(_: object) -> None:
            nonlocal done
            done += 1
            report(done / len(lines))

        run_submission(self.submission, lines, self.folder, told)


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


@dataclass(frozen=True)
class FirstRows:
    """Solvers on rounds of the library.

    Parameters
    ----------
    name
        Name of the folder of the submissions.
    solvers
        The solvers by name.
    rounds
        Returns the rounds.
    seconds
        Limit of every run; None for that of the class of its round.
    """

    name: str
    solvers: Mapping[str, FirstSolver]
    rounds: Callable[[], tuple[LibraryRound, ...]]
    seconds: float | None = SECONDS

    def study(self, title: str) -> Reproduction[LibraryRow]:
        """Return the study under a title."""
        return Reproduction(
            title,
            self.tasks,
            self.rows,
            lambda _, rows: plot_library(rows),
            shown=self.summary,
            ignores=("pollux", "seeds", "artifact", "gaps", "workloads"),
            times=True,
        )

    def tasks(self, plan: Plan) -> list[SubmissionTask]:
        """Return the runs of every solver that is installed; on few rounds if quick."""
        rounds = self.rounds()
        if plan.quick:
            rounds = tuple(sorted(rounds, key=lambda one: one.jobs * one.nodes)[:QUICK_ROUNDS])
        seconds = QUICK_SECONDS if plan.quick else self.seconds
        kind = "quick" if plan.quick else "whole"
        return [
            SubmissionTask(
                plan.folder / self.name / f"{kind}-{name}",
                Submission(found.path, name, seconds=seconds),
                tuple(one.name for one in rounds),
            )
            for name, found in self.solvers.items()
            if found.installed
        ]

    def rows(self, plan: Plan) -> list[LibraryRow]:
        """Return a row for every run, each checked anew.

        Raises
        ------
        ValueError
            If the checker refuses an answer, or one refutes a bound of the library.
        """
        rows = []
        for task in self.tasks(plan):
            solver, runs, checks = checked_submission(task.folder)
            for one in checks:
                if one.refusal or "REFUTES" in one.news:
                    raise ValueError(f"{solver} on {one.run.round}: {one.refusal or one.news}")
            exact = self.solvers[solver].exact
            rows += [_row(run, exact=exact) for key, run in runs.items() if key in task.rounds]
        return rows

    def summary(self, rows: list[LibraryRow]) -> Rows:
        """Return a row for every class, and one for all rounds, of every solver, by rank."""
        submissions = _judged(rows)
        rounds = common_rounds(submissions)
        shown = []
        for category in ("all", *CATEGORIES):
            group = [n for n in rounds if category in ("all", find_round(n).category)]
            for line in ranked(submissions, group) if group else ():
                shown.append(
                    {
                        "class": category,
                        "rank": line.rank,
                        "solver": line.solver,
                        "what": self.solvers[line.solver].text,
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


def _row(run: Judged, *, exact: bool) -> LibraryRow:
    """Return the row of a judged run."""
    slow = not run.solved or run.seconds > LONG
    return LibraryRow(
        solver=run.solver,
        round=run.round,
        origin=run.origin,
        category=run.category,
        sha256=find_round(run.round).sha256,
        limit_seconds=run.limit,
        solver_seconds=rounded(run.seconds, 4),
        fitness=None if np.isnan(run.fitness) else run.fitness,
        loss_percent=rounded(100.0 * run.loss, 6),
        solved=int(run.solved),
        long=int(exact and slow),
    )


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


def plot_library(rows: list[LibraryRow]) -> Figure:
    """Draw the profiles of the ranking."""
    submissions = _judged(rows)
    return plot_ranking(submissions, common_rounds(submissions))


def rounds_with(*, large: bool = False, feature: str = "") -> tuple[LibraryRound, ...]:
    """Return the rounds that are large and on no tree, or those with a feature.

    Parameters
    ----------
    large, feature
        Whether large ones are wanted, and the feature.
    """
    return tuple(
        one
        for one in library_rounds().values()
        if (large and one.category == "large" and not one.on_tree) or feature in one.features
    )


CORE = FirstRows("library", FIRST_SOLVERS, core_rounds)
FIRST_ROWS = CORE.study("Solvers on the core of the library of rounds")
LARGE_ROWS = FirstRows(
    "library-large", LARGE_SOLVERS, partial(rounds_with, large=True), seconds=None
).study("Solvers on the large rounds of the library")
TREE_ROWS = FirstRows(
    "library-trees", TREE_SOLVERS, partial(rounds_with, feature=TREE), seconds=None
).study("Solvers on the rounds of the library that are on trees")
POD_ROWS = FirstRows("library-pods", POD_SOLVERS, partial(rounds_with, feature="shares")).study(
    "Solvers on the rounds of the library in which pods share GPUs"
)
