"""Drawn workloads of jobs with parameter servers: what a share of unpredictable jobs changes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.parameter_servers.workload import (
    PsWorkloadOptions,
    check_ps_workload,
    ps_workload,
)
from goodalloc.models.losses.loss_forecast import forecast
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.predictability import LARGEST_ERROR

if TYPE_CHECKING:
    from goodalloc.data.parameter_servers.workload import PsSubmission

MANY = PsWorkloadOptions(jobs=600)


def with_share(share: float, jobs: int = 40) -> tuple[PsSubmission, ...]:
    """A workload of which this share is unpredictable."""
    return ps_workload(5, PsWorkloadOptions(jobs=jobs, unpredictable=share))


def test_the_same_seed_draws_the_same_jobs_and_another_does_not() -> None:
    """Everything about them."""
    assert with_share(0.5) == with_share(0.5)
    assert ps_workload(0) != ps_workload(1)


def test_a_larger_share_only_turns_jobs() -> None:
    """And only what is believed of those that it turns."""
    for less, more in zip((0.0, 0.25, 0.5, 0.75), (0.25, 0.5, 0.75, 1.0), strict=True):
        turned = 0
        for before, after in zip(with_share(less), with_share(more), strict=True):
            if before.predictable == after.predictable:
                assert before == after
                continue
            assert before.predictable
            turned += 1
            believed = {
                name: getattr(before, name) for name in ("predictable", "confidence", "losses")
            }
            assert dataclasses.replace(after, **believed) == before
        assert turned == 10


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_as_many_are_unpredictable_as_asked_for(share: float) -> None:
    """Exactly."""
    assert sum(not job.predictable for job in with_share(share)) == round(40 * share)


def test_the_classifier_is_as_accurate_as_on_the_records_of_aiturbo() -> None:
    """It knows 95.5 % of the predictable jobs, and 65 % of the others: 90.8 % where 15 % are."""
    jobs = ps_workload(0, dataclasses.replace(MANY, jobs=4000))
    right = {
        kind: np.mean([(j.confidence >= 0.5) == kind for j in jobs if j.predictable == kind])
        for kind in (True, False)
    }
    assert right[True] == pytest.approx(0.955, abs=0.015)
    assert right[False] == pytest.approx(0.65, abs=0.03)
    assert 0.85 * right[True] + 0.15 * right[False] == pytest.approx(0.908, abs=0.012)


def test_what_is_believed_of_predictable_jobs_is_nearer_the_truth() -> None:
    """Halfway through the run, and sooner trusted."""
    jobs = ps_workload(1, dataclasses.replace(MANY, jobs=60))
    off, trusted = {}, {}
    for kind in (True, False):
        found = [
            (forecast(job.losses, job.steps / 2), job.steps)
            for job in jobs
            if job.predictable == kind and job.losses is not None
        ]
        off[kind] = np.median([abs(f.steps / steps - 1) for f, steps in found])
        trusted[kind] = np.mean([f.error <= LARGEST_ERROR for f, _ in found])
    assert off[True] < 0.05 < 0.3 < off[False]
    assert trusted[True] > 0.8 > 0.3 > trusted[False]


def test_who_is_told_has_no_losses_to_look_at_and_nothing_else_changes() -> None:
    """The confidence is the truth."""
    told = PsWorkloadOptions(jobs=40, unpredictable=0.5, told=True)
    for job, before in zip(ps_workload(5, told), with_share(0.5), strict=True):
        assert (job.confidence, job.losses) == (float(job.predictable), None)
        doubted = dataclasses.replace(job, confidence=before.confidence, losses=before.losses)
        assert doubted == before


def test_jobs_come_one_after_the_other_as_often_as_asked_for() -> None:
    """60 in about eight hours; and fewer jobs are the first of more."""
    times = [job.time for job in ps_workload(2, MANY)]
    assert times == sorted(times)
    assert times[-1] / 600 == pytest.approx(480.0, rel=0.15)
    assert [job.steps for job in with_share(0.5, 10)] == [j.steps for j in with_share(0.5)[:10]]
    asked = {int(job.asked.workers) for job in ps_workload(2, MANY)}
    assert asked == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jobs", 0),
        ("jobs", 1.5),
        ("jobs", float("nan")),
        ("mean_gap", 0.0),
        ("mean_gap", float("nan")),
        ("mean_gap", float("inf")),
        ("hours", -1.0),
        ("hours", 0.0),
        ("most_workers", 0),
        ("most_workers", 9),
        ("pod_cores", 0),
        ("pod_cores", 5),
        ("unpredictable", -0.1),
        ("unpredictable", 1.1),
        ("unpredictable", float("nan")),
        ("noise", -1.0),
        ("noise", float("inf")),
        ("noise", float("nan")),
        ("told", 1),
    ],
)
def test_options_that_make_no_sense_are_refused(field: str, value: float) -> None:
    """By their name."""
    with pytest.raises(ValueError, match=f"Workload: {field} is"):
        PsWorkloadOptions(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time", -1.0),
        ("time", float("nan")),
        ("steps", 0.0),
        ("steps", float("inf")),
        ("batch_size", -1.0),
        ("confidence", 1.5),
        ("confidence", float("nan")),
        ("predictable", 1),
        ("asked", PsConfiguration(9, 9, 2, 2, 1)),
    ],
)
def test_jobs_that_make_no_sense_are_refused(field: str, value: object) -> None:
    """By the name of the job."""
    job = with_share(0.5, 1)[0]
    with pytest.raises(ValueError, match=f"Job 'job0': {field} is"):
        dataclasses.replace(job, **{field: value})  # type: ignore[arg-type]


def test_workloads_without_jobs_or_with_a_name_twice_are_refused() -> None:
    """With the name."""
    job = with_share(0.5, 1)[0]
    with pytest.raises(ValueError, match="no jobs"):
        check_ps_workload(())
    with pytest.raises(ValueError, match="'job0' is submitted twice"):
        check_ps_workload((job, job))
    with pytest.raises(ValueError, match="name is"):
        dataclasses.replace(job, name=" ")
    with pytest.raises(ValueError, match="seed is"):
        ps_workload(-1)
