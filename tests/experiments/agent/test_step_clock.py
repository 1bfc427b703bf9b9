"""Seconds of passes on the clock of the device, which may work later than it is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.agent.pass_times import LEAST, Configuration, PassTimes
from goodalloc.experiments.agent.step_clock import WARM_UP, StepClock, TimedStep
from goodalloc.experiments.support.device_clock import CudaClock, HostClock, clock_of
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.throughput_model import (
    ThroughputParameters,
    gradient_time,
    step_time,
    synchronisation_time,
)
from tests.support.fake_device import FakeClock, FakeDevice

if TYPE_CHECKING:
    from typing import Any

    from goodalloc.experiments.support.device_clock import DeviceClock

WHERE = Configuration(1, 2, 8)


def test_a_clock_shares_the_update_among_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last pass waited for others is not shared; steps that warm up say nothing."""
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    clock = StepClock(HostClock(), 5)
    timed = [TimedStep(WHERE, 2.5, 5.5)]
    for step, waited, found in ((6, 3.0, []), (7, 3.0, []), (8, 3.0, timed), (9, 9.0, [])):
        clock.begin_step()
        clock.begin()
        for seconds in (2.0, 6.0):
            now += seconds
            clock.end()
        assert [*clock.end_step(WHERE, step, (now - waited, now))] == found


def test_the_host_does_not_wait_for_a_step_that_the_device_has_not_done() -> None:
    """It is read while a later one is under way."""
    device = FakeDevice()
    clock = StepClock(FakeClock(device), -WARM_UP)
    for step in (1, 2):
        clock.begin_step()
        clock.begin()
        device.launch(1.0)
        clock.end()
        assert not [*clock.end_step(Configuration(1, 1, step), step, None)]
    assert device.host < 1.0
    device.synchronise()
    clock.begin_step()
    clock.begin()
    device.launch(1.0)
    clock.end()
    found = [*clock.end_step(WHERE, 3, None)]
    assert [one.where.atomic for one in found] == [1, 2]
    assert [one.gradient for one in found] == pytest.approx([1.0, 1.0], rel=1e-3)


#: Truth of the tests below.
TRUTH = ThroughputParameters(
    alpha_grad=0.02,
    beta_grad=0.001,
    alpha_local=0.015,
    beta_local=0.001,
    alpha_node=0.03,
    beta_node=0.002,
    gamma=1.5,
)

#: Seconds of an update, which are part of those of a pass.
UPDATE = 0.002

PLACES = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8))


def measured(device: FakeDevice, clock: DeviceClock) -> PassTimes:
    """Steps of a training with overlapping synchronisation, which wait for the device once."""
    times, steps = PassTimes(), StepClock(clock, -WARM_UP)
    for nodes, replicas in PLACES:
        for size in (8, 16, 32, 64):
            for _ in range(LEAST + 1):
                steps.begin_step()
                steps.begin()
                alone = float(gradient_time(TRUTH, size))
                whole = float(step_time(TRUTH, nodes, replicas, size, 0.0))
                device.launch(0.3 * (alone - UPDATE))  # forward
                device.launch(0.7 * (alone - UPDATE))  # backward
                computed: Any = clock.mark()
                device.launch(whole - alone)  # of the exchange, what compute does not hide
                exchange = (computed, clock.mark()) if replicas > 1 else None
                device.synchronise()  # the agent reads the loss
                device.launch(UPDATE)
                steps.end()
                where = Configuration(nodes, replicas, size)
                for one in steps.end_step(where, 1, exchange):
                    times.record(*one)
    return times


def synchronisation(times: PassTimes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Fitted seconds of synchronisation on two replicas or more."""
    fitted = fit_throughput(pad_observations([times.table()])).parameters
    one = ThroughputParameters(*(float(np.asarray(value)[0]) for value in fitted))
    return np.array([float(synchronisation_time(one, *place)) for place in PLACES[1:]])


def test_synchronisation_on_an_asynchronous_device_is_recovered() -> None:
    """Within 5 % of the truth."""
    device = FakeDevice()
    found = synchronisation(measured(device, FakeClock(device)))
    truth = [float(synchronisation_time(TRUTH, *place)) for place in PLACES[1:]]
    assert found == pytest.approx(truth, rel=0.05)


def test_a_host_clock_on_an_asynchronous_device_misses_synchronisation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It times the launches: what the clock of the device is there for."""
    device = FakeDevice()
    monkeypatch.setattr(time, "perf_counter", lambda: device.host)
    found = synchronisation(measured(device, HostClock()))
    truth = np.array([float(synchronisation_time(TRUTH, *place)) for place in PLACES[1:]])
    assert (found[:2] < 0.01 * truth[:2]).all()  # on one node: as if it were free
    assert (abs(found / truth - 1.0) > 0.05).all()


def test_a_gpu_has_its_own_clock() -> None:
    """Whatever its index."""
    torch = pytest.importorskip("torch")
    assert isinstance(clock_of(torch.device("cuda", 1)), CudaClock)
    assert isinstance(clock_of(torch.device("cpu")), HostClock)


@pytest.mark.gpu
def test_events_measure_the_work_and_not_the_launches() -> None:
    """A product of large matrices takes longer than to launch it."""
    torch = pytest.importorskip("torch")
    clock, host = CudaClock(), HostClock()
    matrix = torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    begin, launched = clock.mark(), host.mark()
    for _ in range(10):
        matrix = matrix @ matrix / 100.0
    end, after = clock.mark(), host.mark()
    assert clock.seconds(begin, end) > host.seconds(launched, after)
    assert clock.reached(end)
