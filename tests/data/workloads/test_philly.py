"""Workloads drawn from a list of jobs: what is drawn, and which lists are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.generator import HOUR, statistics
from goodalloc.data.workloads.philly import draw_from_philly, read_philly

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A made-up list of 2,000 jobs over a month, some too short and some too long."""
    generator = np.random.default_rng(7)
    seconds = generator.integers(0, 30 * 24 * HOUR, size=2000)
    gpus = generator.choice([1, 2, 4, 8, 16], size=2000)
    duration = np.round(10.0 ** generator.uniform(1.0, 6.0, size=2000))
    table = pd.DataFrame(
        {
            "timestamp": pd.Timestamp("2017-10-03") + pd.to_timedelta(seconds, unit="s"),
            "duration": duration,
            "num_gpus": gpus,
            "gpu_time": gpus * duration,
            "cluster": "vc",
        }
    )
    target = tmp_path / "list.csv"
    table.to_csv(target, index=False)
    return target


def test_jobs_are_drawn_from_the_hours_asked_for_in_order(path: Path) -> None:
    """Hours past midnight follow on; every job is unique, and equal seeds draw equal jobs."""
    table = read_philly(path)
    jobs = draw_from_philly(table, 3, 100, start=22, hours=4)
    assert jobs == draw_from_philly(table, 3, 100, start=22, hours=4)
    assert jobs != draw_from_philly(table, 4, 100, start=22, hours=4)
    times = [job.time for job in jobs]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < 4 * HOUR
    seconds = {(22 * HOUR + time) % (24 * HOUR) for time in times}
    assert seconds <= set(table.second.tolist())
    assert len({job.name for job in jobs}) == 100


def test_the_gpu_time_of_a_job_decides_what_it_trains(path: Path) -> None:
    """One category alone in the list gives its applications alone."""
    table = read_philly(path)
    expected = ({"cifar10", "ncf"}, {"deepspeech2", "bert"}, {"yolov3"}, {"imagenet"})
    for index, names in enumerate(expected):
        least, most = 10.0 ** (index - 1) * HOUR * (index > 0), 10.0**index * HOUR
        part = table[(table.gpu_time >= least) & (table.gpu_time < most)].reset_index(drop=True)
        assert {job.application for job in draw_from_philly(part, 0, 30, hours=24)} == names


def test_tuned_requests_are_published_ones_and_realistic_ones_are_the_lists(path: Path) -> None:
    """Realistic batch sizes grow with the GPUs, as far as the application allows."""
    table = read_philly(path)
    asked = statistics()["requests"]["tuned"]
    for job in draw_from_philly(table, 1, 100, hours=24):
        known = [request[:2] for request in asked[job.application]]
        assert [job.replicas, job.batch_size] in known
    for job in draw_from_philly(table, 1, 100, "realistic", hours=24):
        limits = profiled_applications()[job.application].batch
        assert job.replicas in set(table.num_gpus.tolist())
        most = int(limits.maximum // limits.initial)
        assert job.batch_size == min(job.replicas, most) * limits.initial


def test_short_and_huge_jobs_are_left_out(path: Path) -> None:
    """As published: below a minute, and from a thousand GPU-hours."""
    table = read_philly(path)
    assert 0 < len(table) < 2000
    assert table.duration.min() >= 60
    assert table.gpu_time.max() < 1000 * HOUR


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("timestamp,duration,num_gpus\n2017-10-03 00:00:00,60,1\n", "column 'gpu_time' is missing"),
        ("timestamp,duration,num_gpus,gpu_time\nsoon,60,1,60\n", "timestamp is 'soon'"),
        ("timestamp,duration,num_gpus,gpu_time\n2017-10-03,long,1,60\n", "duration is 'long'"),
        ("timestamp,duration,num_gpus,gpu_time\n2017-10-03,60,-1,60\n", "num_gpus is '-1'"),
        ("duration\n60\n", "column 'timestamp' is missing"),
    ],
)
def test_broken_lists_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """With the file, the column and the value."""
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_philly(tmp_path / "list.csv")


def test_a_list_must_have_as_many_jobs_as_are_asked_for(path: Path) -> None:
    """The sentence says how many there are."""
    with pytest.raises(
        ValueError,
        match=r"jobs is 5000; expected at most \d+, as many",
    ):
        draw_from_philly(read_philly(path), 0, 5000)
    with pytest.raises(ValueError, match="hours is 25"):
        draw_from_philly(read_philly(path), 0, hours=25)
