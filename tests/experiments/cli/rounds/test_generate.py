"""Rounds on trees and with execution plans, drawn by the command `generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.files.instance import read_instance
from goodalloc.data.plans.llm_round import generate_llm_round
from goodalloc.data.topology.topology_file import read_topology
from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_round_on_a_tree_is_that_of_the_library_function(tmp_path: Path) -> None:
    """Round and tree in two files, which `topology` reads."""
    out, tree = tmp_path / "round.json", tmp_path / "tree.json"
    command = ["generate", "--nodes", "64", "--load", "0.5", "--state", "settled", "--gangs", "0.1"]
    assert main([*command, "--seed", "3", "--out", str(out), "--tree", str(tree)]) == 0
    drawn = generate_on_tree(3, nodes=64, load=0.5, gangs=0.1)
    instance = read_instance(out)
    assert instance.name == f"{drawn.instance.name}-gangs-0.1"
    assert instance.replace(name=drawn.instance.name) == drawn.instance
    assert read_topology(tree, instance).topology == drawn.topology
    assert any(job.min_replicas == 8 for job in instance.jobs)


def test_rules_and_name_are_those_that_are_asked_for(tmp_path: Path) -> None:
    """Also on a tree."""
    out, tree = tmp_path / "round.json", tmp_path / "tree.json"
    command = ["generate", "--jobs", "5", "--power", "0", "--name", "mine"]
    assert main([*command, "--out", str(out), "--tree", str(tree)]) == 0
    instance = read_instance(out)
    assert (instance.name, instance.rules.power, instance.num_jobs) == ("mine", 0.0, 5)
    assert read_topology(tree, instance).topology.num_nodes == 16


def test_a_tree_of_equal_nodes_needs_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`standard`, which `generate` writes, too."""
    out, tree, best = (tmp_path / f"{name}.json" for name in ("round", "tree", "best"))
    assert main(["generate", "--jobs", "6", "--out", str(out), "--tree", str(tree)]) == 0
    told = []
    for one in ("standard", str(tree)):
        assert main(["topology", str(out), one, "--out", str(best)]) == 0
        assert main(["check", str(out), str(best), "--tree", one]) == 0
        told.append(capsys.readouterr().out)
    assert all("feasible: fitness" in text for text in told)


def test_rounds_with_plans_have_modes(tmp_path: Path) -> None:
    """On as many nodes of each type."""
    out = tmp_path / "plans.json"
    command = ["generate", "--nodes", "4", "--jobs", "7", "--seed", "1", "--out", str(out)]
    assert main([*command, "--workload", "plans", "--power", "-1"]) == 0
    instance = read_instance(out)
    assert (instance.num_jobs, instance.cluster.num_nodes, instance.rules.power) == (7, 12, -1.0)
    assert instance.name == "plans-7-jobs-12-nodes-seed-1"
    assert all(job.modes for job in instance.jobs)
    assert main([*command, "--workload", "llm"]) == 0
    assert read_instance(out) == generate_llm_round(1, 7, 4, 4)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gangs", "0.1"], "argument --gangs: expected --tree with it"),
        (["--gangs", "1", "--tree", "t", "--nodes", "1"], "expected two nodes at least"),
        (["--workload", "plans", "--gangs", "0.1"], "argument --gangs: makes no difference"),
        (["--tree", "t", "--gangs", "1.5"], "argument --gangs"),
        (["--tree", "t", "--cores", "8"], "argument --cores: expected none with --tree"),
        (["--tree", "t", "--state", "scattered"], "got scattered; expected another with --tree"),
        (["--tree", "t", "--workload", "synergy"], "no difference to the workload 'synergy'"),
        (["--workload", "plans"], "argument --jobs: expected one with --workload plans"),
        (["--workload", "llm", "--jobs", "2", "--tree", "t"], "no difference to the workload"),
        (["--workload", "llm", "--jobs", "2", "--load", "1"], "argument --load: makes no"),
        (["--tree", "t", "--jobs", "2", "--out", "x.parquet"], "expected none for a round in col"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In one sentence, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["generate", *words]) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert not [*tmp_path.iterdir()]


def test_one_of_a_kind_has_a_noun_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A round of one job on one node with one GPU, drawn, solved and checked."""
    path, best = str(tmp_path / "one.json"), str(tmp_path / "best.json")
    sizes = ("--jobs", "1", "--nodes", "1", "--gpus-per-node", "1")
    assert main(["generate", *sizes, "--out", path]) == 0
    assert main(["solve", path, "--out", best]) == 0
    assert main(["check", path, best]) == 0
    said = capsys.readouterr().out
    assert "1 job, 1 node\n" in said
    assert "1 job, 1 node, 1 GPU\n" in said
    assert "1 of 1 job, worth" in said
    assert "1 of 1 GPU\n" in said
    assert said.rstrip().endswith("1 of 1 job served")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("generate", "--out", "round.csv"), "ends in .csv; expected .json or .parquet, which"),
        (("generate", "--tree", "tree.parquet"), "ends in .parquet; expected .json, which is what"),
        (("fit", "profile.csv", "--out", "model.csv"), "ends in .csv; expected .json, which is"),
    ],
)
def test_a_name_that_tells_another_format_is_refused(
    command: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is written; a name without an end is taken."""
    monkeypatch.chdir(tmp_path)
    assert main([*command]) == 2
    assert words in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
    assert main(["generate", "--jobs", "2", "--out", "round"]) == 0
    assert read_instance(tmp_path / "round").num_jobs == 2
