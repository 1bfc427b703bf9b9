"""Parts of profiled steps: what overlaps, what is idle, and whose events count."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.measure.peak_memory import PeakMemory
from goodalloc.experiments.measure.step_parts import (
    AVERAGING,
    Event,
    covered,
    parts_of_step,
    profile_steps,
    read_events,
)
from goodalloc.experiments.support.device_clock import HostClock
from goodalloc.experiments.tasks.task import find_task

if TYPE_CHECKING:
    from pathlib import Path

STEP = Event("goodalloc.step", 10.0, 40.0, on_gpu=False)

#: Intervals of whole seconds, some of them outside the step.
INTERVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), max_size=8)


@given(intervals=INTERVALS)
def test_intervals_that_overlap_count_once(intervals: list[list[int]]) -> None:
    """As seconds that are ticked off one by one."""
    ticked = {tick for begin, end in intervals for tick in range(begin, end)}
    assert covered([(begin, end) for begin, end in intervals]) == len(ticked)


@pytest.mark.parametrize("cuda", [False, True])
@given(computed=INTERVALS, averaged=INTERVALS, other=INTERVALS)
def test_overlap_and_idle_are_those_of_seconds_that_are_ticked_off(
    computed: list[list[int]], averaged: list[list[int]], other: list[list[int]], cuda: bool
) -> None:
    """Within the step; what the other kind of device does does not count."""
    compute = "ampere_sgemm_64x64" if cuda else "aten::addmm"
    average = AVERAGING[-1] if cuda else AVERAGING[0]
    events = [
        *(Event(compute, begin, end, on_gpu=cuda) for begin, end in computed),
        *(Event(average, begin, end, on_gpu=cuda, annotation=True) for begin, end in averaged),
        *(Event("aten::mm", begin, end, on_gpu=not cuda) for begin, end in other),
        Event("DistributedDataParallel.forward", 0.0, 50.0, on_gpu=False),
        Event("Memcpy HtoD (Pageable -> Device)", 0.0, 50.0, on_gpu=cuda),
        Event("DistributedDataParallel.forward", 10.0, 40.0, on_gpu=cuda, annotation=True),
    ]
    found = parts_of_step(events, STEP, (3.0, 6.0, 9.0, 12.0), cuda=cuda)
    inside = set(range(10, 40))
    busy, waits = (
        {tick for begin, end in own for tick in range(begin, end)} & inside
        for own in (computed, averaged)
    )
    assert found[:4] == (3.0, 6.0, 9.0, 12.0)
    assert found.synchronisation == len(waits)
    assert found.overlap == len(busy & waits)
    assert found.idle == len(inside - busy - waits)


def test_real_steps_are_told_apart_and_their_trace_is_kept(tmp_path: Path) -> None:
    """Every part that happens takes time; a viewer's file has the operations."""
    torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")
    task = find_task("perceptron")
    module = task.make_module()
    optimiser = task.make_optimiser(module.parameters())
    generator = torch.Generator().manual_seed(0)

    def step(mark: object) -> None:
        assert callable(mark)
        batch = task.draw_batch(64, generator)
        mark()
        loss = task.loss(module, batch)
        mark()
        loss.backward()
        mark()
        optimiser.step()
        optimiser.zero_grad()

    trace = tmp_path / "trace.json.gz"
    found = profile_steps(step, 3, HostClock(), cuda=False, trace=trace)
    assert len(found) == 3
    for parts in found:
        assert min(parts.loading, parts.forward, parts.backward, parts.optimiser) > 0.0
        assert parts.synchronisation == parts.overlap == 0.0
        whole = parts.loading + parts.forward + parts.backward + parts.optimiser
        assert 0.0 <= parts.idle < whole * 1.05
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"aten::addmm", "goodalloc.step"} <= names


def test_the_profile_of_a_gpu_is_told_apart_by_kinds(tmp_path: Path) -> None:
    """Kernels, copies and annotations of the GPU; calls of the runtime and arrows are left out."""
    kinds = {
        "cpu_op": "aten::mm",
        "user_annotation": "goodalloc.step",
        "kernel": "ampere_sgemm_64x64",
        "gpu_memcpy": "Memcpy HtoD (Pageable -> Device)",
        "gpu_user_annotation": "goodalloc.step",
        "cuda_runtime": "cudaLaunchKernel",
    }
    listed = [
        {"ph": "X", "cat": cat, "name": name, "ts": 2e6 + place, "dur": 1e6}
        for place, (cat, name) in enumerate(kinds.items())
    ]
    listed.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 1.0})
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"traceEvents": listed}), encoding="utf-8")
    found = read_events(path)
    assert [one.name for one in found] == list(kinds.values())[:5]
    assert [one.on_gpu for one in found] == [False, False, True, True, True]
    assert [one.annotation for one in found] == [False, True, False, False, True]
    assert found[0][1:3] == pytest.approx((2.0, 3.0))
    parts = parts_of_step(found, found[1], (0.5, 0.5, 0.5, 0.5), cuda=True)
    assert parts.idle == pytest.approx(1.0, abs=1e-5)  # one second of the kernel, of two


def test_the_peak_of_memory_begins_anew() -> None:
    """What was freed before does not count; what is freed at once does."""
    torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")
    cpu = torch.device("cpu")
    large = np.ones(2**25)  # 256 MiB
    before = PeakMemory(cpu).mib()
    del large
    after = PeakMemory(cpu)
    low = after.mib()
    if before is None or low is None:
        pytest.skip("this system does not tell the peak of a process")
    assert low < before - 200.0
    np.ones(2**25).sum()
    high = after.mib()
    assert high is not None
    assert high > low + 200.0
