"""Policies above the bound on published traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.comparisons import trace_replay
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND
from goodalloc.experiments.studies.hindsight.traces_above_bound import (
    TRACES_ABOVE,
    plot_traces_above,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_no_policy_is_below_the_bound(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first jobs of every trace on its smaller cluster; the figure has a panel for each."""
    monkeypatch.setattr(trace_replay, "RIGID", ("fifo", "srtf"))
    plan = Plan(tmp_path, artifact=reference, quick=True)
    for task in TRACES_ABOVE.tasks(plan):
        task.run(lambda _: None)
    rows = TRACES_ABOVE.rows(plan)
    assert {row.policy for row in rows} == {"fifo", "srtf", trace_replay.TOLD, BOUND}
    assert min(row.above_bound_percent for row in rows) >= -1e-6
    assert [row.trace for row in rows if row.policy == BOUND] == [
        "Tiresias",
        "ElasticFlow",
        "ITP, a week",
    ]
    figure = plot_traces_above(rows)
    assert [ax.get_title().split(",")[0] for ax in figure.axes] == [
        "Tiresias",
        "ElasticFlow",
        "ITP",
    ]
