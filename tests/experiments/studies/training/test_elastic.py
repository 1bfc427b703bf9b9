"""Real elastic jobs under a live scheduler: what is kept of a run, and what is made of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from goodalloc.data.files.job_state import JobState, write_job_state
from goodalloc.data.files.job_submission import JobSubmission, write_job_submission
from goodalloc.experiments.agent.cluster_folder import DECISIONS, STATE, SUBMISSION, job_folder
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.training import elastic, elastic_job
from goodalloc.experiments.studies.training.elastic import (
    ELASTIC,
    RECORDS,
    ElasticTask,
    slot_seconds,
)
from goodalloc.experiments.studies.training.elastic_extent import FULL, JOBS, QUICK, Setting
from goodalloc.experiments.studies.training.elastic_job import LIMITS, NETWORKS, OUTCOME
from goodalloc.experiments.studies.training.elastic_rates import RoundSpeed, round_speeds
from goodalloc.experiments.studies.training.elastic_report import (
    ElasticRecords,
    plot_elastic,
    summarise_elastic,
)
from goodalloc.experiments.support import extras
from goodalloc.experiments.support.folder_lock import locked

if TYPE_CHECKING:
    from pathlib import Path

#: What a job says at its end.
SAID = {"accuracy": 0.9, "steps": 10, "examples": 320, "progress": 10.0, "batch_size": 32}


def pretend(cluster: Path, seconds: float) -> dict[str, float]:
    """The files of a run in which every job takes so many seconds, five of them waiting."""
    decisions, ends = [], {}
    for index, name in enumerate(JOBS):
        folder, begin = job_folder(cluster, name), 1000.0 + 10.0 * index
        folder.mkdir(parents=True)
        write_job_submission(folder / SUBMISSION, JobSubmission(name, ("train",), begin))
        write_job_state(folder / STATE, JobState(name, LIMITS, begin, begin + 1.0, restarts=index))
        (folder / OUTCOME).write_text(json.dumps(SAID))
        known = {"seconds": 0.1, "predicted": {name: 2.0}, "progress": {name: [begin, 0.0]}}
        decisions.append({"time": begin, "placements": {}, **known})
        given = {name: {"node-0": 1 + index % 2}}
        decisions += [
            {"time": begin + at, "placements": given, **known, "progress": {name: [begin + at, at]}}
            for at in (5.0, 5.0, 7.0)
        ]
        ends[name] = begin + seconds
    lines = [json.dumps(row) + "\n" for row in decisions]
    (cluster / DECISIONS).write_text("".join(lines))
    return ends


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Policies of the runs that only pretended to train; pollux takes 6 s a job, the others 8."""
    runs: list[str] = []

    def train(task: ElasticTask, cluster: Path, report: Any) -> dict[str, float]:
        runs.append(task.setting.policy)
        report(1.0)
        return pretend(cluster, 6.0 if task.setting.policy == "pollux" else 8.0 + task.repetition)

    monkeypatch.setattr(ElasticTask, "_train", train)
    monkeypatch.setattr(elastic, "machine", lambda: {"cores": 2, "torch": "0"})
    monkeypatch.setattr(elastic, "require_training", lambda *_: None)
    return runs


def test_slot_seconds_are_those_up_to_the_end() -> None:
    """By hand: one slot for 2 s, two for 3 s, then none, then one for the second to the end."""
    held = [(0.0, {"b": 1}), (1.0, {"a": 1}), (3.0, {"a": 2}), (6.0, {"b": 2}), (7.0, {"a": 1})]
    assert slot_seconds(held, "a", 8.0) == 2 + 6 + 1
    assert slot_seconds(held, "a", 4.0) == 2 + 2
    assert slot_seconds(held, "b", 100.0) == 1 + 2


def test_speeds_are_measured_where_a_job_kept_its_slots_and_published_anew() -> None:
    """By hand: not in the round after a change, nor before a fit, nor over less than a second."""

    def line(at: float, slots: int, steps: float, predicted: float | None = 3.0) -> dict[str, Any]:
        return {
            "placements": {"a": {"node-0": slots}},
            "predicted": {} if predicted is None else {"a": predicted},
            "progress": {"a": [at, steps]},
        }

    lines = [line(0, 1, 0, None), line(5, 1, 10, None), line(10, 1, 20), line(15, 1, 30)]
    lines += [line(15.5, 2, 31), line(20, 2, 40), line(22, 2, 48), line(22.1, 2, 49)]
    one = [RoundSpeed("a", 1, 3.0, 2.0)]
    assert round_speeds(lines) == [*one, RoundSpeed("a", 2, 3.0, 4.0)]
    gone: dict[str, Any] = {"placements": {}, "predicted": {}, "progress": {}}
    assert round_speeds([*lines[:4], gone]) == one
    assert round_speeds([]) == []


def test_a_run_is_done_at_once_or_not_at_all(pretended: list[str], tmp_path: Path) -> None:
    """A row a job; the second time nothing is trained, and another run is refused the folder."""
    task = ElasticTask(tmp_path / "one", Setting("equal", 3.0), 1, QUICK)
    task.run()
    records = task.records()
    rows = records.rows
    assert [row.job for row in rows] == list(JOBS)
    assert [row.submitted_s for row in rows] == [10.0 * index for index in range(6)]
    assert [row.first_slot_s for row in rows] == [5.0 + 10.0 * index for index in range(6)]
    assert [row.completion_s for row in rows] == [9.0] * 6
    assert [row.slot_seconds for row in rows] == [4.0, 8.0] * 3
    assert [row.restarts for row in rows] == list(range(6))
    assert records.held[1] == (5.0, {"wide-long": 1})
    assert [row.rounds for row in rows] == [1] * 6
    assert [row.measured_over_predicted for row in rows] == [0.5] * 6
    task.run()
    assert pretended == ["equal"]
    with pytest.raises(ValueError, match="holds another replay: repetition in its"):
        ElasticTask(task.folder, Setting("equal", 3.0), 0, QUICK).run()


def test_a_run_is_not_disturbed_by_another(pretended: list[str], tmp_path: Path) -> None:
    """Who comes second is told to wait; what was begun and not done is begun anew."""
    task = ElasticTask(tmp_path / "one", Setting("equal", 3.0), 0, QUICK)
    (task.folder / "cluster" / "jobs").mkdir(parents=True)
    with (
        locked(tmp_path),
        pytest.raises(ValueError, match=r"one after the other.*expected no other run"),
    ):
        task.run()
    assert pretended == []
    task.run()
    assert pretended == ["equal"]


def test_the_summary_compares_with_equal_shares_repetition_by_repetition(
    pretended: list[str], tmp_path: Path
) -> None:
    """By hand: 6 s against 8 and 9 s are changes of -25 and -33.3 %."""
    rows = []
    for repetition in (0, 1):
        for policy in ("pollux", "equal"):
            task = ElasticTask(
                tmp_path / f"{policy}-{repetition}", Setting(policy, 3.0), repetition, QUICK
            )
            task.run()
            rows += task.records().rows
    assert len(pretended) == 4
    pollux, equal = summarise_elastic(rows)
    assert pollux["average_completion_s"] == 6.0
    assert equal["average_completion_s"] == 8.5
    assert pollux["makespan_s"] == 56.0
    assert pollux["change against equal (%)"] == "-29.2 ± 52.9"
    assert equal["change against equal (%)"] == ""
    assert pollux["restarts_per_job"] == 2.5
    assert pollux["accuracy_percent"] == 90.0


def test_reproduce_elastic_writes_a_row_for_every_job(
    pretended: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table and picture, a timeline a policy; what makes no difference is refused."""
    assert main(["reproduce", "elastic", "--out", str(tmp_path)]) == 0
    assert "pollux" in capsys.readouterr().out
    policies = ["pollux", "equal", "tiresias", "optimus", "srtf", "pollux"]
    assert pretended == policies * 3
    table = pd.read_csv(tmp_path / "elastic.csv")
    assert len(table) == 18 * len(JOBS)
    assert set(table["truth"]) == {"machine"}
    assert (tmp_path / "elastic.png").read_bytes().startswith(b"\x89PNG")
    found = sorted(tmp_path.glob(f"elastic/*/{RECORDS}"))
    records = [ElasticRecords.parse(path.read_text(encoding="utf-8")) for path in found]
    figure = plot_elastic(records)
    titles = {ax.get_title(loc="left") for ax in figure.axes}
    assert titles == {f"{one.policy}, {one.interval:g} s" for one in FULL.settings} | {""}
    assert main(["reproduce", "elastic", "--out", str(tmp_path)]) == 0
    assert len(pretended) == 18
    with pytest.raises(ValueError, match="makes no difference there"):
        ELASTIC.refuse_ignored(Plan(tmp_path, workloads=(1,)))


def test_what_a_run_needs_is_asked_for_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extras, in a sentence."""
    monkeypatch.setitem(extras.MODULES, "predict", ("no_such_module",))
    monkeypatch.setitem(extras.MODULES, "measure", ())
    assert main(["reproduce", "elastic", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "Training elastic jobs needs the module no_such_module" in said


def test_a_process_that_fails_leaves_a_run_undone_with_its_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Here a scheduler of a policy that does not exist; the launchers are ended."""
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    monkeypatch.setattr(elastic, "machine", lambda: {"cores": 2, "torch": "0"})
    task = ElasticTask(tmp_path / "one", Setting("nobody", 3.0), 0, QUICK)
    with pytest.raises(ValueError, match=r"scheduler ended with exit code 2 \(goodalloc: error: P"):
        task.run()
    assert not (task.folder / RECORDS).exists()
    log = (task.folder / "cluster" / "wide-long.log").read_text(encoding="utf-8")
    assert "was stopped" in log or not log


def test_the_program_of_a_job_wants_a_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says so before anything else."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="GOODALLOC_JOB is not set; expected a program that"):
        elastic_job.main(["wide", "0", "1.0"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_reproduce_elastic_trains_real_jobs(tmp_path: Path) -> None:
    """The quick one: all learn, nobody holds more than there is, nothing is left behind."""
    for extra in ("torch", "sklearn"):
        pytest.importorskip(extra, reason="needs goodalloc[measure,predict]")
    assert main(["reproduce", "elastic", "--quick", "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "elastic-quick.csv")
    assert len(table) == len(QUICK.settings) * len(JOBS)
    assert (table["accuracy"] > 0.9).all()
    assert (table["first_slot_s"] >= table["submitted_s"]).all()
    assert (table["slot_seconds"] <= 2.0 * table["completion_s"]).all()
    for name, job in JOBS.items():
        progress = table["progress"][table["job"] == name]
        assert (progress >= QUICK.share * job.share * NETWORKS[job.network].steps).all()
    for path in tmp_path.glob(f"elastic/*/{RECORDS}"):
        held = json.loads(path.read_text(encoding="utf-8"))["held"]
        assert max(sum(slots.values()) for _, slots in held) <= 2
    assert not list(tmp_path.glob("elastic/*/cluster/jobs/*/replicas.json"))
