"""All trainings that ship, measured by one command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.files.measured_profile import read_measured_profile, rows_as_text
from goodalloc.experiments.cli import measure as cli_measure
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure import beside, measure_all
from goodalloc.experiments.measure.beside import SharedRate
from goodalloc.experiments.measure.devices import CPUS, Devices
from goodalloc.experiments.measure.execution import PLAIN, Execution
from goodalloc.experiments.measure.measure_all import (
    PARTS,
    best_speeds,
    continue_table,
    everything,
    pairs,
    plot_pairs,
    plot_restarts,
    plot_speeds,
)
from goodalloc.experiments.reporting.estimates import Estimate
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.experiments.tasks import restart
from goodalloc.experiments.tasks.restart import RestartCost
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


GPU = Devices(("H100",), "nccl")


def shared(one: str, other: str, rate: float) -> SharedRate:
    """What a training has left beside another."""
    return SharedRate(one, 1, other, 2, 10.0, 10.0 * rate, Estimate(rate, 0.1), 0.9, 0.7, 12.0,
                      Estimate(1.0 - 1.6 * rate, 0.1), 1.0)  # fmt: skip


def cost_of(model: str, device: str = "cpu", batch: int | None = None) -> RestartCost:
    """A restart whose parts are known."""
    return RestartCost(model, device, 10.0, 1.0, 2.0, 4.0, 8.0, 20.0, 4.0 + (batch or 0))


def test_on_gpus_all_tasks_are_measured_in_all_precisions() -> None:
    """On CPUs the small ones, as they are."""
    found = everything(GPU)
    assert len(found) == 3 * len(TASKS)
    assert found["gpt-124m-bf16"] == ("gpt-124m", Execution("bf16"))
    assert [*everything(CPUS).values()] == [(name, PLAIN) for name in SMALL]


def pretend_machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Trainings whose numbers are known, and a list of which was measured."""
    calls = list[str]()

    def restarted(model: str, device: str, *, batch: int | None = None) -> RestartCost:
        calls.append(model)
        return cost_of(model, device, batch)

    def rates(one: Any, other: Any, *_: Any, **__: Any) -> tuple[SharedRate, SharedRate]:
        calls.append(other.model if other.model != "resnet" else "large")
        if other.model == "resnet":
            raise ValueError("Training 'resnet': memory does not hold 1 examples; expected fewer.")
        return (
            shared(one.model, other.model, 0.5),
            shared(other.model, one.model, 0.25),
        )

    monkeypatch.setattr(measure_all, "trainings", lambda _: ("perceptron", "neumf"))
    monkeypatch.setattr(
        measure_all, "pairs", lambda _: [("perceptron", "neumf"), ("perceptron", "resnet")]
    )
    monkeypatch.setattr(restart, "restart_cost", restarted)
    monkeypatch.setattr(beside, "rates_beside", rates)
    return calls


def test_every_training_has_a_partner() -> None:
    """Small ones all others, those of real size two."""
    assert len(pairs(CPUS)) == 6
    assert {name for pair in pairs(CPUS) for name in pair} == set(SMALL)
    large = [pair for pair in pairs(GPU) if pair not in pairs(CPUS)]
    named = [name for pair in large for name in pair]
    assert sorted(named) == sorted(2 * [name for name in TASKS if name not in SMALL])
    assert all(one != other for one, other in pairs(GPU))


def rows_of(device: str, *names: str) -> list[dict[str, Any]]:
    """Rows of measurements."""
    return [{"model": name, "lost_s": 0.1, "memory_mib": None, "device": device} for name in names]


def test_a_table_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    """What fails is told and tried again; rows of another device stay as they are."""
    path, calls = tmp_path / "table.csv", list[str]()

    def measure(name: str) -> list[dict[str, Any]]:
        calls.append(name)
        if name == "b" and calls.count("b") == 1:
            raise ProcessEnded("process 0 ended early", 1, "")
        if name == "c" and calls.count("c") == 1:
            raise KeyboardInterrupt
        return rows_of("new", name, name)

    path.write_text(csv_text(rows_of("old", "a"), (*rows_of("old", "a")[0],)), encoding="utf-8")
    wanted = [("a",), ("b",), ("c",)]
    with pytest.raises(KeyboardInterrupt):
        continue_table(path, "new", ("model",), wanted, measure)
    found = continue_table(path, "new", ("model",), wanted, measure)
    assert calls == ["a", "b", "c", "b", "c"]
    assert found.failures == []
    assert found.rows == rows_of("new", "a", "a", "b", "b", "c", "c")
    assert pd.read_csv(path).device.tolist() == ["old"] + ["new"] * 6
    again = path.read_bytes()
    assert continue_table(path, "new", ("model",), wanted, measure) == found
    assert path.read_bytes() == again


def test_a_failure_is_told_and_the_rest_is_measured(tmp_path: Path) -> None:
    """In the words of what failed."""

    def measure(name: str) -> list[dict[str, Any]]:
        if name == "a":
            raise ValueError("Training 'a': memory does not hold it.")
        return rows_of("new", name)

    found = continue_table(tmp_path / "t.csv", "new", ("model",), [("a",), ("b",)], measure)
    assert found.failures == ["Training 'a': memory does not hold it."]
    assert [row["model"] for row in found.rows] == ["b"]


@pytest.mark.parametrize("text", ["model,rate\nx,1\n", "device,model\nx\n", "\0"])
def test_a_file_that_is_no_such_table_is_refused_and_stays(text: str, tmp_path: Path) -> None:
    """Before anything is measured."""
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.csv"):
        continue_table(path, "new", ("model",), [("a",)], lambda _: pytest.fail("measured"))
    assert path.read_text(encoding="utf-8") == text


def test_pictures_show_the_rows() -> None:
    """Parts of a restart end to end, its mean; rates as dots, with fair shares."""
    restarts = [cost_of("a")._asdict(), cost_of("b")._asdict()]
    restarts.append(restarts[1] | {"save_s": 3.0})
    (ax,) = plot_restarts(restarts).axes
    bars = [[(bar.get_x(), bar.get_width()) for bar in part] for part in ax.containers]
    assert len(bars) == len(PARTS)
    assert bars[0] == [(0.0, 1.0), (0.0, 2.0)]
    assert bars[-1] == [(15.0, 20.0), (16.0, 20.0)]
    (ax,) = plot_pairs(table_of([shared("a", "b", 0.5), shared("b", "a", 0.25)])).axes
    measured, fair = (np.asarray(line.get_xdata()).tolist() for line in ax.lines[:2])
    assert measured == [0.5, 0.25]
    assert fair == pytest.approx([1.0 / 1.6] * 2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a beside b", "b beside a"]


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
    calls = pretend_machine(monkeypatch)
    folder = tmp_path / "all"
    assert main(["measure", "--all", "--out", str(folder), *QUICK]) == 0
    told = capsys.readouterr().out
    assert "perceptron" in told
    assert "memory does not hold" in told
    assert calls == ["perceptron", "perceptron", "neumf", "neumf", "neumf", "large"]
    assert pd.read_csv(folder / "pairs.csv").rate.tolist() == [0.5, 0.25]
    restarts = pd.read_csv(folder / "restarts.csv")
    assert restarts.model.tolist() == ["perceptron", "perceptron", "neumf", "neumf"]
    assert restarts.lost_s.tolist() == [31.0] * 4
    assert restarts.torch.notna().all()
    table = pd.read_csv(folder / "speeds.csv")
    assert table.precision.tolist() == ["fp32", "bf16"]
    assert table.examples_per_second.tolist() == pytest.approx([1000.0, 1000.0])
    assert set(table.largest_batch) == {64}
    for name in ("speeds", "restarts", "pairs"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    before = (folder / "perceptron-bf16.csv").read_bytes()
    (folder / "perceptron-fp32.csv").unlink()  # as if it had been cut off
    calls.clear()
    assert main(["measure", "--all", "--out", str(folder), *QUICK, "--json"]) == 0
    assert calls == ["large"]  # which failed
    told = json.loads(capsys.readouterr().out)
    assert [row["rate"] for row in told["pairs"]] == [0.5, 0.25]
    assert [row["precision"] for row in told["speeds"]] == ["fp32", "bf16"]
    assert len(told["restarts"]) == 4
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
        (["resnet", "--all"], "argument model: got 1 training; expected 0 with --all"),
        (["--all", "--beside"], "argument --all: expected none of --beside, --trace, --precision"),
        (["--all", "--trace", "t"], "argument --all: expected none of --beside, --trace"),
        (["--all", "--precision", "bf16"], "argument --all: expected none of --beside, --trace"),
    ],
)
def test_one_training_or_all_is_asked_for(
    arguments: list[Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not both, and not neither."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    assert main(["measure", *arguments, "--out", str(tmp_path / "x")]) == 2
    assert sentence in capsys.readouterr().err
