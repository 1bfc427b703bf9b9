"""What a restart costs a training: its parts, the command, and what it refuses."""

from __future__ import annotations

import contextlib
import csv
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.tasks import restart
from goodalloc.experiments.tasks.restart import RestartCost, restart_cost

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch", reason="needs goodalloc[measure]")

BAD_TASK = """
from goodalloc.experiments.tasks import TrainingTask

def broken():
    def no_module():
        raise KeyError("weights")
    return TrainingTask(no_module, lambda n, g: (), lambda m, b: 0, lambda p: None)
"""


class Command(NamedTuple):
    """What the command printed and wrote, and what was asked and answered for each of its rows."""

    printed: str
    rows: list[dict[str, str]]
    asked: list[tuple[tuple[Any, ...], dict[str, Any]]]
    costs: list[RestartCost]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Two visits, of which the first restarts a training and the second repeats its numbers."""
    out, printed = tmp_path_factory.mktemp("restarts") / "restarts.csv", io.StringIO()
    asked, costs = list[tuple[tuple[Any, ...], dict[str, Any]]](), list[RestartCost]()

    def once(*arguments: Any, **options: Any) -> RestartCost:
        asked.append((arguments, options))
        again = costs[0]._replace(save_s=costs[0].save_s + 1.0) if costs else None
        costs.append(again or restart_cost(*arguments, **options))
        return costs[-1]

    words = ["measure", "perceptron", "--restart", "--visits", "2", "--batch-sizes", "32"]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(restart, "restart_cost", once)
        assert main([*words, "--out", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text("utf-8"))))
    return Command(printed.getvalue(), rows, asked, costs)


def test_what_a_training_loses_is_the_sum_of_its_parts() -> None:
    """The longer first step among them."""
    cost = RestartCost("a", "cpu", 10.0, 1.0, 2.0, 4.0, 8.0, first_step_s=20.0, step_s=4.0)
    assert cost.lost == 1.0 + 2.0 + 4.0 + 8.0 + 16.0


def test_a_real_restart_has_parts_above_zero_and_the_whole_state(command: Command) -> None:
    """Weights in single precision, and a momentum for each of them if the optimiser has some."""
    import torch

    from goodalloc.experiments.tasks.task import find_task

    cost = command.costs[0]
    parts = (cost.save_s, cost.start_s, cost.build_s, cost.load_s, cost.first_step_s, cost.step_s)
    assert min(parts) > 0.0
    assert cost.device == "cpu"
    with torch.device("meta"):
        module = find_task("perceptron").make_module()
    weights = sum(weight.numel() for weight in module.parameters()) * 4 / 2**20
    assert weights < cost.checkpoint_mib < 3.1 * weights


def test_the_command_writes_a_row_a_restart(command: Command) -> None:
    """And says what they cost on average."""
    assert "a restart costs" in command.printed
    assert command.asked == [(("perceptron", "cpu"), {"batch": 32})] * 2
    assert [row["model"] for row in command.rows] == ["perceptron"] * 2
    for row, cost in zip(command.rows, command.costs, strict=True):
        parts = sum(float(row[name]) for name in ("save_s", "start_s", "build_s", "load_s"))
        first = float(row["first_step_s"]) - float(row["step_s"])
        assert float(row["lost_s"]) == pytest.approx(parts + first, rel=1e-2)
        assert float(row["lost_s"]) == pytest.approx(cost.lost, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "--restart"], "Model 'nobody' is unknown"),
        (["perceptron", "--restart", "--all"], "neither --all nor --beside"),
        (["perceptron", "--restart", "--precision", "bf16"], "expected single precision"),
        (["perceptron", "--restart", "--batch-sizes", "8,16"], "got 2; expected one"),
        (["perceptron", "--restart", "--seconds", "2"], "--seconds: expected none with --restart"),
        (["perceptron", "--restart", "--on", "ray"], "--restart: expected none with --on"),
    ],
)
def test_bad_words_get_one_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    out = tmp_path / "restarts.csv"
    assert main(["measure", *words, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_training_that_fails_says_why(tmp_path: Path) -> None:
    """By the last line of its errors."""
    path = tmp_path / "mine.py"
    path.write_text(BAD_TASK, encoding="utf-8")
    with pytest.raises(ValueError, match=r"ended early: KeyError: 'weights'"):
        restart_cost(f"{path}:broken")


def test_a_training_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence."""
    monkeypatch.setattr(restart, "PATIENCE", 0.01)
    with pytest.raises(ValueError, match=r"'perceptron' took more than 0\.01 s"):
        restart_cost("perceptron")


@pytest.mark.gpu
def test_a_restart_on_a_gpu_names_it() -> None:
    """And its first step is longer than others."""
    cost = restart_cost("perceptron", "cuda:0")
    assert cost.device != "cpu"
    assert cost.first_step_s > cost.step_s
