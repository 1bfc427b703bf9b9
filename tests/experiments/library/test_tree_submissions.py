"""Rounds of the library on trees: solvers of their own, checks, certificates and files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.files import read_instance
from goodalloc.data.library import find_round
from goodalloc.data.library.stored_files import read_compressed
from goodalloc.data.topology import load_tree_round, read_topology
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.library import (
    Submission,
    check_library,
    checked_submission,
    run_submission,
)
from goodalloc.experiments.library.best_known import Best, decide, updated, write_better
from goodalloc.experiments.library.loaded_round import EXAMPLE, LoadedRound

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.topology import TopologyRound

#: A small round on a tree.
NAME = "tree-20x16-settled-1"


def nothing(round_: TopologyRound) -> np.ndarray:
    """Give no job any GPU."""
    return np.zeros((round_.instance.num_jobs, round_.instance.cluster.num_nodes), dtype=int)


def everything(round_: TopologyRound) -> np.ndarray:
    """Give every job all GPUs."""
    return np.tile(round_.instance.cluster.node_gpus, (round_.instance.num_jobs, 1))


def test_a_solver_of_rounds_on_trees_is_run_checked_and_certified(tmp_path: Path) -> None:
    """The package's own meets the bound of the library, by a certificate; to wait does not."""
    for solver in (EXAMPLE, f"{__name__}:nothing"):
        folder = tmp_path / solver.rpartition(":")[2]
        submission = Submission(solver, solver, seconds=20.0, certificates=True)
        (run,) = run_submission(submission, [find_round(NAME)], folder)
        assert run.status == "feasible"  # what a solver claims is not believed
        _, runs, (check,) = checked_submission(folder)
        assert not check.refusal
        assert check.certified_bound >= check.fitness * (1 - 1e-9)
        assert runs[NAME].solved == (solver == EXAMPLE)


@pytest.mark.parametrize(
    ("solver", "words"), [("everything", "infeasible allocation refused"), ("none", "unknown")]
)
def test_an_answer_that_breaks_a_rule_counts_as_none(
    tmp_path: Path, solver: str, words: str
) -> None:
    """And a function that is not there is refused before anything runs."""
    submission = Submission(f"{__name__}:{solver}", "mine", seconds=5.0)
    if solver == "none":
        with pytest.raises(ValueError, match="has no attribute 'none'"):
            run_submission(submission, [find_round(NAME)], tmp_path)
        return
    (run,) = run_submission(submission, [find_round(NAME)], tmp_path)
    assert run.fitness is None
    assert words in run.message


def test_shipped_solvers_of_rounds_without_trees_are_refused(tmp_path: Path) -> None:
    """With the name of one that takes them."""
    with pytest.raises(ValueError, match=r"expected a function of a TopologyRound, such as .*tree"):
        run_submission(Submission("greedy", "greedy", seconds=5.0), [find_round(NAME)], tmp_path)


def test_a_round_on_a_tree_comes_in_two_files_that_other_commands_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-alone checker verifies what ships."""
    files = [str(tmp_path / name) for name in ("a.json", "t.json", "answer.json", "proof.json")]
    options = ("--out", "--tree", "--answer", "--certificate")
    words = [word for pair in zip(options, files, strict=True) for word in pair]
    assert main(["library", "get", NAME, *words]) == 0
    round_ = read_topology(files[1], read_instance(files[0]))
    assert round_ == load_tree_round(NAME)
    capsys.readouterr()
    assert main(["verify", files[0], *files[2:], "--tree", files[1], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"]
    assert main(["library", "get", NAME, "--out", files[0]]) == 2
    assert "is on a tree; expected --tree FILE, too" in capsys.readouterr().err
    assert main(["library", "get", "tiny-cold", *words[:4]]) == 2
    assert "is on no tree; expected no --tree" in capsys.readouterr().err


def test_every_small_round_on_a_tree_is_what_the_library_says() -> None:
    """Value, bound and certificate."""
    found = check_library(NAME)
    assert not found.refusal
    assert found.certified


def test_the_best_of_two_results_is_kept_by_parts(tmp_path: Path) -> None:
    """A worse allocation with a tighter bound changes the certificate only, and the reverse."""
    for name in ("answers", "certificates"):
        (tmp_path / name).mkdir()
    round_ = LoadedRound.of("tiny-disturbed")
    best = decide(round_, 10.0)
    line = replace(find_round("tiny-disturbed"), fitness=math.nan, bound=math.inf, proof="")
    write_better(tmp_path, round_, line, best)
    line = updated(line, best)
    answer, proof = (
        tmp_path / kind / "tiny-disturbed.json.gz" for kind in ("answers", "certificates")
    )
    stored, proved = read_compressed(answer), proof.read_bytes()
    worse = replace(best.result, fitness=0.9 * best.result.fitness, certificate=None)
    for other in (
        replace(worse, bound=1.1 * best.result.bound),  # worse in all
        replace(worse, fitness=best.result.fitness, bound=2.0),  # as good, without a proof
    ):
        found = Best(other, 1.0, best.greedy)
        write_better(tmp_path, round_, line, found)
        assert updated(line, found).bound == line.bound
        assert updated(line, found).proof == "certificate"
        assert (read_compressed(answer), proof.read_bytes()) == (stored, proved)
    loose = replace(line, bound=2.0 * line.bound, fitness=1.05 * line.fitness)
    write_better(tmp_path, round_, loose, Best(best.result, 1.0, best.greedy))
    assert read_compressed(answer) == stored  # what is known is better, and its answer stays
