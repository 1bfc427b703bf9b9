"""Step times of a new application, predicted from those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.studies.comparisons.similar_jobs import (
    KNOWN,
    PREDICTORS,
    SIMILAR_JOBS,
)
from goodalloc.experiments.studies.framework.reproduction import Plan

if TYPE_CHECKING:
    from pathlib import Path


def test_similar_jobs_halve_the_error_of_a_prior_that_takes_the_unseen_for_cheap(
    tmp_path: Path,
) -> None:
    """On the shipped profiles; nothing is better than one's own measurements of everything."""
    plan = Plan(tmp_path)
    rows = SIMILAR_JOBS.rows(plan)
    assert {(row.application, row.known) for row in rows} == {
        (name, known) for name in plan.applications for known in KNOWN
    }
    one_gpu, one_node = SIMILAR_JOBS.shown(rows)
    for line in (one_gpu, one_node):
        own, similar, prior = (float(line[f"{name}_rmsle"]) for name in ("own", "similar", "prior"))
        assert own < similar < 0.7 * prior
        assert float(line["within_interval_percent"]) > 75.0
        assert line["applications"] == 6
    assert float(one_node["similar_rmsle"]) < float(one_gpu["similar_rmsle"])
    for row in rows:
        assert row.own_rmsle < 0.05  # profiles are of the form that is fitted
        assert row.deviation > 0.0
        assert row.configurations >= 6


def test_the_figure_has_a_line_for_every_application_and_knowledge(tmp_path: Path) -> None:
    """With a marker of every predictor."""
    plan = Plan(tmp_path)
    rows = SIMILAR_JOBS.rows(plan)
    (ax,) = SIMILAR_JOBS.plot(plan, rows).axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"{row.application}, {row.known}" for row in rows]
    assert ax.get_legend_handles_labels()[1] == [*PREDICTORS.values()]
    assert all(len(np.asarray(line.get_xdata())) == len(rows) for line in ax.lines)
