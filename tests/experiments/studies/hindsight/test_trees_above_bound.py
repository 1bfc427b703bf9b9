"""Policies on a tree above the bound, on a little day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight import beside_bound
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, IDEAL, ON_REPLAYS
from goodalloc.experiments.studies.hindsight.trees_above_bound import (
    TREES,
    plot_on_trees,
    summarise_on_trees,
)
from goodalloc.experiments.studies.topology import replays
from tests.support.replay.replays import SHORT

if TYPE_CHECKING:
    from pathlib import Path


def test_no_policy_on_the_tree_is_below_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the ideal schedule below that on schedules; table and figure take the rows."""
    policies = {"pollux": "pollux", "tiresias@best_fit": "tiresias@best_fit"}
    monkeypatch.setattr(replays, "BASELINES", policies)
    monkeypatch.setattr(beside_bound, "QUICK_STEPS", 10)
    monkeypatch.setattr(Plan, "workload", lambda *_, **__: SHORT)
    plan = Plan(tmp_path, workloads=(6,), quick=True)
    for task in TREES.tasks(plan):
        task.run(lambda _: None)
    rows = TREES.rows(plan)
    hours = {row.policy: row.average_jct_hours for row in rows}
    assert list(hours) == [*policies, IDEAL, ON_REPLAYS, BOUND]
    assert hours[BOUND] <= min(hours[IDEAL], hours[ON_REPLAYS])
    for policy in policies:
        assert hours[ON_REPLAYS] <= hours[policy]
    above = {row.policy: row.above_bound_percent for row in rows}
    expected = 100.0 * (hours["pollux"] / hours[BOUND] - 1.0)
    assert above["pollux"] == pytest.approx(expected, rel=1e-4)
    shown = summarise_on_trees(rows)
    assert [line["policy"] for line in shown] == list(hours)
    figure = plot_on_trees(rows)
    assert [ax.get_title() for ax in figure.axes] == ["load 0.5"]
