"""Commands `topology --certificate` and `verify --tree`: written, checked, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.files.instance import write_instance
from goodalloc.data.topology.topology_file import write_topology
from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A round, its tree, an allocation and its certificate."""
    folder = tmp_path_factory.mktemp("tree")
    round_ = generate_on_tree(1, 16, load=0.5)
    write_instance(round_.instance, folder / "round.json")
    write_topology(round_, folder / "tree.json")
    names = ("round.json", "tree.json", "--out", "best.json", "--certificate", "proof.json")
    command = [str(folder / name) if name.endswith("json") else name for name in names]
    assert main(["topology", *command]) == 0
    return folder


def _verify(folder: Path, *more: str) -> int:
    return main(["verify", *(str(folder / f"{x}.json") for x in ("round", "best", "proof")), *more])


def test_a_certificate_is_verified(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, with rational numbers too."""
    for exact in ([], ["--exact"]):
        assert _verify(files, "--tree", str(files / "tree.json"), *exact) == 0
        assert "verified       True" in capsys.readouterr().out


def test_the_checker_alone_verifies_the_resolved_round(files: Path, repository: Path) -> None:
    """By its own files, from the round with all models and speeds spelt out."""
    tree, resolved = str(files / "tree.json"), files / "resolved.json"
    assert _verify(files, "--tree", tree, "--resolved", str(resolved)) == 0
    script = repository / "experiments" / "verification" / "verify.py"
    arguments = [resolved, files / "best.json", files / "proof.json"]
    done = subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(resolved.read_text())["topology"]["levels"][0]["name"] == "island"


def test_a_scheduler_is_judged_by_the_same_bound(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Best fit loses something, and its certificate tells how much at most."""
    paths = [str(files / name) for name in ("round.json", "tree.json")]
    out = ["--out", str(tmp_path / "a.json"), "--certificate", str(tmp_path / "c.json"), "--json"]
    found = []
    for placement in ("exact", "best_fit"):
        assert main(["topology", *paths, "--placement", placement, *out]) == 0
        found.append(json.loads(capsys.readouterr().out))
    exact, greedy = found
    assert greedy["fitness"] < exact["fitness"] <= exact["certified_bound"]
    assert greedy["certified_bound"] == pytest.approx(exact["certified_bound"], rel=1e-9)
    files_of = [str(files / "round.json"), str(tmp_path / "a.json"), str(tmp_path / "c.json")]
    assert main(["verify", *files_of, "--tree", str(files / "tree.json")]) == 0


def test_without_its_tree_a_certificate_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its digest is that of the round on the tree; traces and time shares have no tree."""
    assert _verify(files) == 1
    told = capsys.readouterr().out
    assert "digest" in told
    assert told.rstrip().endswith("The certificate of a round on a tree is checked with --tree.")


def test_on_another_tree_a_certificate_is_refused_with_what_may_be_the_reason(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another tree, or a processor that rounds speeds otherwise."""
    other = tmp_path / "other.json"
    document = json.loads((files / "proof.json").read_text())
    other.write_text(json.dumps(document | {"digest": "0" * 64}))
    paths = [str(files / "round.json"), str(files / "best.json"), str(other)]
    assert main(["verify", *paths, "--tree", str(files / "tree.json")]) == 1
    assert "NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL'" in capsys.readouterr().out


def test_an_allocation_without_a_certificate_is_written_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where distributed jobs may share nodes there are no certificates: one sentence says so."""
    round_ = generate_on_tree(1, 16, load=0.25)
    rules = round_.instance.rules.replace(interference_avoidance=False)
    instance = round_.instance.replace(rules=rules)
    write_instance(instance, tmp_path / "round.json")
    write_topology(round_.replace(instance=instance), tmp_path / "tree.json")
    names = ("round.json", "tree.json", "--out", "a.json", "--certificate", "c.json")
    command = [str(tmp_path / name) if name.endswith("json") else name for name in names]
    assert main(["topology", *command, "--placement", "best_fit"]) == 2
    assert "interference_avoidance is False; expected True" in capsys.readouterr().err
    assert (tmp_path / "a.json").exists()
    assert not (tmp_path / "c.json").exists()
