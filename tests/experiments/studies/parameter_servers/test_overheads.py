"""What restarts and profiling cost: measured where training is real, worked out where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.parameter_servers import overhead_measurements, overheads
from goodalloc.experiments.studies.parameter_servers.networks import NETWORKS
from goodalloc.experiments.studies.parameter_servers.overhead_measurements import (
    FORM,
    FULL,
    QUICK,
    Candidates,
    Extent,
    OverheadRow,
    choose_configurations,
    measure_profiling,
    measure_restarts,
    with_predictions,
)
from goodalloc.experiments.studies.parameter_servers.overheads import OVERHEADS, ROWS, OverheadTask
from goodalloc.experiments.studies.parameter_servers.overheads_report import (
    PARTS,
    plot_overheads,
    summarise_overheads,
)
from goodalloc.experiments.studies.parameter_servers.training_job import StartSeconds, StepSeconds
from goodalloc.experiments.support.machine_description import machine
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import (
    PsStepTime,
    StepTimeCoefficients,
    seconds_per_step,
    step_time_parts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.parameter_servers.training_job import TrainingJob

#: How long the steps of a training take that only pretends.
TRUTH = PsStepTime(StepTimeCoefficients(1e-4, 2e-3, 3e-3, 1e-3, 4e-4, 2e-4), FORM)

SMALL = Extent(repetitions=2, changes=((1, 2), (1, 1)), warm_up=1, steps=3)


class Pretended:
    """A training whose steps take exactly what equation (1) says, and that notes what it does."""

    notes: list[tuple[object, ...]]

    def __init__(
        self, job: TrainingJob, servers: int, workers: int, checkpoint: Path | None = None
    ) -> None:
        self.job, self.servers, self.workers = job, servers, workers
        self.start = StartSeconds(0.1, 1.0, 0.01, 0.02, 2.0)
        self.notes.append(("start", servers, workers, checkpoint))

    def train(self, steps: int) -> StepSeconds:
        """Half of the push and pull is the push; what the processes cost is in the pull."""
        here = PsConfiguration(self.servers, self.workers, worker_gpus=0)
        parts = step_time_parts(TRUTH, here, self.job.batch_size)
        passes, exchange = float(parts.forward_backward), float(parts.push_pull)
        others = float(parts.workers + parts.servers + parts.aggregation)
        forward, backward, push, update, pull = np.outer(
            [passes / 3, passes / 1.5, exchange / 2, float(parts.update), exchange / 2 + others],
            np.ones(steps),
        )
        return StepSeconds(forward, backward, push, update, pull, processor=0.5)

    def save(self, folder: Path) -> None:
        """Nowhere."""
        self.notes.append(("save", folder))

    def stop(self) -> None:
        """Of its own accord."""
        self.notes.append(("stop", self.servers, self.workers))

    def kill(self) -> None:
        """By force, if there is anything left."""
        self.notes.append(("kill",))

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What trainings did that only pretended to, on a machine of two cores."""
    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(Pretended, "notes", done, raising=False)
    monkeypatch.setattr(overhead_measurements, "PsTraining", Pretended)
    for module in (overhead_measurements, overheads):
        monkeypatch.setattr(module, "machine", lambda: {"cores": 2, "torch": "0"})
    return done


def some_rows() -> list[OverheadRow]:
    """Two restarts of 1 and 3 s, and three configurations profiled, of which one was held out."""
    seconds: dict[str, Any] = {
        name: 0.02 for name in OverheadRow._fields if name.endswith("_s") and name != "predicted_s"
    }
    common = OverheadRow(0, "", "perceptron", 1, 2, 64, 2, "0", 1.5, **seconds)
    common = common._replace(start_processor_s=1.0)
    restarts = [
        common._replace(
            kind="restart",
            old_servers=2,
            old_workers=2,
            **{"cost_s": cost, **dict.fromkeys(PARTS, cost / 7)},  # type: ignore[arg-type]
        )
        for cost in (1.0, 3.0)
    ]
    profiled = [
        common._replace(kind=kind, cost_s=2.0, predicted_s=0.02, error_percent=error)
        for kind, error in (("fitted", -1.0), ("fitted", 3.0), ("held out", -10.0))
    ]
    return [*restarts, *profiled]


def test_a_job_goes_from_configuration_to_configuration_by_its_checkpoint(
    notes: list[tuple[object, ...]], tmp_path: Path
) -> None:
    """Saved, stopped, started from what was saved; killed in the end."""
    told: list[float] = []
    rows = measure_restarts("perceptron", SMALL, 0, tmp_path, told.append)
    assert notes == [
        ("start", 1, 1, None),
        ("save", tmp_path),
        ("stop", 1, 1),
        ("start", 1, 2, tmp_path),
        ("save", tmp_path),
        ("stop", 1, 2),
        ("start", 1, 1, tmp_path),
        ("kill",),
    ]
    assert told == [0.5, 1.0]
    assert [(r.old_servers, r.old_workers, r.servers, r.workers) for r in rows] == [
        (1, 1, 1, 2),
        (1, 2, 1, 1),
    ]
    assert [row.processes_per_core for row in rows] == [1.5, 1.0]
    assert all(getattr(row, part) is not None for row in rows for part in PARTS)
    assert rows[0].imports_s == 1.0


def test_what_follows_the_law_exactly_is_predicted_exactly(notes: list[tuple[object, ...]]) -> None:
    """Also configurations that were not fitted; every process is stopped."""
    told: list[float] = []
    rows = measure_profiling("convolutional", FULL, 1, told.append)
    assert [row.kind for row in rows] == ["fitted"] * 10 + ["held out"] * 6
    assert max(abs(row.error_percent or 0.0) for row in rows) < 0.1
    for row in rows:
        parts = [getattr(row, f"{part}_s") for part in overhead_measurements.PARTS]
        assert sum(parts) == pytest.approx(row.step_s, rel=1e-3)
        here = PsConfiguration(row.servers, row.workers, worker_gpus=0)
        expected = seconds_per_step(TRUTH, here, row.batch_size)
        assert row.step_s == pytest.approx(float(expected), rel=1e-4)
    assert told[-1] == 1.0
    assert [note[0] for note in notes] == ["start", "stop", "kill"] * 16


@pytest.mark.parametrize("extent", [FULL, QUICK], ids=["full", "quick"])
def test_what_is_held_out_is_not_fitted(extent: Extent) -> None:
    """All within the limits; another repetition fits the same."""
    fitted, held_out = choose_configurations(extent, 0)
    assert len(fitted) == extent.fitted
    assert len({*fitted, *held_out}) == extent.fitted + extent.held_out
    chosen = Candidates.of(extent).take(fitted)
    assert set(chosen.batch_size) == set(extent.batch_sizes)
    assert np.max(chosen.configuration.servers) == extent.most
    assert np.max(chosen.configuration.workers) == extent.most
    again, others = choose_configurations(extent, 5)
    assert list(again) == list(fitted)
    assert not {*others} & {*fitted}
    assert extent is QUICK or {*others} != {*held_out}


def test_too_few_measurements_are_refused() -> None:
    """As by the fit: six coefficients need six."""
    rows = [some_rows()[-2]._replace(servers=servers) for servers in (1, 2)]
    with pytest.raises(ValueError, match="Fit: 2 measurements; expected at least 6"):
        with_predictions(rows)


def test_the_summary_tells_what_the_overheads_are_a_share_of() -> None:
    """By hand: restarts of 1 and 3 s, two configurations of 2 s each profiled."""
    shown = {row["quantity"]: row for row in summarise_overheads(some_rows())}
    restart = shown["restart: all (s)"]
    assert [restart[name] for name in ("median", "least", "greatest", "values")] == [2, 1, 3, 2]
    assert shown["restart: PyTorch imported (s)"]["greatest"] == pytest.approx(3 / 7, rel=1e-2)
    medians = {quantity: row["median"] for quantity, row in shown.items()}
    assert medians["a restart in every 240 s (%)"] == pytest.approx(100 * 2 / 240, rel=1e-2)
    assert medians["round of which a restart is 5 % (s)"] == 40.0
    assert medians["round of which a restart is 1 % (s)"] == 200.0
    assert medians["profiling: 2 configurations (s)"] == 4.0
    assert medians["job of which profiling is 5 % (s)"] == 80.0
    assert medians["job of which profiling is 1 % (s)"] == 400.0
    assert medians["error of a step as fitted (%)"] == 2.0
    assert medians["error of a step as predicted (%)"] == 10.0


def test_the_picture_shows_every_part_and_every_measurement(tmp_path: Path) -> None:
    """A bar for every part; marks for fitted and held out."""
    figure = plot_overheads(some_rows())
    parts, steps = figure.axes
    assert parts.get_legend_handles_labels()[1] == list(PARTS.values())
    assert [label.get_text() for label in parts.get_yticklabels()] == ["perceptron, 2 × 2 to 1 × 2"]
    assert steps.get_legend_handles_labels()[1] == ["perceptron, fitted", "perceptron, held out"]
    figure.savefig(tmp_path / "overheads.png")
    assert (tmp_path / "overheads.png").stat().st_size > 10_000


@pytest.mark.parametrize("what", ["restarts", "profiling"])
def test_a_task_is_done_at_once_or_not_at_all(
    notes: list[tuple[object, ...]], tmp_path: Path, what: str
) -> None:
    """The second time nothing is measured; another one is refused the folder."""
    task = OverheadTask(tmp_path / "one", what, "perceptron", 1, SMALL)
    task.run()
    assert {row.repetition for row in task.rows()} == {1}
    count = len(notes)
    task.run()
    assert len(notes) == count
    with pytest.raises(ValueError, match="holds another replay: repetition in its"):
        OverheadTask(task.folder, what, "perceptron", 0, SMALL).run()


def test_a_process_that_dies_leaves_a_task_undone_with_its_sentence(
    notes: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was under way is killed, and no rows are written."""

    def die(*_: object) -> StepSeconds:
        raise ChildProcessError("worker 0 ended with exit code -9")

    monkeypatch.setattr(Pretended, "train", die)
    for what in ("restarts", "profiling"):
        task = OverheadTask(tmp_path / what, what, "perceptron", 0, SMALL)
        with pytest.raises(ValueError, match="worker 0 ended with exit code -9"):
            task.run()
        assert notes[-1] == ("kill",)
        assert not (task.folder / ROWS).exists()


def test_two_are_not_measured_at_a_time(
    notes: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever comes second is told to wait."""
    other = OverheadTask(tmp_path / "other", "profiling", "perceptron", 0, SMALL)

    def measure_another(*_: object) -> None:
        other.run()

    monkeypatch.setattr(overheads, "measure_profiling", measure_another)
    with pytest.raises(ValueError, match=r"one after the other.*expected no other run"):
        OverheadTask(tmp_path / "one", "profiling", "perceptron", 0, SMALL).run()
    assert notes == []


def test_the_machine_is_told() -> None:
    """At least one core, and the version of PyTorch as it is installed."""
    torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")
    assert machine()["cores"] >= 1
    assert machine()["torch"] == torch.__version__


def test_reproduce_overheads_writes_a_row_for_every_restart_and_configuration(
    notes: list[tuple[object, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same columns in all rows; what makes no difference is refused."""
    monkeypatch.setattr(overheads, "FULL", SMALL)
    monkeypatch.setattr(overheads, "require_extra", lambda *_: None)
    assert main(["reproduce", "overheads", "--out", str(tmp_path)]) == 0
    assert "restart: PyTorch imported (s)" in capsys.readouterr().out
    assert notes[0] == ("start", 1, 1, None)
    table = pd.read_csv(tmp_path / "overheads.csv")
    assert len(table) == len(NETWORKS) * 2 * (2 + 16)
    assert set(table["kind"]) == {"restart", "fitted", "held out"}
    assert set(table["cores"]) == {2}
    assert (tmp_path / "overheads.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="makes no difference there"):
        OVERHEADS.refuse_ignored(Plan(tmp_path, workloads=(1,)))


@pytest.mark.slow
def test_reproduce_overheads_measures_real_processes(tmp_path: Path) -> None:
    """The quick one, two networks: parts make up the restart; PyTorch takes most of a start."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    assert main(["reproduce", "overheads", "--quick", "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "overheads-quick.csv")
    restarts = table[table["kind"] == "restart"]
    assert len(restarts) == len(NETWORKS) * len(QUICK.changes)
    parts = restarts[list(PARTS)]
    assert (parts > 0).all(axis=None)
    assert (parts.sum(axis=1) <= restarts["cost_s"] * 1.001).all()
    assert (parts.sum(axis=1) >= restarts["cost_s"] * 0.9).all()
    assert (parts["imports_s"] > parts["interpreters_s"]).all()
    profiled = table[table["kind"] != "restart"]
    assert len(profiled) == len(NETWORKS) * (QUICK.fitted + QUICK.held_out)
    assert (profiled["predicted_s"] > 0).all()
    assert not list(tmp_path.glob("overheads/*/checkpoints"))
