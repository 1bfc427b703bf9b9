"""All policies on one workload: who is judged by what, and what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.comparisons.judged_policy import JudgedPolicy
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight import family
from goodalloc.experiments.studies.hindsight.family import (
    FAMILY,
    OBJECTIVES,
    THE_FAMILY,
    JudgedTask,
    ThreeObjectives,
    summarise_family,
)
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.studies import TinyPlan

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_family_is_everybody_that_decides_on_gpus_of_one_type() -> None:
    """All but those that need cores or nodes that come and go, or vary another one."""
    left_out = {
        "pollux-untied",
        "pollux-shuffled",
        "pollux-robust",
        "pollux-worst",
        "pollux-priced",
        "sia-exact",
        "pollux-proportional",
        "synergy-tune",
        "autoscaling-goodput",
        "autoscaling-throughput",
        "gavel-blind",
        "gavel-levels",
        "gavel-cost",
    }
    assert set(FAMILY) | left_out == set(POLICIES)


def test_policies_are_judged_by_three_objectives_on_one_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pollux's decisions are optimal by its own, a queue's are not. The order is by time."""
    jobs = TinyPlan(tmp_path).workload(1)
    drawn = tuple(job for job in jobs for _ in range(2))  # of which every second takes part
    monkeypatch.setattr(family, "FAMILY", ("fifo", "pollux", "pollux-genetic"))
    monkeypatch.setattr(family, "QUICK_EVERY", 3)
    monkeypatch.setattr(TinyPlan, "workload", lambda *_: drawn)
    monkeypatch.setattr(family, "QUICK_CLUSTER", Cluster.uniform(16, 4))
    plan = TinyPlan(tmp_path, (1,), quick=True)
    for task in THE_FAMILY.tasks(plan):
        task.run(lambda _: None)
    rows = THE_FAMILY.rows(plan)
    assert [row.policy for row in rows] == ["fifo", "pollux"]  # no slow ones
    queue, exact = rows
    assert exact.fitness_gap <= 1e-6 < queue.fitness_gap <= 1.0
    for row in rows:
        assert row.judged >= 2
        assert all(0.0 <= getattr(row, f"{name}_gap") <= 1.0 for name in OBJECTIVES)
        assert row.median_jct_hours <= row.p99_jct_hours <= row.makespan_hours
        assert 0.0 < row.held_percent <= 100.0
        assert row.above_bound_percent is not None
        assert row.above_bound_percent > 0.0
    hours = [row["average h"] for row in summarise_family(rows)]
    assert hours == sorted(hours)
    shared = summarise_family([row._replace(above_bound_percent=None) for row in rows])
    assert {row["above bound %"] for row in shared} == {None}
    figure = THE_FAMILY.plot(plan, rows)
    assert figure.axes[0].get_title() == "mean gap (%)"


def test_a_judged_policy_shares_gpus_as_it_would_alone(tmp_path: Path) -> None:
    """Or else nobody measures how busy its jobs are, and nobody is packed."""
    for name, sharing in (("gandiva", FAIR), ("gavel-packed", FAIR), ("gavel", None)):
        assert JudgedTask(tmp_path, name, ()).shares_gpus == (sharing is not None)
        judged = JudgedPolicy(make_policy(name), ThreeObjectives({}), tmp_path / "gaps", 1)
        assert judged.sharing == sharing


def test_a_replay_that_goes_on_judges_a_decision_once(tmp_path: Path) -> None:
    """The last line of a time counts."""
    task = JudgedTask(tmp_path, "fifo", Plan(tmp_path).workload(1))
    line = '{{"time":60,"fitness":{},"sum":0.1,"least":0.1}}\n'
    (tmp_path / family.GAPS).write_text(line.format(0.5) + line.format(0.25))
    assert task.judged().fitness.tolist() == [0.25]
    assert task.description()["judged_every"] == family.EVERY
