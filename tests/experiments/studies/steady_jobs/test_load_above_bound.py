"""Gavel's sweep over the load above the bound on any schedule of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.workload import draw_gavel_jobs
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.gavel import load_sweep
from goodalloc.experiments.studies.gavel.load_task import GPUS, Size, workload_of
from goodalloc.experiments.studies.steady_jobs.load_above_bound import (
    LOADS_ABOVE,
    plot_loads_above,
    steady_gavel_jobs,
)
from goodalloc.solvers.steady_jobs import price_search
from tests.support.hindsight.one_stage import search_in_one_stage

if TYPE_CHECKING:
    from pathlib import Path


def test_neither_policy_is_below_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few jobs on few GPUs; a row for each load, and a panel for each trace."""
    search_in_one_stage(monkeypatch, coarseness=4.0)
    monkeypatch.setattr(price_search, "MOST_STEPS", 10)
    monkeypatch.setattr(load_sweep, "QUICK", Size(8, 8, 12, 24, 80, 1))
    monkeypatch.setattr(load_sweep, "QUICK_LOADS", {"single": (3.0,), "multiple": (2.5,)})
    plan = Plan(tmp_path, quick=True)
    for task in LOADS_ABOVE.tasks(plan):
        task.run(lambda _: None)
    rows = LOADS_ABOVE.rows(plan)
    assert [(row.trace, row.jobs_per_hour, row.jobs) for row in rows] == [
        ("single", 3.0, 16),
        ("multiple", 2.5, 16),
    ]
    for row in rows:
        assert row.bound_hours.mean <= row.known_jct_hours.mean
        assert row.bound_hours.mean <= row.equal_jct_hours.mean
        over = row.known_jct_hours.mean / row.bound_hours.mean - 1.0
        assert row.known_above_percent.mean == pytest.approx(100.0 * over, abs=0.02)
    assert len(plot_loads_above(rows).axes) == 2
    assert len(LOADS_ABOVE.shown(rows)) == 2


def test_jobs_run_on_their_number_of_gpus_of_one_type_at_its_rate() -> None:
    """From the first round after they came; GPUs are those of the cluster."""
    rates = gavel_rates(None)
    jobs = draw_gavel_jobs(2, 40, rates, workload_of("multiple", 2.0))
    problem = steady_gavel_jobs(jobs, rates, GPUS)
    assert problem.supply.tolist() == [GPUS] * len(rates.types)
    assert problem.begin == pytest.approx([360.0 * np.ceil(j.submission / 360.0) for j in jobs])
    for job, index, work in zip(jobs, problem.kind.tolist(), problem.work, strict=True):
        kind = problem.kinds[index]
        assert work == job.steps
        assert set(kind.uses.ravel()) <= {0.0, float(job.replicas)}
        assert (np.count_nonzero(kind.uses, axis=1) == 1).all()
        found = {
            rates.types[int(use.argmax())]: rate
            for rate, use in zip(kind.rates.tolist(), kind.uses, strict=True)
        }
        told = {name: rates.rate(job.configuration, job.replicas, name) for name in rates.types}
        assert found == {name: rate for name, rate in told.items() if rate > 0}


def test_without_jobs_there_is_no_bound() -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match="there are no jobs"):
        steady_gavel_jobs((), gavel_rates(None), GPUS)
