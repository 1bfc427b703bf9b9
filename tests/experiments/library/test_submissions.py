"""Submissions to the library: run, resumed, checked against tampering, ranked; and the command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.library import (
    core_rounds,
    find_round,
    library_rounds,
    load_round,
    read_catalogue,
)
from goodalloc.data.library.catalogue import CATALOGUE, catalogue_text
from goodalloc.data.library.stored_files import read_compressed
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.library import (
    Submission,
    check_library,
    checked_submission,
    common_rounds,
    judge,
    rank_page,
    rank_rows,
    ranked,
    read_runs,
    read_submission,
    run_submission,
    stored_submissions,
)
from goodalloc.experiments.library import checks as checks_module
from goodalloc.experiments.library.best_known import adopt
from goodalloc.experiments.library.protocol import PENALTY
from goodalloc.experiments.library.ranking import counted_seconds, plot_ranking
from goodalloc.experiments.library.ranking_page import own_name, profiled
from goodalloc.experiments.library.submission_run import solver_code
from goodalloc.solvers.interface.result_file import result_from_dict

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

#: Small rounds on which everything is tried.
NAMES = ("tiny-cold", "tiny-disturbed", "equal-1x1-one-1")


def one_each(instance: Instance) -> np.ndarray:
    """Give every job one GPU, in order."""
    matrix = np.zeros((instance.num_jobs, instance.cluster.num_nodes), dtype=int)
    slots = np.repeat(np.arange(instance.cluster.num_nodes), instance.cluster.node_gpus)
    for job, node in zip(range(instance.num_jobs), slots, strict=False):
        matrix[job, node] = 1
    return matrix


def fails(instance: Instance) -> None:
    """Raise an error."""
    raise RuntimeError(f"no idea about {instance.name}")


def everything(instance: Instance) -> np.ndarray:
    """Give every job all GPUs."""
    return np.tile(instance.cluster.node_gpus, (instance.num_jobs, 1))


def run(solver: str, folder: Path, **options: Any) -> list[Any]:
    """Run a solver on `NAMES`."""
    submission = Submission(solver, solver, seconds=5.0, **options)
    return run_submission(submission, [find_round(name) for name in NAMES], folder)


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of the greedy heuristic, with certificates."""
    folder = tmp_path_factory.mktemp("submissions") / "greedy"
    run("greedy", folder, certificates=True)
    return folder


@pytest.fixture
def copy(greedy: Path, tmp_path: Path) -> Path:
    """A copy of that submission, to be tampered with."""
    folder = tmp_path / "copy"
    for path in greedy.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(greedy)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file."""
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | changes))


def refusals(folder: Path) -> dict[str, str]:
    """Return why runs of a submission are refused, by round."""
    return {one.run.round: one.refusal for one in checked_submission(folder)[2] if one.refusal}


def test_a_submission_is_run_checked_and_certified(greedy: Path) -> None:
    """All its values are recomputed, and its certificates verified."""
    name, runs, checks = checked_submission(greedy)
    assert name == "greedy"
    assert set(runs) == set(NAMES)
    assert not refusals(greedy)
    assert all(math.isfinite(one.certified_bound) for one in checks)
    assert all(one.certified_bound >= one.fitness * (1 - 1e-9) for one in checks)


def test_what_has_run_is_not_run_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost last line is, as after a power cut."""
    before = (copy / "runs.csv").read_text()
    lines = before.splitlines(keepends=True)
    (copy / "runs.csv").write_text("".join(lines[:-1]) + lines[-1][:9])
    found = run("greedy", copy, certificates=True)
    assert [one.round for one in found] == list(NAMES)
    after = (copy / "runs.csv").read_text().splitlines(keepends=True)
    assert after[:-1] == lines[:-1]
    assert len(after) == len(lines)


def test_a_folder_holds_one_submission(copy: Path) -> None:
    """Other arguments are refused, with the one that differs."""
    with pytest.raises(ValueError, match="whose seed is 0, not 1; expected the same"):
        run("greedy", copy, certificates=True, seed=1)


def test_a_folder_holds_runs_of_one_version_of_a_solver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever mends his solver gets no runs of the one before."""
    source, folder = tmp_path / "own_solver.py", tmp_path / "own"
    source.write_text("def stay(instance):\n    return instance.current\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert len(solver_code("own_solver:stay")) == 64
    assert solver_code("greedy") == ""
    submission = Submission("own_solver:stay", "own")
    line = find_round("tiny-cold")
    run_submission(submission, [line], folder)
    run_submission(submission, [line], folder)
    source.write_text("def stay(instance):\n    return None\n", encoding="utf-8")
    with pytest.raises(ValueError, match="before its file was changed; expected another folder"):
        run_submission(submission, [line], folder)


def test_solvers_that_fail_or_cheat_are_rows_without_a_value(tmp_path: Path) -> None:
    """Neither ends the runs."""
    for name in ("fails", "everything"):
        folder = tmp_path / name
        solver = f"tests.experiments.library.test_submissions:{name}"
        found = run(solver, folder)
        assert all(one.fitness is None for one in found if one.round != "equal-1x1-one-1")
        assert all(one.message for one in found if one.fitness is None)
        judged = checked_submission(folder)[1]
        assert not judged["tiny-cold"].solved
        assert judged["tiny-cold"].loss == 1.0


def test_an_unknown_solver_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """With what is closest to it."""
    with pytest.raises(ValueError, match="did you mean greedy"):
        run("greedi", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_wrong_fitness_is_refused(copy: Path) -> None:
    """Of the row, and of the answer's file beside its certificate."""
    text = (copy / "runs.csv").read_text()
    value = str(read_runs(copy)[0].fitness)
    (copy / "runs.csv").write_text(text.replace(value, "0.9"))
    assert "fitness is stated as 0.9" in refusals(copy)["tiny-cold"]
    edit(copy / "answers" / "tiny-disturbed.json", fitness=0.9, bound=1.0)
    assert "certificate is refused" in refusals(copy)["tiny-disturbed"]


def test_a_swapped_answer_is_refused(copy: Path) -> None:
    """It is of another round."""
    answers = copy / "answers"
    (answers / "tiny-cold.json").write_text((answers / "tiny-disturbed.json").read_text())
    assert "tiny-cold" in refusals(copy)


def test_an_infeasible_answer_is_refused(copy: Path) -> None:
    """Whatever it claims to be worth."""
    path = copy / "answers" / "tiny-cold.json"
    document = json.loads(path.read_text())
    names = load_round("tiny-cold").cluster.node_names
    document["placements"] = {job: {names[0]: 4} for job in document["placements"]}
    path.write_text(json.dumps(document))
    assert "breaks a rule" in refusals(copy)["tiny-cold"]


def test_a_forged_bound_is_refused(copy: Path) -> None:
    """A certificate has to prove what it claims."""
    path = copy / "certificates" / "tiny-disturbed.json"
    edit(path, bound=json.loads(path.read_text())["bound"] * 0.5)
    assert "certificate is refused" in refusals(copy)["tiny-disturbed"]


def test_a_missing_answer_is_refused(copy: Path) -> None:
    """Where the row says that there is one."""
    (copy / "answers" / "tiny-cold.json").unlink()
    assert "tiny-cold" in refusals(copy)


def test_a_run_of_a_former_round_does_not_count(copy: Path) -> None:
    """It is refused, and left out of rankings."""
    text = (copy / "runs.csv").read_text()
    (copy / "runs.csv").write_text(text.replace(find_round("tiny-cold").sha256, "0" * 64))
    assert "another version" in refusals(copy)["tiny-cold"]
    assert "tiny-cold" not in checked_submission(copy)[1]


def test_a_value_that_refutes_the_library_is_told_aloud(
    greedy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is a better value, and a tighter bound."""
    known = dict(library_rounds())
    false: dict[str, dict[str, Any]] = {
        "tiny-cold": {"fitness": 0.1, "bound": 0.1},
        "tiny-disturbed": {"fitness": 0.1, "bound": 9.0},
    }
    for name, changes in false.items():
        known[name] = replace(known[name], **changes)
    monkeypatch.setattr(checks_module, "find_round", known.__getitem__)
    told = {one.run.round: one.news for one in checked_submission(greedy)[2]}
    assert told["tiny-cold"].startswith("REFUTES")
    assert "BETTER" in told["tiny-disturbed"]
    assert "TIGHTER" in told["tiny-disturbed"]
    assert not told["equal-1x1-one-1"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("seconds_limit", "limit", "column 'seconds_limit' is missing"),
        (",5.0,", ",0.0,", "seconds_limit is"),
        (",5.0,", ",soon,", "seconds_limit is"),
        ("tiny-cold", "tiny-colt", "did you mean tiny-cold"),
    ],
)
def test_a_bad_table_of_runs_is_refused(copy: Path, old: str, new: str, complaint: str) -> None:
    """In one sentence."""
    text = (copy / "runs.csv").read_text()
    (copy / "runs.csv").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=complaint):
        read_runs(copy)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"seed": -1}, "seed"),
        ({"seconds": 0}, "seconds"),
        ({"name": ""}, "name"),
        ({"colour": "red"}, "colour"),
        ({"format": "other"}, "format"),
    ],
)
def test_a_bad_description_is_refused(copy: Path, changes: dict[str, Any], complaint: str) -> None:
    """In one sentence."""
    edit(copy / "submission.json", **changes)
    with pytest.raises(ValueError, match=complaint):
        read_submission(copy)


def test_solved_means_in_time_and_at_the_bound() -> None:
    """And a loss is never negative."""
    line = find_round("tiny-disturbed")
    best = judge(line, "a", 10.0, 1.0, line.fitness)
    late = judge(line, "a", 10.0, 20.0, line.fitness)
    poor = judge(line, "a", 10.0, 1.0, line.fitness * (1 - 1e-5))
    none = judge(line, "a", 10.0, 1.0, math.nan)
    assert [one.solved for one in (best, late, poor, none)] == [True, False, False, False]
    assert counted_seconds(best) == 1.0
    assert counted_seconds(late) == counted_seconds(none) == PENALTY * 10.0
    assert none.loss == none.gap == 1.0
    assert judge(line, "a", 10.0, 1.0, line.fitness * (1 + 1e-12)).loss == 0.0


def test_the_ranking_is_by_rounds_solved_and_then_by_seconds() -> None:
    """Places count from 1."""
    lines = [find_round(name) for name in NAMES]
    slow = {one.name: judge(one, "slow", 10.0, 2.0, one.fitness) for one in lines}
    fast = {one.name: judge(one, "fast", 10.0, 1.0, one.fitness) for one in lines}
    poor = {one.name: judge(one, "poor", 10.0, 0.1, 0.97 * one.fitness) for one in lines}
    submissions = {"poor": poor, "slow": slow, "fast": fast}
    ranks = ranked(submissions, NAMES)
    assert [(one.rank, one.solver) for one in ranks] == [(1, "fast"), (2, "slow"), (3, "poor")]
    assert (ranks[2].within_1, ranks[2].within_5) == (0, 3)
    assert ranks[0].seconds == pytest.approx(1.0)
    assert rank_rows(ranks)[0]["solver"] == "fast"
    assert "Solvers on the library" in rank_page(submissions, NAMES)
    assert len(plot_ranking(submissions, NAMES).axes) == 2


def test_view_shows_a_submission_beside_the_stored_ones(
    greedy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that ran all of its rounds; an allocation or policies make no sense with it."""
    pytest.importorskip("bokeh", reason="needs goodalloc[view]")
    target = tmp_path / "page.html"
    assert main(["view", str(greedy), "--out", str(target)]) == 0
    assert "Solvers on the library" in target.read_text(encoding="utf-8")
    assert "greedy" in target.read_text(encoding="utf-8")
    for option in ("--allocation", "--policies"):
        assert main(["view", str(greedy), option, "x", "--out", str(target)]) == 2
        assert f"argument {option}: a submission has none" in capsys.readouterr().err


def test_a_submission_has_a_line_of_its_own_beside_one_of_the_same_name() -> None:
    """With the name of its folder, and once more if that is taken, too."""
    line = find_round(NAMES[0])
    taken = {"greedy": {line.name: judge(line, "greedy", 10.0, 1.0, line.fitness)}}
    mine = own_name("greedy", Path("results/mine"), taken)
    assert mine == "greedy (mine)"
    assert own_name("greedy", Path("mine"), {*taken, mine}) == "greedy (mine)'"
    assert own_name("other", Path("mine"), taken) == "other"
    taken[mine] = {line.name: judge(line, "greedy", 10.0, 2.0, 0.9 * line.fitness)}
    runs = profiled(taken, [line.name])
    assert runs["solver"].tolist() == ["greedy", mine]
    assert runs["solved_seconds"].tolist() == [1.0, pytest.approx(math.nan, nan_ok=True)]


def test_submissions_without_a_common_round_are_not_ranked() -> None:
    """The sentence names them."""
    runs = {n: {n: judge(find_round(n), n, 1.0, 1.0, 0.1)} for n in NAMES[:2]}
    with pytest.raises(ValueError, match="all of tiny-cold, tiny-disturbed"):
        common_rounds(runs)


def test_certificates_of_the_library_are_verified() -> None:
    """By the stand-alone checker, on small rounds of every origin."""
    some = {one.origin: one for one in core_rounds() if one.jobs <= 60 and one.proof}
    assert len(some) >= 10
    found = [check_library(one.name) for one in some.values()]
    assert not [one.refusal for one in found if one.refusal]
    assert sum(one.certified for one in found) >= 8


def test_a_false_line_of_the_library_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value or a bound that is not what its files say."""
    line = find_round("tiny-disturbed")
    every: list[dict[str, Any]] = [{"fitness": 0.9 * line.fitness}, {"bound": line.fitness}]
    for changes in every:
        false = replace(line, **changes)
        monkeypatch.setattr(checks_module, "find_round", lambda name, false=false: false)
        found = check_library("tiny-disturbed").refusal
        assert ("the table" in found) == ("fitness" in changes)


def test_unknown_stored_submissions_are_refused() -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match="Stored submission 'nobody' is unknown"):
        stored_submissions(["nobody"])


def test_a_newcomer_is_ranked_by_three_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run, verify, rank; with a page, a table and a picture."""
    folder, page = str(tmp_path / "mine"), str(tmp_path / "rank.html")
    solver = "tests.experiments.library.test_submissions:one_each"
    chosen = ["--rounds", ",".join(NAMES)]
    assert (
        main(["library", "run", "--solver", solver, "--name", "mine", *chosen, "--out", folder])
        == 0
    )
    assert "3 of 3 rounds answered" in capsys.readouterr().out
    assert main(["library", "verify", folder]) == 0
    assert (
        "mine: 3 runs, 0 without an answer, 0 whose answer the checker refused"
        in capsys.readouterr().out
    )
    assert main(["library", "rank", folder, "--beside", "none", "--out", page]) == 0
    assert "3 rounds that all of them ran" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        "mine",
        "rank.html",
        "rank.csv",
        "rank.png",
    }


def test_rounds_are_listed_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what is written is verified by the command for certificates."""
    assert main(["library", "list", "--origin", "sia", "--json"]) == 0
    assert {row["origin"] for row in json.loads(capsys.readouterr().out)} == {"sia"}
    assert main(["library", "list", "--rounds", "tiny-cold"]) == 0
    assert capsys.readouterr().out.endswith("\n1 round, 1 with a proved optimum\n")
    assert main(["library", "list", "--class", "easy"]) == 0
    assert "more on trees, with --feature tree\n" in capsys.readouterr().out
    assert main(["library", "show", "tiny-cold"]) == 0
    assert "benchmark name=tiny-cold" in capsys.readouterr().out
    files = [str(tmp_path / name) for name in ("round.json", "best.json", "proof.json")]
    arguments = ["--out", files[0], "--answer", files[1], "--certificate", files[2]]
    assert main(["library", "get", "tiny-cold", *arguments]) == 0
    assert main(["verify", *files]) == 0
    assert main(["library", "verify", "--rounds", "tiny-cold"]) == 0
    assert "1 round: 1 with a bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "ACTION"),
        (["rnk"], "did you mean rank"),
        (["show", "tiny-colt"], "did you mean tiny-cold"),
        (["list", "--class", "eazy"], "did you mean easy"),
        (["list", "--origin", "sia", "--feature", "shares"], "select no round together"),
        (["list", "--most-jobs", "0"], "--most-jobs"),
        (["get", "tiny-cold", "--out", "/no/such/folder/x.json"], "no directory"),
        (["get", "tiny-cold", "--out", "x.json", "--answer", "x.json"], "named twice"),
        (["run", "--solver", "greedy"], "--out"),
        (["run", "--solver", "greedi", "--out", "x"], "did you mean greedy"),
        (["run", "--solver", "greedy", "--seconds", "0", "--out", "x"], "--seconds"),
        (["verify", "nowhere"], "nowhere"),
        (["rank", "nowhere"], "nowhere"),
        (["rank", "--beside", "nobody"], "nobody"),
        (["rank", "--beside", "none"], "no submissions"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    """With exit code 2, and never a traceback."""
    monkeypatch.chdir(tmp_path)
    assert main(["library", *words]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert "Traceback" not in told


def test_better_values_of_a_submission_are_taken_over(greedy: Path, tmp_path: Path) -> None:
    """Of rounds whose value they beat, with the allocation; nothing else changes."""
    lines = {one.name: one for one in library_rounds().values() if one.name in NAMES}
    lines["tiny-cold"] = replace(lines["tiny-cold"], fitness=0.1)
    (tmp_path / "answers").mkdir()
    (tmp_path / CATALOGUE).write_text(catalogue_text(lines.values()))
    found = adopt(greedy, tmp_path)
    assert found == []  # by the library that ships, nothing is better
    assert (tmp_path / CATALOGUE).read_text() == catalogue_text(lines.values())


def test_a_better_value_goes_into_the_table(
    greedy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its solver, and its allocation as the answer that ships."""
    known = dict(library_rounds())
    known["tiny-cold"] = replace(known["tiny-cold"], fitness=0.1)
    monkeypatch.setattr(checks_module, "find_round", known.__getitem__)
    (tmp_path / "answers").mkdir()
    (tmp_path / CATALOGUE).write_text(catalogue_text(known[name] for name in NAMES))
    assert adopt(greedy, tmp_path) == ["tiny-cold"]
    lines = {one.name: one for one in read_catalogue(tmp_path / CATALOGUE)}
    assert lines["tiny-cold"].fitness == find_round("tiny-cold").fitness
    assert lines["tiny-cold"].solver == "greedy"
    document = read_compressed(tmp_path / "answers" / "tiny-cold.json.gz")
    assert result_from_dict(document, load_round("tiny-cold")).allocation is not None
