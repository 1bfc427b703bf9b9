"""The study of replays on a tree: rows, table and figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.topology import replays
from goodalloc.experiments.studies.topology.replays import TREE_REPLAYS, TreeReplayRow

if TYPE_CHECKING:
    from pathlib import Path


def test_each_policy_is_compared_with_itself_without_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On half of a drawn workload at half load; the table and the figure take the rows."""
    policies = {"tiresias": "tiresias", "tiresias@best_fit": "tiresias"}
    monkeypatch.setattr(replays, "BASELINES", policies)
    plan = Plan(tmp_path, workloads=(6,), quick=True)
    for task in TREE_REPLAYS.tasks(plan):
        task.run(lambda _: None)
    plain, placed = TREE_REPLAYS.rows(plan)
    assert (plain.change_percent, plain.load, plain.knows, plain.batch) == (
        0.0,
        0.5,
        "nothing",
        "requested",
    )
    expected = 100.0 * (placed.average_jct_hours / plain.average_jct_hours - 1.0)
    assert placed.change_percent == pytest.approx(expected, abs=1e-3)
    first, second = TREE_REPLAYS.shown([plain, placed])
    assert (first["change (%)"], first["policy"]) == ("", "tiresias")
    assert float(second["change (%)"]) == pytest.approx(expected, abs=0.06)
    figure = TREE_REPLAYS.plot(plan, [plain, placed])
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["tiresias@best_fit"]


def test_every_load_has_a_panel_of_its_own() -> None:
    rows = [
        TreeReplayRow(load, number, policy, "measured", "adaptive", 1.0, 2.0, change, 3.0)
        for load in (0.5, 1.0)
        for number, change in ((1, -2.0), (2, -4.0))
        for policy in replays.BASELINES
    ]
    figure = replays.plot_tree_replays(rows)
    assert [ax.get_title() for ax in figure.axes] == ["load 0.5", "load 1"]
