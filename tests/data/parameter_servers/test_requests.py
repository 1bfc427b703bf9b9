"""Requests of published traces, and real courses of losses, in the terms of parameter servers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.parameter_servers.real_losses import GREATEST, read_real_courses
from goodalloc.data.parameter_servers.requests import (
    CLUSTERS,
    ITP,
    PHILLY,
    read_aiturbo_requests,
    read_itp_requests,
    read_philly_requests,
    requests_of_gpus,
    requests_without_gpus,
)
from goodalloc.data.parameter_servers.rounds import LEAST
from goodalloc.data.parameter_servers.workload import (
    CHOICES,
    PsRequest,
    PsWorkloadOptions,
    ps_workload,
)
from goodalloc.models.losses.loss_forecast import forecast
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from tests.support.job_records import made_up_records, write_records

if TYPE_CHECKING:
    from pathlib import Path

FEW = PsWorkloadOptions(jobs=30)


def test_gpus_become_as_many_workers_and_servers_up_to_what_a_job_may_have() -> None:
    """Weights are how often they occur; 16 and 64 GPUs are eight workers."""
    found = requests_of_gpus([1, 1, 1, 4, 16, 64])
    assert found == (
        PsRequest(PsConfiguration(1, 1, 2, 2, 1.0), 3),
        PsRequest(PsConfiguration(4, 4, 2, 2, 1.0), 1),
        PsRequest(PsConfiguration(8, 8, 2, 2, 1.0), 2),
    )


def test_a_share_of_the_requests_is_without_gpus() -> None:
    """Of every size, and of none where the share is 0."""
    found = requests_without_gpus(0.25)
    weights = {gpus: sum(w for c, w in found if c.worker_gpus == gpus) for gpus in (0.0, 1.0)}
    assert weights == {0.0: 1.0, 1.0: 3.0}
    assert all(one.configuration.worker_gpus == 1.0 for one in requests_without_gpus(0.0))
    with pytest.raises(ValueError, match="Requests: share is 2"):
        requests_without_gpus(2.0)


def test_lists_of_gpus_are_read_without_jobs_that_ask_for_none(tmp_path: Path) -> None:
    """Philly's one file, and the ten of Microsoft's clusters."""
    (tmp_path / PHILLY).write_text("job_id,num_gpu\n0,1\n1,0\n2,4\n")
    assert [(one.configuration.workers, one.weight) for one in read_philly_requests(tmp_path)] == [
        (1, 1),
        (4, 1),
    ]
    (tmp_path / "raw").mkdir()
    for cluster in range(1, CLUSTERS + 1):
        (tmp_path / ITP.format(cluster)).write_text(f"job_id,num_gpu\na,{1 + cluster // 10}\n")
    assert [(one.configuration.workers, one.weight) for one in read_itp_requests(tmp_path)] == [
        (1, 9),
        (2, 1),
    ]
    (tmp_path / ITP.format(3)).write_text("job_id,num_gpu\na,0\n")
    with pytest.raises(ValueError, match="num_gpu is '0'"):
        read_itp_requests(tmp_path)


def test_requests_of_job_records_are_among_the_choices(tmp_path: Path) -> None:
    """As many as there are records, each with its cores dealt evenly."""
    write_records(made_up_records(50), tmp_path)
    found = read_aiturbo_requests(tmp_path)
    assert sum(one.weight for one in found) == 50
    assert all(CHOICES.cell(one.configuration) is not None for one in found)


@pytest.mark.parametrize("reader", ["philly", "itp", "aiturbo"])
def test_published_requests_are_mostly_small(reader: str, reference: Path) -> None:
    """Nine of ten of Philly's jobs, and eight of ten of Microsoft's, take one GPU."""
    if reader == "aiturbo":
        found = read_aiturbo_requests(reference / "aiturbo-jobs")
        total = sum(one.weight for one in found)
        without = sum(one.weight for one in found if one.configuration.worker_gpus == 0)
        assert without / total == pytest.approx(1020 / 8690, abs=1e-3)
        return
    philly = reader == "philly"
    found = (
        read_philly_requests(reference / "chronus-philly")
        if philly
        else read_itp_requests(reference / "elasticflow-itp-2021")
    )
    single = found[0].weight / sum(one.weight for one in found)
    assert found[0].configuration.workers == 1
    assert single == pytest.approx(0.921 if philly else 0.832, abs=2e-3)


def test_other_requests_change_nothing_but_the_requests() -> None:
    """Common random numbers; every job asks for something of the list."""
    only = PsRequest(PsConfiguration(2, 3, 1, 4, 0.0))
    usual, found = ps_workload(1, FEW), ps_workload(1, replace(FEW, requests=(only,)))
    assert {job.asked for job in found} == {only.configuration}
    assert all(replace(job, asked=old.asked) == old for job, old in zip(found, usual, strict=True))
    drawn = ps_workload(1, replace(FEW, jobs=300, requests=requests_without_gpus(0.5)))
    share = sum(job.asked.worker_gpus == 0 for job in drawn) / 300
    assert share == pytest.approx(0.5, abs=0.1)


def test_a_slower_network_makes_the_transfer_longer_by_its_factor() -> None:
    """A tenth of the bandwidth, ten times the transfer; as long as before on the least."""
    slower = ps_workload(1, replace(FEW, bandwidth=0.1))
    for slow, job in zip(slower, ps_workload(1, FEW), strict=True):
        more = seconds_per_step(slow.step_time, job.asked, job.batch_size)
        same = seconds_per_step(job.step_time, job.asked, job.batch_size, 0.1)
        assert float(more) == pytest.approx(float(same))
        hours = [
            one.steps * float(seconds_per_step(one.step_time, LEAST, one.batch_size))
            for one in (slow, job)
        ]
        assert hours[0] == pytest.approx(hours[1], rel=0.02)
        assert slow.steps <= job.steps


def test_a_real_course_ends_at_its_last_loss_or_long_before_it() -> None:
    """A predictable job sees it whole; another a part, with the same target."""
    course = tuple(5.0 / (1.0 + 0.2 * epoch) + 1.0 for epoch in range(60))
    for job in ps_workload(1, replace(FEW, courses=(course,))):
        assert job.losses is not None
        seen = job.losses.losses
        assert job.losses.target == course[-1]
        assert job.losses.steps_per_epoch * len(seen) == pytest.approx(job.steps)
        if job.predictable:
            assert seen == course
            assert forecast(job.losses, job.steps / 2).steps == pytest.approx(job.steps, rel=0.02)
        else:
            assert 12 <= len(seen) <= 48
    with pytest.raises(ValueError, match="a course has no losses"):
        replace(FEW, courses=((),))


def test_metrics_that_rise_become_losses_that_fall(tmp_path: Path) -> None:
    """What an accuracy lacks of one; of several batch sizes the smallest."""
    for name, most in GREATEST.items():
        (tmp_path / name).mkdir()
        values = "8\n4\n" if most is None else f"{most / 4}\n{most / 2}\n"
        (tmp_path / name / "validation-32.csv").write_text(f"metric\n{values}")
        (tmp_path / name / "validation-128.csv").write_text("metric\n0.1\n")
    found = read_real_courses(tmp_path)
    assert found["cifar10"] == (0.75, 0.5)
    assert found["bert"] == (75.0, 50.0)
    assert found["yolov3"] == (8.0, 4.0)
    with pytest.raises(ValueError, match="expected files validation"):
        read_real_courses(tmp_path / "bert")


def test_every_application_of_pollux_has_a_course(reference: Path) -> None:
    """Of all its epochs, and lower at the end."""
    found = read_real_courses(reference / "pollux/traces")
    assert {name: len(course) for name, course in found.items()} == {
        "bert": 2,
        "cifar10": 100,
        "deepspeech2": 80,
        "imagenet": 90,
        "ncf": 10,
        "yolov3": 50,
    }
    assert all(course[-1] < course[0] for course in found.values())
