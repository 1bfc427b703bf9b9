"""Figure 7: finish-time fairness, by hand on small replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux import fairness
from goodalloc.experiments.studies.pollux.fairness import (
    FIGURE_7,
    SHARES,
    AloneTask,
    finish_time_fairness,
    seconds_alone,
)
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


def alone(seconds: float) -> pd.DataFrame:
    """An application that speeds up linearly."""
    rows = [(nodes, each, seconds / (nodes * each)) for nodes, each in SHARES]
    return pd.DataFrame(rows, columns=["nodes", "gpus_per_node", "seconds"])


def finished(*jobs: tuple[str, float, float]) -> pd.DataFrame:
    """Rows of ``jobs.csv``: application, submission, completion."""
    return pd.DataFrame(jobs, columns=["application", "submission", "completion"])


def test_a_job_that_had_exactly_its_share_has_fairness_one() -> None:
    """Two jobs side by side on eight GPUs, each done in what four GPUs take."""
    jobs = finished(("a", 0, 250), ("b", 0, 250))
    rho = finish_time_fairness(jobs, 8, {"a": alone(1000.0), "b": alone(1000.0)})
    assert rho == pytest.approx([1.0, 1.0])


def test_the_share_follows_the_jobs_that_were_there() -> None:
    """Half its time a job is alone, half its time with another: N is 1.5 on average."""
    jobs = finished(("a", 0, 200), ("a", 100, 200))
    rho = finish_time_fairness(jobs, 6, {"a": alone(1000.0)})
    assert rho == pytest.approx([200 / (1000 / 4), 100 / (1000 / 3)])


def test_below_one_gpu_time_is_shared_out() -> None:
    """Four jobs on two GPUs: half a GPU each."""
    jobs = finished(*(("a", 0, 4000) for _ in range(4)))
    assert finish_time_fairness(jobs, 2, {"a": alone(1000.0)}) == pytest.approx([2.0] * 4)


def test_a_job_may_leave_a_part_of_its_share_idle() -> None:
    """Where more GPUs make it slower, fewer are its yardstick."""
    table = alone(1000.0)
    table.loc[3:, "seconds"] = 9999.0
    rho = finish_time_fairness(finished(("a", 0, 250)), 16, {"a": table})
    assert rho == pytest.approx([1.0])


def test_alone_a_job_takes_its_start_and_no_longer_than_with_others() -> None:
    """More than the restart delay, and less on four GPUs than on one."""
    bert = profiled_applications()["bert"]
    one, four = (seconds_alone(bert, 1, gpus) for gpus in (1, 4))
    assert 90 < four < one


def test_a_finished_file_is_not_written_again(tmp_path: Path) -> None:
    """And it has a row a share."""
    task = AloneTask(tmp_path, "ncf")
    shares: list[float] = []
    task.run(shares.append)
    assert shares == pytest.approx(np.arange(1, len(SHARES) + 1) / len(SHARES))
    table = pd.read_csv(task.file)
    assert list(zip(table.nodes, table.gpus_per_node, strict=True)) == list(SHARES)
    before = task.file.stat().st_mtime_ns
    task.run()
    assert task.file.stat().st_mtime_ns == before


def test_figure_7_has_a_row_and_a_curve_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a workload of a few short jobs."""
    monkeypatch.setattr(fairness, "SHARES", SHARES[:3])
    plan = carry_out(FIGURE_7, tmp_path)
    rows = FIGURE_7.rows(plan)
    assert [row.policy for row in rows][1:] == [
        "fifo (p = +1)",
        "fifo (p = -10)",
        "optimus",
        "tiresias",
    ]
    assert rows[0].ratio.mean == 1.0
    assert all(0 < row.median_rho <= row.greatest_rho for row in rows)
    (ax,) = FIGURE_7.plot(plan, rows).axes
    assert len(ax.lines) == len(rows) + 1
    assert Plan(tmp_path).traces is None
