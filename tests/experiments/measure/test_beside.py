"""Trainings beside each other: rates and losses by hand, real ones on a core, bad pairs."""

from __future__ import annotations

import csv
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure import beside
from goodalloc.experiments.measure.beside import Training, fitted_loss, measure_pair
from goodalloc.experiments.measure.step_parts import StepParts
from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.measure.beside import SharedRate


class Pretended:
    """Process whose speed is known, alone and beside another."""

    weights = 1000

    def __init__(self, alone: float, shared: float, idle: float, running: list[Any]) -> None:
        self.alone, self.shared, self.idle, self.running = alone, shared, idle, running

    def ask(self, doing: str, replicas: int, **order: Any) -> list[dict[str, Any]]:
        """What a process would answer."""
        assert doing.startswith("training")
        assert replicas == 1
        if order["order"] == "probe":
            return [{"fits": order["atomic_batch_size"] < 100}]
        if order["order"] == "split":
            step = 1.0 / self.alone
            parts = StepParts(0.0, 0.4 * step, 0.5 * step, 0.1 * step, 0.0, 0.0, self.idle * step)
            return [{"parts": [parts] * order["repetitions"], "memory": 12.0}]
        both = len(self.running) == 2
        return [
            {
                "steps": self.shared if both else self.alone,
                "seconds": 1.0,
                "core": 0.8,
                "quiet": 1.0,
            }
        ]

    def nodes(self, replicas: int) -> int:
        """This machine."""
        return min(replicas, 1)

    def kill(self) -> None:
        """Nothing is left."""


def pair_of(
    monkeypatch: pytest.MonkeyPatch, *, core: int | None, idle: tuple[float, float] = (0.25, 0.5)
) -> tuple[SharedRate, SharedRate]:
    """Two trainings of 10 and 20 steps a second, of which sharing leaves 6 and 9."""
    running: list[Any] = []
    run = beside.run_at_once

    def noted(trainings: Any, seconds: float, core: int | None) -> list[beside.Run]:
        running[:] = trainings
        return run(trainings, seconds, core)

    monkeypatch.setattr(beside, "NOTICE", 0.0)
    monkeypatch.setattr(beside, "run_at_once", noted)
    crews = Pretended(10.0, 6.0, idle[0], running), Pretended(20.0, 9.0, idle[1], running)
    trained = tuple(
        beside.Trained(Training(name, size), crew)
        for name, size, crew in zip(("one", "other"), (8, 16), crews, strict=True)
    )
    return measure_pair(trained, 0.0, core)  # type: ignore[arg-type]


def test_rates_and_losses_of_a_gpu_are_those_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy for 0.75 and 0.5 of a step: fair shares are 0.8 of the speeds alone."""
    one, other = pair_of(monkeypatch, core=None)
    assert (one.model, one.batch, one.beside, one.beside_batch) == ("one", 8, "other", 16)
    assert (one.rate.mean, other.rate.mean) == (0.6, 0.45)
    assert (one.busy, one.beside_busy) == (0.75, 0.5)
    assert one.loss.mean == pytest.approx(1.0 - 0.6 / 0.8)
    assert other.loss.mean == pytest.approx(1.0 - 0.45 / 0.8)
    assert one.memory_mib == 12.0


def test_a_fitted_loss_makes_the_model_of_shared_gpus_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mean of its rates is that of the measurement."""
    found = pair_of(monkeypatch, core=None)
    sharing = Sharing("fair", loss=fitted_loss([one.loss.mean for one in found]))
    uses = [GpuUse(one.busy, 0.1) for one in found]
    predicted = [sharing.guest_rate(uses[1 - own], uses[own]) for own in range(2)]
    assert sum(predicted) == pytest.approx(sum(one.rate.mean for one in found), rel=1e-3)


def test_a_core_is_busy_while_its_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the profiler says of operations does not matter there."""
    one, other = pair_of(monkeypatch, core=0)
    assert (one.busy, other.busy) == (0.8, 0.8)


@given(idle=st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)))
def test_parts_of_a_device_are_parts(idle: tuple[float, float]) -> None:
    """Whatever a profiler says."""
    with pytest.MonkeyPatch.context() as patch:
        for one in pair_of(patch, core=None, idle=idle):
            assert 0.0 < one.busy <= 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="processes are pinned on Linux")
def test_two_real_trainings_share_a_core(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither stands still; the table and its machine's form agree.

    How much each slows down is for `pair_of`: other programs on the core may slow the runs alone.
    """
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    monkeypatch.setattr(beside, "ROUNDS", 2)
    path = tmp_path / "pair.csv"
    command = ["measure", "perceptron", "neumf", "--beside", "--batch-sizes", "64,512"]
    assert main([*command, "--seconds", "0.2", "--out", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert [row["model"] for row in rows] == ["perceptron", "neumf"] == [r["model"] for r in told]
    assert [row["beside"] for row in rows] == ["neumf", "perceptron"]
    for row, form in zip(rows, told, strict=True):
        assert 0.0 < float(row["rate"]) < math.inf
        assert float(row["rate"]) == pytest.approx(form["rate"])
        assert 0.0 < float(row["busy"]) <= 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["perceptron", "--beside"], "got 1 training; expected 2 with --beside"),
        (["perceptron", "neumf"], "got 2 trainings"),
        (["perceptron", "--all"], "got 1 training"),
        ([], "got 0 trainings"),
        (["perceptron", "neumf", "--beside", "--batch-sizes", "64"], "got 1; expected one a"),
        (["perceptron", "none", "--beside"], "Model 'none'"),
        (["perceptron", "neumf", "--beside", "--visits", "2"], "--visits: expected none with"),
        (["perceptron", "neumf", "--beside", "--trace", "x"], "--trace: expected none with"),
    ],
)
def test_trainings_that_make_no_pair_are_refused(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence; nothing is written."""
    path = tmp_path / "pair.csv"
    assert main(["measure", *arguments, "--out", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert complaint.count("\n") == 1
    assert not path.exists()


def test_a_batch_that_memory_does_not_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the training."""
    crew = Pretended(1.0, 1.0, 0.0, [])
    trained = beside.Trained(Training("large", 100), crew)
    with pytest.raises(ValueError, match="Training 'large': memory does not hold 100 examples"):
        measure_pair((trained, trained), 0.0, None)
