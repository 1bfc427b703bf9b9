"""AlloX and simple rules above the bound on any schedule of their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.classical.machine_jobs import MACHINES, draw_arrivals
from goodalloc.experiments.studies.classical import allox
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND
from goodalloc.experiments.studies.steady_jobs.machines_above_bound import (
    MACHINES_ABOVE,
    plot_machines_above,
    steady_machine_jobs,
)
from goodalloc.models.classical.unrelated_machines import UnrelatedMachines
from goodalloc.solvers.classical.matching import least_total_completion
from goodalloc.solvers.interface import Stop
from goodalloc.solvers.steady_jobs import price_search, steady_jobs_bound
from tests.support.hindsight.one_stage import search_in_one_stage

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_no_rule_is_below_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On short queues: a line for each rule, a column for each load."""
    search_in_one_stage(monkeypatch, coarseness=1.0)
    monkeypatch.setattr(price_search, "MOST_STEPS", 10)
    monkeypatch.setattr(allox, "LOADS", (1.5, 3.0))
    monkeypatch.setattr(allox, "JOBS", 20)
    monkeypatch.setattr(allox, "SEEDS", 1)
    monkeypatch.setattr(allox, "BATCHES", ())
    monkeypatch.setattr(allox, "SIZES", {})
    plan = Plan(tmp_path)
    for task in MACHINES_ABOVE.tasks(plan):
        task.run(lambda _: None)
    rows = MACHINES_ABOVE.rows(plan)
    assert len(rows) == 2 * (len(allox.LINES) + 1)
    assert min(row.above_bound_percent for row in rows) == 0
    assert {row.rule for row in rows if row.above_bound_percent == 0} >= {BOUND}
    shown = MACHINES_ABOVE.shown(rows)
    assert [line["rule"] for line in shown] == list(allox.LINES.values())
    assert set(shown[0]) == {"rule", "load 1.5", "load 3"}
    (ax,) = plot_machines_above(rows).axes
    assert len(ax.get_legend_handles_labels()[1]) == len(allox.LINES)


def test_a_batch_is_bounded_below_the_least_total_completion_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of jobs that stay on one machine, which the matching proves; pauses gain little."""
    search_in_one_stage(monkeypatch, coarseness=1.0)
    arrivals = draw_arrivals(1, 40, np.inf)
    best = least_total_completion(UnrelatedMachines.idle(arrivals.times, MACHINES)).bound / 40
    problem = steady_machine_jobs(arrivals, MACHINES)
    found = steady_jobs_bound(problem, 600.0, Stop(iterations=30)).value
    assert max(0.9 * best, problem.lone_value * (1 - 1e-9)) <= found <= best * (1 + 1e-9)
