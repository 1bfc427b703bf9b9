"""The picture of a day with hindsight."""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.experiments.hindsight.day import look_back
from goodalloc.experiments.hindsight.day_search import DaySearch
from goodalloc.experiments.hindsight.figure import plot_hindsight
from goodalloc.experiments.reporting.table_numbers import HOUR
from tests.support.hindsight.tiny_traces import tiny_trace


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_job_of_the_picture_is_below_its_own_bound(seed: int) -> None:
    """Which is its completion alone on the cluster; every job has a point."""
    problem = tiny_trace(seed, types=1)
    day = look_back(problem, DaySearch(interval=5.0, steps=1))
    *_, ax = plot_hindsight(problem, day.bound, day.schedule).axes
    points = [line for line in ax.lines if line.get_marker() == "o"]
    bound, found = (
        np.concatenate([np.asarray(getattr(line, name)()) for line in points])
        for name in ("get_xdata", "get_ydata")
    )
    assert found.size == len(problem.jobs)
    assert (found >= bound * (1.0 - 1e-9)).all()
    alone = [
        (job.begin + problem.training(job.training).least_seconds - job.release) / HOUR
        for job in problem.jobs
    ]
    assert sorted(bound.tolist()) == pytest.approx(sorted(alone))
