"""Replays with shared GPUs: their numbers, the comparison with the optimum, table and picture."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.shared_gpus import replay as shared_gpu_replay
from goodalloc.experiments.studies.shared_gpus.replay import SYSTEMS, SharedReplay, replay_outcome
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.shared_gpus.report import Outcome
    from goodalloc.solvers.policies.policy import Policy

#: More jobs than a node holds.
CROWD = tuple(
    Submission(f"job-{index}", 60 * index, "cifar10", 2, 128 + 128 * (index % 2))
    for index in range(10)
)


def outcome_of(policy: Policy, compared: str = "", jobs: int = 10) -> Outcome:
    """Outcome of a replay on one node."""
    setting = Setting(Cluster.uniform(1, 4), restart_delay=1.0)
    simulator = Simulator(CROWD[:jobs], profiled_applications(), policy, setting)
    return replay_outcome(simulator, compared)


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_heuristics_are_below_proven_optima_and_parts_are_parts(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every round is compared; utilisation lies between 0 and 100 %."""
    monkeypatch.setattr(shared_gpu_replay, "EVERY", 1)
    policy = SYSTEMS[system].policies[system][1]()
    numbers = outcome_of(policy, system)
    assert numbers.compared_rounds > 5
    assert 0.0 <= (numbers.heuristic_below_percent or 0.0) <= 100.0
    assert numbers.worst_gap is not None
    assert numbers.worst_gap <= 1e-6
    assert 0.0 < numbers.busy_percent <= 100.0
    assert 0.0 < numbers.memory_percent <= 100.0
    assert 0.0 < numbers.average_jct_hours <= numbers.p99_jct_hours <= numbers.makespan_hours


def test_a_job_alone_is_busy_as_its_model_says() -> None:
    """Two of four GPUs, but for the rounds before its start."""
    fifo = SYSTEMS["gandiva"].policies["fifo"][1]
    numbers = outcome_of(fifo(), jobs=1)
    assert (numbers.busy_percent, numbers.compared_rounds) == (0.0, 0), "nobody comes after it"
    two = outcome_of(fifo(), jobs=10)
    assert 50.0 < two.busy_percent < 100.0
    assert two.restarts_per_job == 0.0


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_a_reproduction_ends_in_rows_a_table_and_a_picture(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two policies on a handful of jobs; published figures stand beside the published policy."""
    monkeypatch.setattr(shared_gpu_replay, "LOADS", (0.03,))
    small = SYSTEMS[system]
    chosen = {name: small.policies[name] for name in ("fifo", system)}
    monkeypatch.setitem(SYSTEMS, system, small._replace(policies=chosen))
    reproduction, plan = REPRODUCTIONS[system], Plan(tmp_path, workloads=(1, 2))
    for task in reproduction.tasks(plan):
        task.run(lambda _: None)
    rows = reproduction.rows(plan)
    assert len(rows) == 8
    assert {row.published_busy_percent for row in rows if row.policy == "fifo"} == {None}
    shown = reproduction.shown(rows)
    base, own = shown[:2]
    assert (base["policy"], base["busy_over_fifo_%"]) == ("fifo", "+0.0 ± 0.0")
    assert (own["jct_change_%"], own["busy_change_%"]) == ("", "")
    assert "±" in base["jct_change_%"]
    assert {line["published_busy_%"] for line in shown} == {"", small.published.busy}
    assert len(reproduction.plot(plan, rows).axes) == 8


def test_quick_replays_are_of_one_workload_and_who_is_blind_to_requests_has_one_for_both(
    tmp_path: Path,
) -> None:
    """Without those that take long."""
    plan = REPRODUCTIONS["gandiva"].own(Plan(tmp_path, workloads=()))
    assert plan.workloads == (1, 2, 3, 4, 5)
    tasks = REPRODUCTIONS["gandiva"].tasks(plan)
    blind = [task for task in tasks if getattr(task, "policy", "") == "equal"]
    assert (len(blind), len(set(blind))) == (30, 15)
    quick = REPRODUCTIONS["gandiva"].tasks(replace(plan, quick=True))
    assert {getattr(task, "seed", None) for task in quick} == {1}
    assert not any(getattr(task, "policy", "") == "equal" for task in quick)
    assert REPRODUCTIONS["gandiva"].own(Plan(tmp_path, workloads=(6,))).workloads == (6,)
    assert REPRODUCTIONS["themis"].own(Plan(tmp_path, workloads=())).workloads == (6,)


def test_records_are_kept_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    """A replay that is done is not done again; a file that is no JSON is named."""
    task = SharedReplay(tmp_path, "antman", "fifo", "tuned", 0.01, 1)
    task.run()
    kept = task.record()._replace(average_jct_hours=7.0)
    (tmp_path / "numbers.json").write_text(json.dumps(kept._asdict()), encoding="utf-8")
    task.run()
    assert task.record() == kept
    (tmp_path / "numbers.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"numbers\.json"):
        task.record()
