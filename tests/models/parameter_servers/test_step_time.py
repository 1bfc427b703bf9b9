"""Seconds of a step with parameter servers: laws, numbers by hand, what is refused."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.parameter_servers.configuration import (
    NOTHING,
    PsConfiguration,
    checked_configuration,
)
from goodalloc.models.parameter_servers.slowdown import CoreEfficiency, GpuShare
from goodalloc.models.parameter_servers.step_time import (
    PsStepTime,
    StepTimeCoefficients,
    optimus_step_time,
    seconds_per_step,
    step_time_parts,
)
from goodalloc.models.parameter_servers.step_time_form import UPDATE_LOADS, StepTimeForm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THETA = (0.01, 0.5, 0.2, 0.03, 0.004)

coefficients = st.builds(
    StepTimeCoefficients,
    *[st.floats(0.0, 10.0)] * 2,
    st.floats(1e-3, 10.0),
    *[st.floats(0.0, 10.0)] * 4,
)
efficiencies = st.builds(
    CoreEfficiency, st.floats(0.1, 10.0), st.floats(0.0, 0.09), st.floats(0.0, 5.0)
)
shares = st.builds(GpuShare, st.floats(0.01, 5.0), st.floats(0.0, 5.0), st.floats(0.0, 1.0))
forms = st.builds(
    StepTimeForm,
    st.booleans(),
    st.sampled_from(UPDATE_LOADS),
    st.floats(0.5, 50.0),
    efficiencies,
    efficiencies,
    shares,
    shares,
    st.floats(0.0, 1.0),
)
step_times = st.builds(PsStepTime, coefficients, forms)
gpus = st.one_of(st.just(0.0), st.floats(0.01, 1.0), st.integers(1, 8).map(float))
configurations = st.builds(
    PsConfiguration,
    st.integers(1, 30),
    st.integers(1, 30),
    st.floats(0.1, 32.0),
    st.floats(0.1, 32.0),
    gpus,
)
batches = st.integers(1, 4096)


def test_optimus_by_hand() -> None:
    """0.01 * 32/4 + 0.5 + 0.2 * 4/2 + 0.03 * 4 + 0.004 * 2; asynchronous a quarter of the rest."""
    configuration = PsConfiguration(2, 4)
    together = optimus_step_time(THETA, synchronous=True)
    assert seconds_per_step(together, configuration, 32) == pytest.approx(1.108, rel=1e-12)
    alone = optimus_step_time(THETA[1:], synchronous=False)
    assert seconds_per_step(alone, configuration, 32) == pytest.approx(1.028 / 4, rel=1e-12)


@pytest.mark.parametrize(
    ("load", "update"), [("every_worker", 3.0 * 1.5), ("averaged", 3.0 / 4), ("constant", 3.0)]
)
def test_the_parts_by_hand(load: str, update: float) -> None:
    """Two CPU cores of efficiency 2/3, servers of 0.8, half the bandwidth; M = 60, w = 6, p = 4."""
    form = StepTimeForm(
        update_load=load,  # type: ignore[arg-type]
        cpu_slowdown=8.0,
        worker_cores=CoreEfficiency(3.0, 4.0, math.log(2.0)),  # 3 - 4 / 2^2 = 2 of 3
        server_cores=CoreEfficiency(1.0, 0.2, 0.0),
    )
    parameters = PsStepTime(StepTimeCoefficients(0.1, 2.0, 1.0, 0.8 * 3.0, 0.01, 0.02, 7.0), form)
    found = step_time_parts(parameters, PsConfiguration(4, 6, 1, 2, 0), 60, bandwidth=0.5)
    assert found == pytest.approx((8 * 1.5 * (1.0 + 2.0), 2 * 1.5, update, 0.06, 0.08, 0.0))


def test_the_gpus_of_a_worker_share_its_examples() -> None:
    """Forward and backward of 12 examples on 1/4, 1 and 3 GPUs; a part of a GPU counts as one."""
    form = StepTimeForm(
        forward_share=GpuShare(1.0, 0.0, 0.0),  # a quarter takes 4 times as long
        backward_share=GpuShare(1.0, 0.25, 0.0),  # 2.5 times as long
        forward_part=0.4,
    )
    parameters = PsStepTime(StepTimeCoefficients(1.0, 5.0, 0.0, gpu=2.0), form)
    found = step_time_parts(
        parameters, PsConfiguration(1, 2, worker_gpus=np.array([0.25, 1.0, 3.0])), 24
    )
    slow = 0.4 * 4.0 + 0.6 * 2.5
    assert found.forward_backward == pytest.approx([slow * 17.0, 17.0, 9.0])
    assert found.aggregation == pytest.approx([2.0, 2.0, 6.0])


@given(step_times, configurations, batches, st.floats(0.01, 10.0))
def test_the_parts_add_up(
    parameters: PsStepTime, configuration: PsConfiguration, batch: int, bandwidth: float
) -> None:
    """No part is negative, and the step takes time."""
    parts = step_time_parts(parameters, configuration, batch, bandwidth)
    seconds = seconds_per_step(parameters, configuration, batch, bandwidth)
    assert sum(parts) == pytest.approx(seconds, rel=1e-12)
    assert min(parts) >= 0 < seconds < math.inf


@given(step_times, configurations, batches, st.floats(0.1, 10.0))
def test_a_step_scales_with_its_coefficients(
    parameters: PsStepTime, configuration: PsConfiguration, batch: int, factor: float
) -> None:
    """It is linear in them."""
    scaled = StepTimeCoefficients(*(factor * value for value in parameters.coefficients))
    assert seconds_per_step(
        PsStepTime(scaled, parameters.form), configuration, batch
    ) == pytest.approx(factor * seconds_per_step(parameters, configuration, batch), rel=1e-9)


@given(step_times, configurations, batches, st.floats(1.0, 20.0))
def test_more_cores_or_bandwidth_never_slow_a_step_down(
    parameters: PsStepTime, configuration: PsConfiguration, batch: int, factor: float
) -> None:
    """Of servers, of workers, of the network."""
    before = seconds_per_step(parameters, configuration, batch)
    for field in ("server_cores", "worker_cores"):
        more = configuration._replace(**{field: factor * getattr(configuration, field)})
        assert seconds_per_step(parameters, more, batch) <= before * (1 + 1e-12)
    assert seconds_per_step(parameters, configuration, batch, factor) <= before * (1 + 1e-12)


@given(step_times, configurations, batches, st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_more_of_a_gpu_never_slows_a_step_down(
    parameters: PsStepTime, configuration: PsConfiguration, batch: int, one: float, other: float
) -> None:
    """Of parts of a GPU up to a whole one."""
    less, more = (
        seconds_per_step(parameters, configuration._replace(worker_gpus=part), batch)
        for part in sorted((one, other))
    )
    assert more <= less * (1 + 1e-12)


@given(step_times, configurations, batches, batches)
def test_more_examples_never_speed_a_step_up(
    parameters: PsStepTime, configuration: PsConfiguration, one: int, other: int
) -> None:
    """With the same configuration."""
    fewer, more = sorted((one, other))
    assert seconds_per_step(parameters, configuration, fewer) <= seconds_per_step(
        parameters, configuration, more
    ) * (1 + 1e-12)


@given(step_times, st.lists(configurations, min_size=1, max_size=6), batches)
def test_many_configurations_are_each_as_if_alone(
    parameters: PsStepTime, rows: list[PsConfiguration], batch: int
) -> None:
    """Arrays give what the single configurations give, batch sizes and bandwidths included."""
    many = PsConfiguration(*(np.array(column) for column in zip(*rows, strict=True)))
    alone = [float(seconds_per_step(parameters, row, batch, 0.5)) for row in rows]
    sizes, bandwidths = np.full(len(rows), batch), np.full(len(rows), 0.5)
    assert seconds_per_step(parameters, many, sizes, bandwidths) == pytest.approx(alone, rel=1e-12)
    grid = seconds_per_step(parameters, many, sizes[:, np.newaxis], 0.5)
    assert grid.shape == (len(rows), len(rows))
    assert np.asarray(many.take(np.array([0])).servers).tolist() == [rows[0].servers]


@given(step_times, configurations, batches)
def test_asynchronous_workers_end_a_step_each(
    parameters: PsStepTime, configuration: PsConfiguration, batch: int
) -> None:
    """As many in the time of one synchronous step of as many examples a worker."""
    coefficients, form = parameters.coefficients, parameters.form
    rest = {name: getattr(form, name) for name in form.__slots__ if name != "synchronous"}
    together, alone = (
        PsStepTime(coefficients, StepTimeForm(flag, **rest)) for flag in (True, False)
    )
    workers = configuration.workers
    assert seconds_per_step(alone, configuration, batch) * workers == pytest.approx(
        seconds_per_step(together, configuration, batch * workers), rel=1e-9
    )


def test_a_job_that_does_not_train_takes_forever() -> None:
    """Without anything; on CPU workers of which nothing is known."""
    parameters = optimus_step_time(THETA, synchronous=True)
    configuration = PsConfiguration(
        np.array([0, 1, 1]), np.array([0, 1, 1]), worker_gpus=np.array([1, 0, 1])
    )
    assert seconds_per_step(parameters, configuration, 8).tolist()[:2] == [math.inf] * 2
    assert np.isfinite(seconds_per_step(parameters, configuration, 8)[2])
    parts = step_time_parts(parameters, NOTHING, 8)
    assert tuple(map(float, parts)) == (math.inf, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_nothing_is_asked_of_cores_that_are_not_used() -> None:
    """The zero configuration may have few, or none."""
    form = StepTimeForm(cpu_slowdown=2.0, worker_cores=CoreEfficiency(1.0, 2.0, 1.0))
    parameters = PsStepTime(StepTimeCoefficients(compute=1.0), form)
    for gpus_each in (0, 1):
        nothing = PsConfiguration(0, 0, 0, 0, gpus_each)
        assert seconds_per_step(parameters, nothing, 8) == math.inf
    assert seconds_per_step(parameters, PsConfiguration(1, 1, 0.1, 0.1, 1), 8) == 1.0


def test_totals_of_a_configuration() -> None:
    """2 servers of 3 cores and 4 workers of 5 cores and a quarter of a GPU."""
    configuration = PsConfiguration(2, 4, 3, 5, 0.25)
    found = (configuration.cores, configuration.gpus, configuration.nothing)
    assert [*map(float, found)] == [26, 1.0, False]
    assert [*map(float, (NOTHING.cores, NOTHING.gpus, NOTHING.nothing))] == [0, 0, True]
    many = PsConfiguration(np.array([0, 1]), np.array([0, 2]), 1, 2, 1)
    assert many.cores.tolist() == [0, 5]
    assert many.nothing.tolist() == [True, False]


@given(efficiencies, shares, st.floats(0.01, 1.0))
def test_a_slowdown_is_at_least_one(
    efficiency: CoreEfficiency, share: GpuShare, part: float
) -> None:
    """And 1 with any number of cores, or a whole GPU."""
    assert efficiency.slowdown(10 * part) >= 1.0
    assert share.slowdown(part) >= 1.0 - 1e-12
    assert share.slowdown(1.0) == 1.0
    if efficiency.rate > 0.1:
        assert efficiency.slowdown(1e4) == pytest.approx(1.0)


def rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table."""
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_all_published_curves_but_one_are_accepted(reference: Path) -> None:
    """The efficiency of servers of mobilenet falls with their cores; parts of GPUs are all good."""
    folder = reference / "aiturbo-vgpu-params"
    refused = []
    for file in ("cpu_ps.csv", "cpu_worker.csv"):
        for row in rows(folder / file):
            try:
                curve = CoreEfficiency(float(row["d"]), -float(row["a"]), float(row["b"]))
            except ValueError:
                refused.append((file, row["model"]))
            else:
                assert (np.diff(curve.slowdown(np.arange(1, 33))) <= 0).all()
    assert refused == [("cpu_ps.csv", "mobilenet")]
    for file in ("forward.csv", "backward.csv"):
        for row in rows(folder / file):
            curve_of_share = GpuShare(*(float(row[name]) for name in ("b0", "b1", "b2")))
            assert curve_of_share.slowdown(0.5) > 1.0


def test_published_coefficients_are_refused(reference: Path) -> None:
    """The follow-on fits without bounds: every model of its first table has a negative one."""
    for row in rows(reference / "aiturbo-vgpu-params" / "worker_gpu_speed.csv"):
        with pytest.raises(ValueError, match=r"^Step time: \w+ is -.*expected a finite number of"):
            PsStepTime(StepTimeCoefficients(*(float(row[f"t{i}"]) for i in range(7))))


def step(**changes: Any) -> object:
    """Seconds of a good configuration but for the changes."""
    given: dict[str, Any] = {"servers": 2, "workers": 3, **changes}
    batch, bandwidth = given.pop("batch", 32), given.pop("bandwidth", 1.0)
    parameters = optimus_step_time(THETA, synchronous=True)
    return seconds_per_step(parameters, PsConfiguration(**given), batch, bandwidth)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: step(servers=-1), r"servers is -1.0; expected 0 or more"),
    (lambda: step(servers=math.nan), r"servers is nan"),
    (lambda: step(servers=math.inf), r"servers is inf; .*at most 2147483647"),
    (lambda: step(servers=1.5), r"servers is 1.5; expected a whole number"),
    (lambda: step(servers=0), r"servers is 0.0; expected 1 or more for the workers"),
    (lambda: step(workers=0), r"workers is 0.0; expected 1 or more for the servers"),
    (lambda: step(workers=[1, 2, 2.5]), r"Configuration\[2\]: workers is 2.5"),
    (lambda: step(workers="three"), r"workers is 'three'; expected a finite number"),
    (lambda: step(workers=None), r"workers is null"),
    (lambda: step(workers=[[1, 2], [3]]), r"workers is \[\[1, 2\], \[3\]\]"),
    (lambda: step(workers=[1, 2], servers=[1, 2, 3]), r"shapes are servers \(3,\), workers \(2,\)"),
    (lambda: step(server_cores=0), r"server_cores is 0.0; expected above 0"),
    (lambda: step(worker_cores=0), r"worker_cores is 0.0; expected above 0"),
    (lambda: step(worker_gpus=1.5), r"worker_gpus is 1.5; expected a part of one GPU or a whole"),
    (lambda: step(worker_gpus=-0.5), r"worker_gpus is -0.5"),
    (lambda: step(batch=0), r"batch_size is 0; expected a finite number above 0"),
    (lambda: step(batch=[32, math.nan]), r"Step time\[1\]: batch_size is nan"),
    (lambda: step(bandwidth=0.0), r"bandwidth is 0.0"),
    (lambda: step(bandwidth="fast"), r"bandwidth is 'fast'"),
    (lambda: optimus_step_time(THETA, synchronous=False), r"5 coefficients; expected 4"),
    (lambda: optimus_step_time((1, 1, -1, 1), synchronous=False), r"worker is -1; .* least 0"),
    (lambda: PsStepTime(StepTimeCoefficients()), r"would take no time; expected one above 0"),
    (lambda: PsStepTime(StepTimeCoefficients(gpu=1.0)), r"all coefficients but gpu are 0"),
    (lambda: PsStepTime(StepTimeCoefficients(math.nan, 1.0)), r"per_example is nan"),
    (lambda: PsStepTime(StepTimeCoefficients(1e10)), r"per_example is 1e\+10; expected at most"),
    (lambda: StepTimeForm(synchronous=1), r"synchronous is 1; expected true or false"),  # type: ignore[arg-type]
    (lambda: StepTimeForm(update_load="any"), r"update_load is 'any'; expected one of every"),  # type: ignore[arg-type]
    (lambda: StepTimeForm(cpu_slowdown=0.0), r"cpu_slowdown is 0.0"),
    (lambda: StepTimeForm(cpu_slowdown=math.nan), r"cpu_slowdown is nan"),
    (lambda: StepTimeForm(forward_part=1.1), r"forward_part is 1.1; expected 0 to 1"),
    (lambda: CoreEfficiency(0.0), r"best is 0.0; expected a finite number above 0"),
    (lambda: CoreEfficiency(1.0, -0.1), r"drop is -0.1"),
    (lambda: CoreEfficiency(1.0, 0.1, -1.0), r"rate is -1.0"),
    (
        lambda: CoreEfficiency(1.0, 2.0, 1.0).slowdown(np.array([1, 0.5])),
        r"\[1\]: cores is 0.5; expected so",
    ),
    (lambda: GpuShare(-1.0), r"scale is -1.0"),
    (lambda: GpuShare(1.0, -0.5), r"shift is -0.5"),
    (lambda: GpuShare(1.0, 1.0, -0.5), r"time on a whole GPU is 0.0"),
    (lambda: checked_configuration(PsConfiguration(1, 0), "Job 'a'"), r"^Job 'a': workers is 0.0"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], object], words: str) -> None:
    """With the item, its value and what was expected."""
    with pytest.raises(ValueError, match=words) as refusal:
        call()
    assert str(refusal.value).endswith(".")
