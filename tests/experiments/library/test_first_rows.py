"""First rows on every kind of rounds: the runs of some solvers, their table and their picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.library import core_rounds, find_round, library_rounds
from goodalloc.experiments.library.first_solvers import POD_SOLVERS, TREE_SOLVERS
from goodalloc.experiments.library.stored_rows import STUDIES, stored_submissions, study_of
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.library.first_rows import (
    LARGE_ROWS,
    POD_ROWS,
    TREE_ROWS,
    FirstRows,
    SubmissionTask,
    rounds_with,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.experiments.library.first_solvers import FirstSolver
    from goodalloc.experiments.studies.framework.reproduction import Reproduction
    from goodalloc.experiments.studies.library.first_rows import (
        LibraryRow,
    )

#: Two rounds of each kind, and the first solvers that ran on them.
KINDS = {
    "trees": (("tree-20x16-cold-2", "tree-40x16-cold-1"), TREE_SOLVERS, ("goodalloc", "best-fit")),
    "pods": (("openb-60x12-1", "openb-60x12-2"), POD_SOLVERS, ("goodalloc", "kinds", "fgd")),
}


def tasks_of(study: Reproduction[LibraryRow], plan: Plan) -> list[SubmissionTask]:
    """The runs of a study, of which each is of one solver."""
    tasks = study.tasks(plan)
    found = [task for task in tasks if isinstance(task, SubmissionTask)]
    assert len(found) == len(tasks)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_solvers_run_on_rounds_of_a_kind(kind: str, tmp_path: Path) -> None:
    """A row for every run; the exact solver is first, and what the rows say is summed up."""
    names, table, wanted = KINDS[kind]
    solvers: Mapping[str, FirstSolver] = {name: table[name] for name in wanted}
    some = FirstRows(kind, solvers, lambda: tuple(map(find_round, names)), seconds=20.0)
    study, plan = some.study("A few rounds"), Plan(tmp_path)
    for task in some.tasks(plan):
        task.run()
    rows = study.rows(plan)
    assert [(row.solver, row.round) for row in rows] == [
        (solver, name) for solver in wanted for name in names
    ]
    assert all(row.solved for row in rows if row.solver == "goodalloc")
    assert {row.limit_seconds for row in rows} == {20.0}
    every = [row for row in study.shown(rows) if row["class"] == "all"]
    assert [row["rank"] for row in every] == list(range(1, len(wanted) + 1))
    assert {row["solver"]: row["what"] for row in every} == {
        name: table[name].text for name in wanted
    }
    study.plot(plan, rows).savefig(tmp_path / "profiles.png")
    assert (tmp_path / "profiles.png").stat().st_size > 10_000


def test_a_quick_run_takes_the_smallest_rounds(tmp_path: Path) -> None:
    """Of each kind, with a shorter limit; a whole one takes all of them, at the protocol's."""
    for study, whole in (
        (TREE_ROWS, rounds_with(feature="tree")),
        (POD_ROWS, rounds_with(feature="shares")),
        (LARGE_ROWS, rounds_with(large=True)),
    ):
        quick, full = (tasks_of(study, Plan(tmp_path, quick=one)) for one in (True, False))
        assert [len(task.rounds) for task in quick] == [4] * len(full)
        assert {task.rounds for task in full} == {tuple(one.name for one in whole)}
        assert {task.folder for task in quick}.isdisjoint(task.folder for task in full)
        sizes = [find_round(name).jobs * find_round(name).nodes for name in quick[0].rounds]
        assert max(sizes) <= sorted(one.jobs * one.nodes for one in whole)[3]


def test_kinds_of_rounds_are_told_apart() -> None:
    """Those on trees are no large ones of the study without, and none is of the core."""
    trees, large = rounds_with(feature="tree"), rounds_with(large=True)
    assert all(one.on_tree for one in trees)
    assert len(trees) == sum(one.on_tree for one in library_rounds().values())
    assert large
    assert not any(one.on_tree or one.category != "large" for one in large)
    assert not set(core_rounds()) & {*trees, *large}


@pytest.mark.parametrize("study", STUDIES)
def test_a_submission_is_ranked_beside_those_of_its_kind_of_rounds(study: str) -> None:
    """The study with most of its rounds; the package's own solver is in each."""
    stored = stored_submissions(study=study)
    assert study_of(stored["goodalloc"]) == study
    assert all(runs.keys() == stored["goodalloc"].keys() for runs in stored.values())


def test_without_a_common_round_a_submission_is_ranked_beside_the_core() -> None:
    """As before it has run anything."""
    assert study_of(set()) == study_of({"no-such-round"}) == "library"
