"""The experiment on searches: its workload, its ruler, its table and its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import Submission, check_workload
from goodalloc.experiments.studies.classical.themis_searches import (
    SEARCHED,
    THEMIS_SEARCHES,
    WAYS,
    search_fairness,
    seconds_on_share,
    summarise_searches,
    with_searches,
)
from goodalloc.experiments.studies.pollux import fairness
from goodalloc.experiments.studies.pollux.fairness import SHARES
from goodalloc.solvers.classical.search_auctions import search_of
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


def test_searches_take_the_place_of_as_many_jobs() -> None:
    """Of the searched applications; the trials of one are equal but for their names."""
    jobs = draw_workload(1)
    found = with_searches(jobs, 1)
    check_workload(found)
    assert len(found) == len(jobs)
    assert found == with_searches(jobs, 1) != with_searches(jobs, 2)
    assert [job for job in found if job.application not in SEARCHED] == [
        job for job in jobs if job.application not in SEARCHED
    ]
    by_search: dict[str, set[Submission]] = {}
    for job in found:
        same = Submission("same", job.time, job.application, job.replicas, job.batch_size)
        by_search.setdefault(search_of(job.name), set()).add(same)
    assert all(len(kinds) == 1 for kinds in by_search.values())
    assert len(by_search) < len(jobs) / 2


def test_a_search_alone_needs_the_time_of_its_trials_side_by_side() -> None:
    """Eight trials of 100 s on one GPU and 60 s on two."""
    gpus, seconds = np.array([1.0, 2.0]), np.array([100.0, 60.0])

    def alone(share: float, requested: int = 2) -> float:
        return seconds_on_share(share, 8, requested, gpus, seconds)

    assert alone(16.0) == pytest.approx(60.0)  # all at once, two GPUs each
    assert alone(16.0, requested=1) == pytest.approx(100.0)
    assert alone(8.0) == pytest.approx(100.0)  # one each, or two GPUs in two turns: 120 s
    assert alone(0.5) == pytest.approx(1600.0)  # half the time of a GPU


@given(st.floats(0.1, 64.0), st.integers(1, 16), st.integers(1, 8))
def test_more_of_a_share_never_takes_longer(share: float, trials: int, requested: int) -> None:
    """Nor do fewer trials, nor a larger request."""
    gpus = np.array([1.0, 2.0, 4.0, 8.0])
    seconds = np.array([100.0, 55.0, 30.0, 20.0])
    found = seconds_on_share(share, trials, requested, gpus, seconds)
    assert found >= seconds_on_share(2.0 * share, trials, requested, gpus, seconds)
    assert found >= seconds_on_share(share, max(trials - 1, 1), requested, gpus, seconds)
    assert found >= seconds_on_share(share, trials, requested + 1, gpus, seconds)


def test_the_ruler_of_a_search_runs_to_its_last_trial() -> None:
    """Two trials of 100 s alone, on two GPUs, done after 100 and 300 s: three times as long."""
    submitted = [Submission(f"a-trial-{n}", 0, "a", 1, 8) for n in range(2)]
    jobs = pd.DataFrame(
        {"job": ["a-trial-0", "a-trial-1"], "submission": [0, 0], "completion": [100, 300]}
    )
    table = pd.DataFrame({"nodes": [1, 1], "gpus_per_node": [1, 2], "seconds": [100.0, 60.0]})
    found = search_fairness(jobs, submitted, 2, {"a-8": table})
    assert found.rho.tolist() == pytest.approx([3.0])


def test_a_table_and_a_picture_come_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for every workload and policy; Themis is compared with itself as 1."""
    monkeypatch.setattr(fairness, "SHARES", SHARES[:3])
    plan = carry_out(THEMIS_SEARCHES, tmp_path, (1, 2))
    rows = THEMIS_SEARCHES.rows(plan)
    assert len(rows) == 2 * len(WAYS)
    for row in rows:
        assert 0 < row.median_rho <= row.greatest_rho
        assert row.searches <= row.jobs == 3
        assert row.gpu_hours > 0
    shown = summarise_searches(rows)
    assert (shown[0].ratio.mean, shown[0].gpu_time_percent.mean) == (1.0, 0.0)
    assert [(line.policy, line.bidders) for line in shown] == [
        (way.label, way.bidders) for way in WAYS
    ]
    assert shown[4].greatest_rho.mean == pytest.approx(
        np.mean([row.greatest_rho for row in rows if row.policy == "gandiva"])
    )
    assert "over that under Themis" in THEMIS_SEARCHES.plot(plan, rows).axes[0].get_xlabel()
    assert len(THEMIS_SEARCHES.shown(rows)) == len(WAYS)
