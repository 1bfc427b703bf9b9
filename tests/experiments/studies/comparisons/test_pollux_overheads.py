"""Overheads that Pollux states: what is counted in replays and what is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.experiments.studies.comparisons.pollux_overheads import (
    DELAY,
    MEASURED,
    OF_JOBS,
    OVERHEADS_POLLUX,
    POOLED,
    PUBLISHED,
    STRETCH,
    TimingTask,
    clock,
    measured_times,
    overheads_of,
)
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


def test_restarts_are_counted_from_the_first_gpus_to_the_end() -> None:
    """By hand: a job of ten minutes and four reallocations, and one of five minutes and one."""
    jobs = pd.DataFrame({"start": [90.0, 30.0], "completion": [660.0, 300.0], "restarts": [3, 0]})
    found = overheads_of(jobs, 30.0)
    assert found[STRETCH, POOLED] == pytest.approx(15 / 5)
    assert found[STRETCH, OF_JOBS] == pytest.approx((2.5 + 5) / 2)
    assert found[DELAY, POOLED] == pytest.approx(100 * 150 / 900)
    assert found[DELAY, OF_JOBS] == pytest.approx(100 * (120 / 600 + 30 / 300) / 2)


def test_a_job_has_measured_as_many_configurations_as_are_asked_for() -> None:
    """On one GPU and up, each with two batch sizes; a step takes no less than its pass."""
    for application in profiled_applications().values():
        for configurations in MEASURED:
            found = measured_times(application, configurations)
            assert len(found) == configurations
            assert all(0 < one <= step for one, step in found.values())
            assert max(replicas for _, replicas, _ in found) == (configurations + 1) // 2


def test_the_first_call_is_not_timed() -> None:
    """One call more than repetitions."""
    calls: list[int] = []
    assert len(clock(lambda: calls.append(0), 3)) == 3
    assert len(calls) == 4


def test_published_overheads_stand_beside_ours(tmp_path: Path) -> None:
    """Counted ones with an interval over two workloads, and timed ones with a range."""
    plan = carry_out(OVERHEADS_POLLUX, tmp_path, (1, 2))
    rows = OVERHEADS_POLLUX.rows(plan)
    assert {row.quantity for row in rows} == {*PUBLISHED}
    for row in rows:
        assert row.published == PUBLISHED[row.quantity]
        if row.clocked is None:
            assert row.samples == 2
            assert row.ours.mean > 0
            assert row.published_within == (
                abs(row.ours.mean - row.published) <= row.ours.half_width
            )
        else:
            assert row.clocked_least is not None
            assert row.clocked_greatest is not None
            assert 0 < row.clocked_least <= row.clocked <= row.clocked_greatest
    (ax,) = OVERHEADS_POLLUX.plot(plan, rows).axes
    assert len(ax.get_yticks()) == len(rows)


def test_a_timing_is_described_by_its_repetitions(tmp_path: Path) -> None:
    """So that another number of calls is another record."""
    few, many = (TimingTask(tmp_path, count).description() for count in (3, 20))
    assert few != many
