r"""Parts of a step as the profiler sees them: what computes, what synchronises, and both at once.

A step is a batch drawn and moved to the device (*loading*), a forward pass, a backward pass during
which the gradients are averaged, and an update by the optimiser. Between marks these are told apart
by the clock of the device; the averaging and the operations of the module by their intervals in the
profile. With *C* the time that operations cover, *S* that of the averaging, and *U* that of either,

.. math:: \text{overlap} = C + S - U, \qquad \text{idle} = T - U,  (1)

where *T* is the time of the step by the clock of the device. What copies a batch to a GPU is no
operation of the module. Of Pollux's model (OSDI'21, section 3.2) *S* is
:math:`T_{sync}`, and the overlap is what :math:`\gamma` stands for.
"""

from __future__ import annotations

import gzip
import itertools
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goodalloc.experiments.support.device_clock import DeviceClock

#: Names of the averaging of gradients in a profile, on CPUs and on GPUs.
GLOO = "gloo:all_reduce"
AVERAGING = (GLOO, "nccl:all_reduce", "ncclDevKernel_AllReduce")

#: Name of a step in a profile; start of the names of operations on CPUs, and of copies to a GPU.
STEP, OPERATION, LOADING = "goodalloc.step", "aten::", "Memcpy HtoD"

#: Kinds of the events of a profile: of the host, of a GPU, and those that are annotations.
HOST_KINDS = ("cpu_op", "user_annotation")
GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
KINDS, ANNOTATIONS = (*HOST_KINDS, *GPU_KINDS), ("user_annotation", "gpu_user_annotation")

#: Microseconds of a second, the unit of profiles.
MICROSECONDS = 1e6

Interval = tuple[float, float]


class StepParts(NamedTuple):
    """Seconds of the parts of a step; `overlap` is in `backward` and `synchronisation` as well."""

    loading: float
    forward: float
    backward: float
    optimiser: float
    synchronisation: float
    overlap: float
    idle: float

    @property
    def busy(self) -> float:
        """Seconds for which the device computes, or synchronises; profiling does not delay them."""
        return self.loading + self.forward + self.backward + self.optimiser - self.idle


class Event(NamedTuple):
    """Interval of a profile, in seconds, of a GPU or the host.

    An annotation is no work, unless it is that of the averaging.
    """

    name: str
    begin: float
    end: float
    on_gpu: bool
    annotation: bool = False


def profile_steps(
    step: Callable[[Callable[[], None]], object],
    repetitions: int,
    clock: DeviceClock,
    *,
    cuda: bool,
    trace: Path | None = None,
) -> list[StepParts]:
    """Run steps under `torch.profiler` and return the parts of each; none if it is missing.

    Parameters
    ----------
    step
        Function that runs a step. It calls its argument after loading, the forward and the
        backward pass.
    repetitions
        Number of steps.
    clock
        Clock of the device.
    cuda
        Whether the device is a GPU.
    trace
        File for the profile in Chrome's format, which viewers read; None to keep none.
    """
    try:
        from torch.profiler import ProfilerActivity, profile, record_function
    except ImportError:
        return []
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    timed = []
    with profile(activities=activities) as profiled:
        step(lambda: None)  # while the profiler gets ready
        for _ in range(repetitions):
            with record_function(STEP):
                marks = [clock.mark()]
                step(lambda marks=marks: marks.append(clock.mark()))  # type: ignore[misc]
                marks.append(clock.mark())
                # waits for the device, so that all work of a step is within its interval
                timed.append([clock.seconds(*pair) for pair in itertools.pairwise(marks)])
    with tempfile.TemporaryDirectory() as folder:
        # PyTorch takes seconds to make its own events of those that it writes at once
        kept = Path(folder) / "profile.json" if trace is None else trace
        profiled.export_chrome_trace(str(kept))
        events = read_events(kept)
    steps = sorted(one for one in events if one.name == STEP and not one.on_gpu)
    return [
        parts_of_step(events, within, seconds, cuda=cuda)
        for within, seconds in zip(steps, timed, strict=True)
    ]


def parts_of_step(
    events: Iterable[Event], step: Event, seconds: Sequence[float], *, cuda: bool
) -> StepParts:
    """Return the parts of a step.

    Parameters
    ----------
    events
        Events of the profile.
    step
        The event that holds the step.
    seconds
        Seconds of loading, forward pass, backward pass and update.
    cuda
        Whether a GPU computes: then its kernels count, else the operations on CPUs.
    """
    averaged, computed = list[Interval](), list[Interval]()
    for one in events:
        on_host = one.name.startswith(GLOO)  # also where a GPU computes
        if one.begin >= step.end or one.end <= step.begin or not (one.on_gpu == cuda or on_host):
            continue
        inside = (max(one.begin, step.begin), min(one.end, step.end))
        if one.name.startswith(AVERAGING):
            averaged.append(inside)
        elif one.annotation or one.name.startswith(LOADING):
            continue
        elif cuda or one.name.startswith(OPERATION):
            computed.append(inside)
    compute, synchronisation = covered(computed), covered(averaged)
    union = covered([*computed, *averaged])
    loading, forward, backward, optimiser = seconds
    return StepParts(
        loading,
        forward,
        backward,
        optimiser,
        synchronisation=synchronisation,
        overlap=max(compute + synchronisation - union, 0.0),
        idle=max(sum(seconds) - union, 0.0),
    )


def covered(intervals: Iterable[Interval]) -> float:
    """Return the length of the union of intervals, each (begin, end).

    Examples
    --------
    >>> from goodalloc.experiments.measure.step_parts import covered
    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


def read_events(path: Path) -> list[Event]:
    """Return the work and the annotations of a profile in Chrome's format, in their order.

    Parameters
    ----------
    path
        The file, compressed if its name ends in ``.gz``.
    """
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [
        Event(
            one["name"],
            one["ts"] / MICROSECONDS,
            (one["ts"] + one["dur"]) / MICROSECONDS,
            one["cat"] in GPU_KINDS,
            one["cat"] in ANNOTATIONS,
        )
        for one in json.loads(text)["traceEvents"]
        if one.get("cat") in KINDS and "dur" in one
    ]
