"""Traces of rigid jobs: what is read, and which files are refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.workloads.rigid_jobs import (
    DAY,
    ITP,
    TIRESIAS,
    RigidJob,
    read_elasticflow_jobs,
    read_itp_jobs,
    read_services,
    read_tiresias_cluster,
    read_tiresias_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: A small file of every kind.
FILES = {
    "60_job.csv": (
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "1,4,60,500,vgg,250,30\n0,1,30,100,resnet,200,30\n"
    ),
    "testbed_195job.csv": (
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "a-1,1000,90,bert,1500,32,2,45\nb-2,1010,10,gpt2,1200,16,1,20\n"
    ),
    "raw/cluster03.csv": (
        f"job_id,submission_time,duration,num_gpu\nx,5,700,8\ny,{DAY},600,1\nz,{3 * DAY},900,2\n"
    ),
    "yarn-gput1000.csv": "duration\n121\n300.5\n",
    "n32g4.csv": "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,5,6",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the small files."""
    (tmp_path / "raw").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_jobs_come_in_order_of_submission_and_know_their_rates(folder: Path) -> None:
    """Seconds count from the first; where no steps are told, one takes a second."""
    assert read_tiresias_jobs(folder) == (
        RigidJob("0", 0.0, 1, 200.0, 100.0, "resnet"),
        RigidJob("1", 30.0, 4, 250.0, 500.0, "vgg"),
    )
    assert [job.rate for job in read_tiresias_jobs(folder)] == [0.5, 2.0]
    first, second = read_elasticflow_jobs(folder)
    assert (first.deadline, second.deadline, second.submission) == (500.0, 200.0, 10.0)
    (job,) = read_itp_jobs(folder, 3, 1, 2)
    assert job == RigidJob("y", 0.0, 1, 600.0, 600.0)
    assert [job.name for job in read_itp_jobs(folder, 3)] == ["x", "y", "z"]
    assert read_services(folder) == (121.0, 300.5)
    cluster = read_tiresias_cluster(folder)
    assert (cluster.num_nodes, cluster.num_gpus) == (6, 24)


def test_the_published_traces_are_what_they_are_said_to_be(reference: Path) -> None:
    """Numbers of jobs, GPU hours, clusters, and a rate."""
    jobs = read_tiresias_jobs(reference / TIRESIAS)
    assert (len(jobs), jobs[0].rate) == (60, 606 / 164)
    assert sum(job.seconds * job.replicas for job in jobs) / 3600 == pytest.approx(7.3956, abs=1e-3)
    assert read_tiresias_cluster(reference / TIRESIAS).num_gpus == 128
    assert len(read_services(reference / TIRESIAS)) == 1001
    testbed = read_elasticflow_jobs(reference / ITP)
    assert len(testbed) == 195
    assert all(0.49 < (job.deadline - job.submission) / job.seconds < 1.5 for job in testbed)
    assert len(read_itp_jobs(reference / ITP, 10)) == 260


@pytest.mark.parametrize(
    ("name", "old", "new", "read", "sentence"),
    [
        ("60_job.csv", "num_gpu", "gpus", read_tiresias_jobs, "column 'num_gpu' is missing"),
        (
            "60_job.csv",
            ",4,60",
            ",0,60",
            read_tiresias_jobs,
            "num_gpu is '0'; expected a whole number of at least 1",
        ),
        ("60_job.csv", "250,30", "0,30", read_tiresias_jobs, "Job '1': seconds is 0"),
        ("60_job.csv", "500,vgg", "-5,vgg", read_tiresias_jobs, "Job '1': steps is -5"),
        ("60_job.csv", "500,vgg", "many,vgg", read_tiresias_jobs, "iterations is 'many'"),
        ("60_job.csv", "500,vgg", ",vgg", read_tiresias_jobs, "iterations is ''"),
        ("60_job.csv", "1,4,60", "0,4,60", read_tiresias_jobs, "job '0' is there twice"),
        ("testbed_195job.csv", "1500", "900", read_elasticflow_jobs, "'a-1': deadline is -100"),
        ("raw/cluster03.csv", "x,5", ",5", lambda f: read_itp_jobs(f, 3), "name is ''"),
        (
            "raw/cluster03.csv",
            ",700,8",
            ",700,inf",
            lambda f: read_itp_jobs(f, 3),
            "num_gpu is 'inf'",
        ),
        (
            "raw/cluster03.csv",
            ",700,8",
            ",700,1.5",
            lambda f: read_itp_jobs(f, 3),
            "num_gpu is '1.5'",
        ),
        (
            "yarn-gput1000.csv",
            "121",
            "-1",
            read_services,
            "duration is '-1'; expected a finite number above 0",
        ),
        ("yarn-gput1000.csv", "121\n300.5\n", "", read_services, "it has no rows"),
        ("n32g4.csv", "2,3,4", "2,0,4", read_tiresias_cluster, "num_node_p_switch is '0'"),
        ("n32g4.csv", "2,3,4", "2,x,4", read_tiresias_cluster, "num_node_p_switch is 'x'"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    folder: Path, name: str, old: str, new: str, read: Callable[[Path], Any], sentence: str
) -> None:
    """In one sentence that names the file."""
    (folder / name).write_text(FILES[name].replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=name) as caught:
        read(folder)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0,), "Trace: cluster is 0; expected"),
        ((11,), "Trace: cluster is 11; expected"),
        ((3, -1), "Trace: first_day is -1; expected"),
        ((3, 0, 0), "Trace: days is 0; expected"),
        ((3, 9, 1), "no job was submitted from"),
        ((4,), "does not exist"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(
    folder: Path, arguments: tuple[int, ...], sentence: str
) -> None:
    """Clusters, days, and such in which nobody came."""
    with pytest.raises(ValueError, match=sentence):
        read_itp_jobs(folder, *arguments)


def test_jobs_that_make_no_sense_are_refused() -> None:
    """A name, a submission, a deadline."""
    with pytest.raises(ValueError, match="Job"):
        RigidJob("", 0.0, 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="Job 'a': submission is nan"):
        RigidJob("a", math.nan, 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="Job 'a': deadline is nan"):
        RigidJob("a", 0.0, 1, 1.0, 1.0, deadline=math.nan)
