"""Jobs with parameter servers: what remains by service and by time, and drawn rounds of them."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.parameter_servers.rounds import HOURS, LEAST, ps_round
from goodalloc.data.parameter_servers.step_times import load_step_time, step_time_names
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.job import Measure, PsChoices, PsJob, service_table
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.tabulated_service import AXES

CHOICES = PsChoices((1, 2, 3), (1, 2, 4), (1, 2), (1, 2, 3), (1.0, 2.0))


def some_job(name: str = "dssm", **changes: object) -> PsJob:
    """A job of a model that ships, on GPUs."""
    profile = load_step_time(name)
    fields = {"choices": CHOICES, **changes}
    return PsJob(name, 1000.0, profile.batch_size, profile.parameters, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", step_time_names())
@pytest.mark.parametrize("measure", get_args(Measure))
def test_every_cell_is_its_configuration(name: str, measure: Measure) -> None:
    """Seconds of a step, cores and GPUs one configuration at a time."""
    job = some_job(name)
    table = service_table(job, measure)
    for cell in [(0, 0, 0, 0, 0), (2, 1, 1, 2, 0), (1, 2, 0, 1, 1)]:
        one = CHOICES.at(cell)
        assert CHOICES.cell(one) == cell
        seconds = 1000.0 * float(seconds_per_step(job.step_time, one, job.batch_size))
        held = float(one.cores) + 10.0 * float(one.gpus)
        counted = {"service": seconds * held, "time": seconds, "log time": np.log1p(seconds)}
        assert table.service[cell] == pytest.approx(counted[measure])
        assert table.demand[cell].tolist() == [one.cores, one.gpus]
        servers, workers = table.pods
        assert (servers.number[cell], workers.number[cell]) == (one.servers, one.workers)
        assert servers.each[cell].tolist() == [one.server_cores, 0.0]
        assert workers.each[cell].tolist() == [one.worker_cores, one.worker_gpus]


def test_a_restart_counts_wherever_the_job_is_not() -> None:
    """60 s, in time and in service."""
    here = CHOICES.at((1, 1, 0, 0, 0))
    still, moved = some_job(), some_job(current=here, restart_seconds=60.0)
    assert moved.cell == (1, 1, 0, 0, 0)
    before, after = service_table(still, "time").service, service_table(moved, "time").service
    difference = after - before
    assert difference[moved.cell] == 0.0
    others = np.ones(difference.shape, dtype=bool)
    others[moved.cell] = False
    assert difference[others] == pytest.approx(60.0)
    elsewhere = some_job(current=PsConfiguration(9, 9), restart_seconds=60.0)
    assert elsewhere.cell is None
    assert service_table(elsewhere, "time").service - before == pytest.approx(60.0)


@settings(deadline=None, max_examples=40)
@given(st.floats(1.0, 1e6), st.floats(1.1, 9.0))
def test_what_remains_is_positive_and_grows_with_the_work_and_the_weights(
    steps: float, factor: float
) -> None:
    """In proportion."""
    job = some_job()
    less = PsJob("a", steps, job.batch_size, job.step_time, CHOICES)
    more = PsJob("a", steps * factor, job.batch_size, job.step_time, CHOICES)
    first, second = (service_table(one).service for one in (less, more))
    assert (first > 0).all()
    assert second == pytest.approx(first * factor)
    weighed = service_table(less, core_weight=factor, gpu_weight=10 * factor).service
    assert weighed == pytest.approx(first * factor)


@pytest.mark.parametrize("seed", range(5))
def test_more_cores_never_lengthen_what_remains(seed: int) -> None:
    """Of drawn jobs, along both axes; a GPU for every worker shortens it too."""
    for job in ps_round(seed, 10).jobs:
        seconds = service_table(job, "time").service
        for axis, name in enumerate(AXES):
            if name.endswith("cores"):
                assert (np.diff(seconds, axis=axis) <= 1e-9 * seconds.max()).all()


def test_the_same_seed_draws_the_same_round_and_another_does_not() -> None:
    """Jobs and nodes."""
    first, again, other = ps_round(3, 20), ps_round(3, 20), ps_round(4, 20)
    assert first.jobs == again.jobs
    assert first.jobs != other.jobs
    assert first.nodes.tolist() == again.nodes.tolist() == [[16.0, 2.0]] * 10


def test_drawn_jobs_take_hours_on_the_least_configuration() -> None:
    """The median of many is what was asked for."""
    hours = [
        job.remaining_steps * float(seconds_per_step(job.step_time, LEAST, job.batch_size)) / 3600
        for job in ps_round(0, 400).jobs
    ]
    assert np.median(hours) == pytest.approx(HOURS, rel=0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ps_round(-1, 5), "seed"),
        (lambda: ps_round(0, 0), "num_jobs"),
        (lambda: ps_round(0, 5, num_nodes=0), "num_nodes"),
        (lambda: PsChoices(servers=()), "servers"),
        (lambda: PsChoices(workers=(2, 1)), "workers"),
        (lambda: PsChoices(workers=(1, 1)), "workers"),
        (lambda: PsChoices(server_cores=(0,)), "server_cores"),
        (lambda: PsChoices(worker_gpus=(-1.0,)), "worker_gpus"),
        (lambda: PsChoices(worker_gpus=(float("nan"),)), "worker_gpus"),
        (lambda: some_job(current=None, restart_seconds=-1.0), "restart_seconds"),
        (lambda: some_job(current=None, restart_seconds=float("nan")), "restart_seconds"),
        (lambda: service_table(some_job(), "speed"), "measure"),  # type: ignore[arg-type]
        (lambda: service_table(some_job(), core_weight=-1.0), "core_weight"),
        (lambda: service_table(some_job(), gpu_weight=float("inf")), "gpu_weight"),
        (lambda: service_table(some_job(), bandwidth=0.0), "bandwidth"),
    ],
)
def test_what_makes_no_sense_is_refused(call: object, message: str) -> None:
    """In one sentence that names it."""
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("steps", [0.0, -1.0, float("nan"), float("inf")])
def test_jobs_without_a_sensible_number_of_steps_are_refused(steps: float) -> None:
    """By the name of the job."""
    job = some_job()
    with pytest.raises(ValueError, match="Job 'a': remaining_steps"):
        PsJob("a", steps, job.batch_size, job.step_time)
