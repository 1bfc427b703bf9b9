"""All trainings that ship, measured by one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from goodalloc.data.files.measured_profile import read_measured_profile, rows_as_text
from goodalloc.experiments.cli import measure as cli_measure
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure import measure_all
from goodalloc.experiments.measure.devices import CPUS, Devices
from goodalloc.experiments.measure.execution import PLAIN, Execution
from goodalloc.experiments.measure.measure_all import best_speeds, everything, plot_speeds
from goodalloc.experiments.tasks.task import SMALL, TASKS
from tests.support.profiles import some_rows

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ["--batch-sizes", "32,64", "--replicas", "1", "--seconds", "0.1", "--error", "1"]


class Pretended:
    """Processes that take a millisecond an example."""

    weights = 1000
    size = 1

    def __init__(self, *_: object, **__: object) -> None:
        """As those of a machine."""

    def ask(self, _: str, replicas: int, **order: Any) -> list[dict[str, Any]]:
        """The same from every replica."""
        if order["order"] == "probe":
            self.size = order["atomic_batch_size"]
            return [{"fits": True}] * replicas
        if order["order"] == "split":
            return [{"parts": [], "memory": None}] * replicas
        seconds = [1e-3 * self.size] * order["repetitions"]
        one = {"passes": seconds, "updates": seconds, "steps": seconds, "core": 1.0}
        return [one] * replicas

    def nodes(self, _: int) -> int:
        """One machine."""
        return 1

    def kill(self) -> None:
        """Nothing is left."""


def test_on_gpus_all_tasks_are_measured_in_all_precisions() -> None:
    """On CPUs the small ones, as they are."""
    found = everything(Devices(("H100",), "nccl"))
    assert len(found) == 3 * len(TASKS)
    assert found["gpt-124m-bf16"] == ("gpt-124m", Execution("bf16"))
    assert [*everything(CPUS).values()] == [(name, PLAIN) for name in SMALL]


def test_one_command_measures_all_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile for each, a table, and a picture."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    ways = {
        f"perceptron-{way.precision}": ("perceptron", way) for way in (PLAIN, Execution("bf16"))
    }
    monkeypatch.setattr(measure_all, "everything", lambda _: ways)
    monkeypatch.setattr(cli_measure, "LocalCrew", Pretended)
    folder = tmp_path / "all"
    assert main(["measure", "--all", "--out", str(folder), *QUICK]) == 0
    assert "speeds.csv" in capsys.readouterr().out
    table = pd.read_csv(folder / "speeds.csv")
    assert table.precision.tolist() == ["fp32", "bf16"]
    assert table.examples_per_second.tolist() == pytest.approx([1000.0, 1000.0])
    assert set(table.largest_batch) == {64}
    assert (folder / "speeds.png").stat().st_size > 10_000
    before = (folder / "perceptron-bf16.csv").read_bytes()
    (folder / "perceptron-fp32.csv").unlink()  # as if it had been cut off
    assert main(["measure", "--all", "--out", str(folder), *QUICK]) == 0
    assert (folder / "perceptron-bf16.csv").read_bytes() == before
    assert (folder / "perceptron-fp32.csv").exists()


def test_the_best_speed_is_that_of_all_replicas_in_the_fastest_configuration(
    tmp_path: Path,
) -> None:
    """By hand, for each number of replicas."""
    path = tmp_path / "profile.csv"
    rows = [row for row in some_rows() if row["nodes"] == 1]
    path.write_text(rows_as_text(rows), encoding="utf-8")
    speeds = best_speeds({"perceptron-fp32": read_measured_profile(path)})
    assert [one.replicas for one in speeds] == [1, 2, 3]
    for one in speeds:
        by_hand = max(
            row["replicas"]
            * row["atomic_batch_size"]
            * (row["accumulation_steps"] + 1)
            / row["step_s"]
            for row in rows
            if row["replicas"] == one.replicas
        )
        assert one.examples_per_second == pytest.approx(by_hand, rel=1e-3)
        assert (one.task, one.precision, one.largest_batch) == ("perceptron", "fp32", 256)
    (ax,) = plot_speeds(speeds).axes
    assert [bar.get_width() for bars in ax.containers for bar in bars] == [
        one.examples_per_second for one in speeds
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "argument model: got 0 trainings; expected 1"),
        (["resnet", "--all"], "argument model: got 1 trainings; expected 0 with --all"),
    ],
)
def test_one_training_or_all_is_asked_for(
    arguments: list[Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not both, and not neither."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    assert main(["measure", *arguments, "--out", str(tmp_path / "x")]) == 2
    assert sentence in capsys.readouterr().err
