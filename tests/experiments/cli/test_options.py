"""Options that mean nothing where they stand are refused, before any time is spent."""

from __future__ import annotations

import math
import signal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data import load_benchmark
from goodalloc.experiments.cli import report
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds import room_front
from goodalloc.experiments.gap import comparison, demo
from goodalloc.experiments.library import submission_run
from goodalloc.experiments.support.stop_request import interrupted_keeping
from goodalloc.models.making_room.room_plan import RoomPlan
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.making_room.defragment import fewest_moves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: No plan, and no proof that there is none.
NONE = RoomPlan((), (), (), math.inf, 0.0, 0.0)

#: Commands, and what is said of them.
REFUSED = [
    ("reproduce table2 --workloads 6,6", "argument --workloads: got 6 twice"),
    ("reproduce table2 --workloads 1-4 3-6", "argument --workloads: got 3 twice"),
    ("reproduce table2 --seeds 0,0", "argument --seeds: got 0 twice"),
    ("reproduce table2 --confirm", "argument --confirm: expected --quick, too"),
    ("reproduce --store", "argument --store: expected a study to run"),
    ("reproduce table2 --dry-run --store", "argument --store: expected a study to run, without"),
    ("report page.md --stale", "File 'page.md': expected no document with --stale"),
    ("report page.md --figures figures", "File 'page.md': expected no document with --stale"),
    ("report --stale --artifact a=b", "argument --artifact: expected --renew"),
    ("solve tiny-cold --cross-check-seconds 5", "--cross-check-seconds: expected --cross-check"),
    ("fit missing.csv --pictures pdf", "argument --pictures: expected --out with it"),
    ("measure perceptron --restart --out a.csv --seed 1", "--seed: expected none with --restart"),
    (
        "measure perceptron --restart --out a.csv --error 0.1",
        "--error: expected none with --restart",
    ),
    ("measure perceptron --restart --out a.csv --backend gloo", "--backend: expected none with"),
    (
        "measure perceptron neumf --beside --out a.csv --error 0.1",
        "--error: expected none with --be",
    ),
    (
        "measure perceptron neumf --beside --out a.csv --backend gloo",
        "--backend: expected none with",
    ),
    (
        "launch --cluster c --name a --gpus 0,0 -- true",
        "argument --gpus: got '0,0'; expected names",
    ),
    ("launch --cluster c --name a --gpus 0,,1 -- true", "argument --gpus: got '0,,1'; expected"),
    ("launch --cluster c --name a --gpus 0,\u00a00 -- true", "expected names of different GPUs"),
]


@pytest.mark.parametrize(("command", "told"), REFUSED)
def test_an_option_without_a_meaning_is_refused(
    command: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command.startswith("measure"):
        pytest.importorskip("torch", reason="needs goodalloc[measure]")
    monkeypatch.chdir(tmp_path)
    assert main(command.split(" ")) == 2
    assert not list(tmp_path.iterdir())
    assert told in capsys.readouterr().err


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a shell's foreground, whatever the tests run in."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_code_that_is_not_committed_is_refused_before_a_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And leaves no folder."""

    def refuse() -> str:
        raise ValueError("File 'a.py' differs from the last commit.")

    monkeypatch.setattr(report, "commit_of_code", refuse)
    out = tmp_path / "out"
    assert main(["reproduce", "hesrpt", "--quick", "--store", "--out", str(out)]) == 2
    assert "File 'a.py' differs" in capsys.readouterr().err
    assert not out.exists()


def test_nodes_are_asked_for_gpus_and_not_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The head of a cluster may have none."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    words = ["--on", "ray:127.0.0.1:1", "--backend", "nccl", "--out", str(tmp_path / "a.csv")]
    assert main(["measure", "perceptron", *words]) == 2
    assert "Cluster 'ray:127.0.0.1:1'" in capsys.readouterr().err


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_certificate_is_sought_ends_the_runs_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Instead of the certificate alone, after which all further runs would fail."""
    begun: list[str] = []

    def run(*_: object, **__: object) -> list[object]:
        begun.append("first")
        with suppress(KeyboardInterrupt):  # as in a search for a certificate
            signal.raise_signal(signal.SIGINT)
        begun.append("second")
        return []

    monkeypatch.setattr(submission_run, "run_submission", run)
    command = ["library", "run", "--solver", "greedy", "--core", "--out", str(tmp_path / "mine")]
    assert main(command) == 130
    assert begun == ["first"]
    assert "interrupted; the runs that ended are in" in capsys.readouterr().err


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_a_front_claims_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found before it is kept."""
    asked: list[int] = []

    def moves(instance: Any, gang: Any, **named: Any) -> RoomPlan:
        asked.append(gang.nodes)
        if gang.nodes == 2:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            return NONE
        return fewest_moves(instance, gang, **named)

    monkeypatch.setattr(room_front, "fewest_moves", moves)
    command = ["room", "even-disturbed", "--gang", "1:4", "--out", str(tmp_path)]
    assert main([*command, "--front", "1-3"]) == 130
    out = capsys.readouterr().out
    assert "interrupted before 2 nodes" in out
    assert "proved" not in out
    assert len((tmp_path / "front.csv").read_text().splitlines()) == 2
    assert asked == [1, 2]
    assert main([*command, "--front", "2-3"]) == 130
    assert "interrupted before anything was found" in capsys.readouterr().err


def test_no_plan_without_a_proof_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(room_front, "fewest_moves", lambda *_, **__: NONE)
    assert main(["room", "even-disturbed", "--gang", "1:4", "--front", "2-3"]) == 1
    assert "no moves make room for 2 nodes, as far as was searched" in capsys.readouterr().out


def test_an_interrupt_of_the_demonstration_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the results so far; no further round is begun."""
    begun: list[str] = []

    def compare(instance: Any, solvers: Any, *given: Any, **named: Any) -> Any:
        begun.append(instance.name)
        return comparison.compare(instance, solvers[:1], *given, **named)

    def interrupted(instance: Any, *given: Any, **named: Any) -> Any:
        begun.append(instance.name)
        *first, last = comparison.compare(instance, *given, **named)
        return [*first, replace(last, limit=Limit.INTERRUPTED)]

    monkeypatch.setattr(demo, "compare", compare)
    monkeypatch.setattr(demo, "DEMO_INSTANCES", ("tiny-cold", "tiny-disturbed"))
    command = ["demo", "--solvers", "greedy,highs", "--out", str(tmp_path)]
    assert main(command) == 130
    assert "interrupted before all solvers had run" in capsys.readouterr().out
    assert begun == [load_benchmark("tiny-cold").name]
    assert (tmp_path / "demo.csv").exists()
    monkeypatch.setattr(demo, "compare", interrupted)
    assert main(command) == 130
    assert begun[1:] == ["tiny-cold"]


def test_an_interrupt_tells_what_is_kept_unless_it_says_so_itself() -> None:
    kept = "half of it is kept"
    for said, told in (("", f"interrupted; {kept}."), ("all is lost.", "all is lost.")):
        with pytest.raises(KeyboardInterrupt) as raised, interrupted_keeping(kept):
            raise KeyboardInterrupt(said)
        assert str(raised.value) == told
