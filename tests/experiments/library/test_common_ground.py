"""Common ground of rankings: the least limits, the rounds that all ran, and what is told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.library import core_rounds, find_round, library_rounds
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.library import (
    judge,
    rank_rows,
    ranked,
    read_runs,
    read_submission,
    stored_submissions,
)
from goodalloc.experiments.library.actions import CORE_SECONDS
from goodalloc.experiments.library.common_ground import at_least_limits, compared, limits_told
from goodalloc.experiments.library.protocol import LATE_FACTOR, LATE_SECONDS, PENALTY
from goodalloc.experiments.library.ranking import counted_seconds
from goodalloc.experiments.library.stored_rows import STUDIES

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.library.protocol import Runs

#: Small rounds: two of the core, and one that is not.
NAMES = ("tiny-cold", "tiny-disturbed", "equal-1x1-one-1")

#: A small round on a tree, and a solver of it.
TREE, ON_TREE = "tree-20x16-settled-1", "tests.experiments.library.test_tree_submissions:nothing"


@st.composite
def submissions_of(
    draw: st.DrawFn, limits: tuple[float, ...], latest: float = 80.0
) -> dict[str, Runs]:
    """Draw submissions with any of some limits, whose answers come within `latest` seconds."""
    found: dict[str, Runs] = {}
    for solver in ("a", "b", "c"):
        found[solver] = {}
        for name in NAMES:
            line, limit = find_round(name), draw(st.sampled_from(limits))
            share = draw(st.sampled_from((math.nan, 0.9, 1.0)))
            seconds = draw(st.floats(0.0, latest))
            found[solver][name] = judge(line, solver, limit, seconds, share * line.fitness)
    return found


def short_and_long(seconds: float) -> dict[str, Runs]:
    """A submission with 10 s, and one with 60 s that took some seconds, on every round."""
    lines = [find_round(name) for name in NAMES]
    return {
        "short": {one.name: judge(one, "short", 10.0, 9.0, one.fitness) for one in lines},
        "long": {one.name: judge(one, "long", 60.0, seconds, one.fitness) for one in lines},
    }


@given(submissions_of((10.0,)))
def test_equal_limits_leave_all_runs_as_they_are(found: dict[str, Runs]) -> None:
    """Also those that were late by their own limit; and nothing is told."""
    alike = at_least_limits(found)
    assert repr(alike) == repr(found)  # by their words, since NaN differs from itself
    assert limits_told(found, alike, NAMES) == []


@given(submissions_of((10.0, 60.0)))
def test_a_round_has_one_limit_and_late_answers_count_as_none(found: dict[str, Runs]) -> None:
    """Nobody gains by it, and what is in time keeps its value."""
    alike = at_least_limits(found)
    for name in NAMES:
        least = min(runs[name].limit for runs in found.values())
        for solver, runs in alike.items():
            new, old = runs[name], found[solver][name]
            assert new.limit == least
            assert new.seconds == old.seconds
            assert new.solved <= old.solved
            if old.limit > least and old.seconds > LATE_FACTOR * least + LATE_SECONDS:
                assert math.isnan(new.fitness)
                assert (new.loss, counted_seconds(new)) == (1.0, PENALTY * least)
            else:
                assert repr(new) == repr(old._replace(limit=least))
    assert repr(at_least_limits(alike)) == repr(alike)


@given(
    submissions_of((10.0,), latest=LATE_FACTOR * 10.0 + LATE_SECONDS),
    st.sets(st.sampled_from(NAMES)),
)
def test_ranks_do_not_depend_on_longer_limits_that_nobody_used(
    found: dict[str, Runs], longer: set[str]
) -> None:
    """Whichever rounds of a submission had them."""
    changed = {
        name: run._replace(limit=60.0) if name in longer else run
        for name, run in found["a"].items()
    }
    alike = at_least_limits({**found, "a": changed})
    assert rank_rows(ranked(alike, NAMES)) == rank_rows(ranked(found, NAMES))


def test_different_limits_are_told_with_who_had_what() -> None:
    """In one sentence, with the number of answers that came later."""
    found = short_and_long(seconds=15.0)
    found["long"][NAMES[0]] = found["long"][NAMES[0]]._replace(limit=10.0, seconds=1.0)
    (told,) = limits_told(found, at_least_limits(found), NAMES)
    assert told == (
        "Limits differ: short had 10 s on 3; long had 10 s on 1 and 60 s on 2; each round is "
        "ranked at the least limit on it, and later answers count as none (long 2)."
    )
    assert [one.solved for one in ranked(at_least_limits(found), NAMES)] == [3, 1]
    found = short_and_long(seconds=12.0)
    (told,) = limits_told(found, at_least_limits(found), NAMES)
    assert told.endswith("each round is ranked at the least limit on it.")
    assert [one.solved for one in ranked(at_least_limits(found), NAMES)] == [3, 3]


def test_a_miss_costs_all_the_same() -> None:
    """Ten times the least limit, whatever the solver itself was given."""
    found = short_and_long(seconds=59.0)
    found["short"] = {name: judge(find_round(name), "short", 10.0, 9.0, math.nan) for name in NAMES}
    assert [one.seconds for one in ranked(at_least_limits(found), NAMES)] == pytest.approx(
        [PENALTY * 10.0, PENALTY * 10.0]
    )


def test_a_ranking_on_fewer_rounds_says_so() -> None:
    """Of one's own submissions, with both numbers."""
    found = short_and_long(seconds=1.0)
    found["short"].pop("equal-1x1-one-1")
    rounds, told = compared(found, ["long"], set(NAMES))
    assert rounds == list(NAMES[:2])
    assert told == [
        "Of the selected rounds long ran 3; ranked are the 2 that all of them ran (--beside none "
        "leaves out those that ship)."
    ]
    assert compared(found, ["short"], set(NAMES)) == (rounds, [])
    assert compared(found, ["long"], set(NAMES[:1])) == ([NAMES[0]], [])
    assert "--beside" not in compared(found, ["short", "long"], set(NAMES))[1][0]


def test_a_remedy_is_named_only_where_it_helps() -> None:
    """To leave out what ships does not help where one's own submissions have nothing in common."""
    found = short_and_long(seconds=1.0)
    found["ships"] = {}
    with pytest.raises(ValueError, match="or --beside none, which ranks short and long alone"):
        compared(found, ["short", "long"], set(NAMES))
    found["short"] = {}
    with pytest.raises(ValueError, match=r"expected one at least\.$"):
        compared(found, ["short", "long"], set(NAMES))


def test_the_core_has_the_limit_of_the_submissions_that_ship(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On hard rounds, too, unless another limit is given."""
    stored = [run for runs in stored_submissions().values() for run in runs.values()]
    assert {run.limit for run in stored} == {CORE_SECONDS}
    hard = next(one for one in core_rounds() if one.category == "hard")
    words = ["library", "run", "--solver", "greedy", "--rounds", hard.name]
    for options, limit in (
        (["--core"], CORE_SECONDS),
        ([], 60.0),
        (["--core", "--seconds", "7"], 7.0),
    ):
        folder = tmp_path / f"{limit:g}"
        assert main([*words, *options, "--out", str(folder)]) == 0
        assert [run.seconds_limit for run in read_runs(folder)] == [limit]
    assert read_submission(tmp_path / "10").seconds == CORE_SECONDS
    assert main(["library", "run", "--help"]) == 0
    assert f"{CORE_SECONDS:g} s with --core" in " ".join(capsys.readouterr().out.split())


def test_a_newcomer_with_more_seconds_is_ranked_at_those_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of itself is told, too; both are on the page."""
    pytest.importorskip("bokeh", reason="needs goodalloc[view]")
    folder, page = tmp_path / "mine", tmp_path / "rank.html"
    words = ["library", "run", "--solver", "greedy", "--name", "mine", "--rounds", "tiny-cold"]
    options = ["--seconds", "60", "--note", "4 threads", "--out", str(folder)]
    assert main([*words, *options]) == 0
    assert main(["library", "verify", str(folder)]) == 0
    assert "mine states: 4 threads" in capsys.readouterr().out
    table = folder / "runs.csv"
    (run,) = read_runs(folder)
    table.write_text(table.read_text().replace(f",60.0,{run.seconds},", ",60.0,15.0,"))
    rank = ["library", "rank", str(folder), "--beside", "goodalloc", "--out", str(page)]
    assert main(rank) == 0
    told = (
        "Limits differ: goodalloc had 10 s on 1; mine had 60 s on 1; each round is ranked at the "
        "least limit on it, and later answers count as none (mine 1)."
    )
    shown = capsys.readouterr().out
    for line in (told, "mine states: 4 threads"):
        assert line in shown
        assert line in page.read_text(encoding="utf-8")
    assert main(["view", str(folder), "--out", str(page)]) == 0
    assert "Limits differ: " in page.read_text(encoding="utf-8")
    assert "mine states: 4 threads" in page.read_text(encoding="utf-8")


def test_rounds_that_what_ships_did_not_run_are_ranked_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal says how."""
    shipped = {name for study in STUDIES for name in stored_submissions(study=study)["goodalloc"]}
    other = next(one for one in library_rounds().values() if one.name not in shipped)
    folder = str(tmp_path / "mine")
    words = ["--solver", "greedy", "--name", "mine", "--rounds", other.name, "--seconds", "5"]
    assert main(["library", "run", *words, "--out", folder]) == 0
    capsys.readouterr()
    assert main(["library", "rank", folder]) == 2
    assert "or --beside none, which ranks mine alone." in capsys.readouterr().err
    assert main(["library", "rank", folder, "--beside", "none"]) == 0
    assert "1 round that all of them ran" in capsys.readouterr().out
    assert main(["library", "rank", folder, "--beside", "none", "--class", "hard"]) == 2
    assert "expected one at least.\n" in capsys.readouterr().err


def test_rounds_on_trees_that_were_run_are_ranked_without_being_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside what ships on trees, also where another option selects; beside the core by a hint."""
    folder, core = str(tmp_path / "mine"), core_rounds()[0].name
    words = ["--solver", ON_TREE, "--name", "mine", "--rounds", TREE, "--seconds", "5"]
    assert main(["library", "run", *words, "--out", folder]) == 0
    capsys.readouterr()
    for options in ([], ["--most-jobs", "50"]):
        assert main(["library", "rank", folder, *options]) == 0
        assert "1 round that all of them ran" in capsys.readouterr().out
    found = stored_submissions()
    mixed = dict.fromkeys((core, TREE), found["goodalloc"][core])
    _, told = compared(found | {"mine": mixed}, ["mine"], set(library_rounds()))
    assert told[0].endswith("leaves out those that ship, --feature tree ranks those on trees).")
