"""Workloads: reading, writing, drawing, and refusing what makes no sense."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.derivation import fit_workloads
from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.workloads.generator import SHIPPED, draw_workload
from goodalloc.data.workloads.workload import Submission, read_workload, write_workload

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "name,time,application,num_replicas,batch_size\n"


def test_a_workload_survives_its_file(tmp_path: Path) -> None:
    """Written and read again it is the same."""
    jobs = draw_workload(1, jobs=30)
    write_workload(jobs, tmp_path / "workload.csv")
    assert read_workload(tmp_path / "workload.csv") == jobs


def test_equal_seeds_draw_equal_workloads_and_others_do_not() -> None:
    """The seed decides everything."""
    assert draw_workload(5) == draw_workload(5)
    assert draw_workload(5) != draw_workload(6)


@pytest.mark.parametrize(("load", "jobs"), [(0.5, 80), (1.0, 160), (2.0, 320)])
def test_the_load_counts_jobs_over_the_same_eight_hours(load: float, jobs: int) -> None:
    """The published loads have 80, 160 and 320 jobs."""
    drawn = draw_workload(0, load=load)
    assert len(drawn) == jobs
    times = [job.time for job in drawn]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 8 * 3600


def test_many_draws_have_the_published_mix_and_requests() -> None:
    """Applications, the busiest hour, and tuned requests that are among those published."""
    drawn = draw_workload(7, jobs=10_000)
    shares = {name: n / len(drawn) for name, n in Counter(j.application for j in drawn).items()}
    assert shares["cifar10"] == pytest.approx(495 / 1280, abs=0.01)
    assert shares["imagenet"] == pytest.approx(26 / 1280, abs=0.005)
    assert Counter(job.time // 3600 for job in drawn).most_common(1)[0][0] == 5
    assert {(j.replicas, j.batch_size) for j in drawn if j.application == "yolov3"} == {(4, 64)}
    realistic = draw_workload(7, jobs=10_000, requests="realistic")
    alone = [job.replicas == 1 for job in realistic if job.application == "cifar10"]
    assert sum(alone) / len(alone) == pytest.approx(487 / 495, abs=0.01)


def test_the_shipped_statistics_are_those_of_the_published_workloads(
    reference: Path, tmp_path: Path
) -> None:
    """The script writes the shipped file again, to the byte."""
    out = tmp_path / "statistics.json"
    fit_workloads.main(["--reference", str(reference), "--out", str(out)])
    assert out.read_text(encoding="utf-8") == read_shipped(SHIPPED)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,time\na,1\n", "column 'application' is missing"),
        (HEADER, "it has no rows"),
        (f"{HEADER}a,1,bert,1,12\na,2,bert,1,12\n", "'a' is listed twice"),
        (f"{HEADER}a,-1,bert,1,12\n", "time is -1"),
        (f"{HEADER}a,1,bert,0,12\n", "num_replicas is 0"),
        (f"{HEADER}a,1,bert,1.5,12\n", "num_replicas is '1.5'"),
        (f"{HEADER}a,1,bert,1,nan\n", "batch_size is 'nan'"),
        (f"{HEADER}a,soon,bert,1,12\n", "time is 'soon'"),
        (f"{HEADER}a,1,,1,12\n", "application is ''"),
        (f"{HEADER},1,bert,1,12\n", "name is ''"),
    ],
)
def test_bad_workloads_are_refused_by_file_and_item(
    tmp_path: Path, text: str, complaint: str
) -> None:
    """One sentence that names the file, the item and its value."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_workload(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    """It does not exist."""
    with pytest.raises(ValueError, match=r"gone\.csv' does not exist"):
        read_workload(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"load": 0.0}, "load is 0"),
        ({"load": float("nan")}, "load is nan"),
        ({"jobs": 0}, "jobs is 0"),
        ({"requests": "lavish"}, "requests is 'lavish'"),
    ],
)
def test_senseless_draws_are_refused(options: dict[str, object], complaint: str) -> None:
    """Each by its value."""
    with pytest.raises(ValueError, match=complaint):
        draw_workload(0, **options)  # type: ignore[arg-type]


def test_a_submission_says_what_is_wrong_with_it() -> None:
    """Names are needed and counts are whole."""
    with pytest.raises(ValueError, match="name"):
        Submission("", 0, "bert", 1, 12)
    with pytest.raises(ValueError, match="batch_size is 0"):
        Submission("a", 0, "bert", 1, 0)
