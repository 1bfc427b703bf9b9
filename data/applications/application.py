"""True behaviour of an application, which a replay lets its jobs experience.

Two sources stand behind one interface: the shipped profiles (`ProfiledApplication`, no outside
data) and the measurements of the Pollux artifact (`data/applications/traces.py`). Progress is
counted as there, in optimiser steps at the initial batch size M0; an epoch ends when its progress
is reached.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from goodalloc.data.applications.gpu_types import FIRST_TYPE, load_type_profile
from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.goodput.throughput_model import gradient_time, step_time

if TYPE_CHECKING:
    from goodalloc.data.applications.profiles import Profile, Restriction
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

#: GPUs on each node of a job, in some order; no zeros.
Spread = tuple[int, ...]


def packed(gpus: int, gpus_per_node: int = 4) -> Spread:
    """Return the GPUs on each node when `gpus` are packed on the fewest nodes.

    Examples
    --------
    >>> from goodalloc.data.applications import packed
    >>> packed(11)
    (4, 4, 3)
    """
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())


def examples_per_second(application: Application) -> float:
    """Return the true throughput on one GPU with the largest batch that fits on it.

    Examples
    --------
    >>> from goodalloc.data.applications import applications_of, examples_per_second
    >>> round(examples_per_second(applications_of(None)["cifar10"]))
    1393
    """
    atomic = int(application.batch.atomic_maximum)
    return atomic / application.step_times((1,), atomic).step


class PassTime(NamedTuple):
    """Seconds of a pass on one GPU: a fixed part, and a part for each example."""

    fixed: float
    per_example: float


def pass_time(application: Application) -> PassTime:
    """Return the line through passes with the smallest and the largest batch that fit on a GPU.

    The input of the next pass is prepared while examples are trained on, not during the fixed part
    (`models/goodput/input_pipeline.py` has it so for the jobs' predictions).

    Examples
    --------
    >>> from goodalloc.data.applications import applications_of, pass_time
    >>> fixed, per_example = pass_time(applications_of(None)["cifar10"])
    >>> fixed > 0, per_example > 0
    (True, True)
    """
    limits = application.batch
    least, most = int(limits.atomic_minimum), int(limits.atomic_maximum)
    short, long = (
        times.step - times.synchronisation
        for times in (application.step_times((1,), size) for size in (least, most))
    )
    slope = (long - short) / (most - least) if most > least else long / most
    slope = min(slope, short / least)
    return PassTime(short - least * slope, slope)


class StepTimes(NamedTuple):
    """Seconds of one pass with synchronisation, and of the part that is synchronisation.

    Examples
    --------
    >>> from goodalloc.data.applications import StepTimes
    >>> StepTimes(step=0.5, synchronisation=0.2).step
    0.5
    """

    step: float
    synchronisation: float


class Application(Protocol):
    """Protocol of the true behaviour of an application.

    Attributes
    ----------
    name
        Short name.
    batch
        Batch limits in examples.
    restriction
        Batch size and replicas that Pollux fixes; None for neither.
    epochs
        Length of the training in epochs.
    slowdown
        Factor of the training time over the times of the passes.
    restart_delay
        Seconds of a restart; None for the replay's setting.
    """

    @property
    def name(self) -> str: ...

    @property
    def batch(self) -> BatchLimits: ...

    @property
    def restriction(self) -> Restriction | None: ...

    @property
    def epochs(self) -> int: ...

    @property
    def slowdown(self) -> float: ...

    @property
    def restart_delay(self) -> float | None: ...

    def on(self, gpu_type: str) -> Application:
        """Return the application on a type of GPU; an empty name stands for the only type.

        Raises
        ------
        ValueError
            If nothing is known of it on that type.
        """
        ...

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Return the times of a pass on the GPUs of `spread` with this many examples per GPU."""
        ...

    def gradient_statistics(self, batch_size: int, epoch: int) -> GradientStatistics:
        """Return the gradient statistics at a total batch size in an epoch, counted from 0."""
        ...

    def progress(self, epoch: int) -> float:
        """Return the cumulative progress at the end of an epoch, counted from 0."""
        ...

    def steps(self, batch_size: int, epoch: int) -> float:
        """Return the optimiser steps at a total batch size to the end of an epoch (from 0)."""
        ...


class ProfiledApplication:
    """True behaviour by a shipped profile: its fitted throughput and gradient statistics.

    Parameters
    ----------
    profile
        The profile.
    """

    slowdown = 1.0
    restart_delay = None

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.name = profile.name
        self.batch = profile.batch
        self.restriction = profile.restriction
        self.epochs = profile.epochs
        self._times: dict[tuple[int, int, int], StepTimes] = {}
        self._steps: dict[int, list[float]] = {}
        self._types: dict[str, Application] = {"": self, FIRST_TYPE: self}

    def on(self, gpu_type: str) -> Application:
        """Return the profile on that type."""
        if gpu_type not in self._types:
            self._types[gpu_type] = ProfiledApplication(load_type_profile(self.name, gpu_type))
        return self._types[gpu_type]

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Return the times by the fitted throughput model, for one node or several."""
        key = (min(len(spread), 2), sum(spread), atomic_batch_size)
        if key not in self._times:
            nodes, replicas, atomic = key
            parameters = self.profile.throughput
            step = float(step_time(parameters, nodes, replicas, atomic, 0.0))
            gradient = float(gradient_time(parameters, atomic))
            self._times[key] = StepTimes(step, step - gradient)
        return self._times[key]

    def gradient_statistics(self, batch_size: int, epoch: int) -> GradientStatistics:
        """Return the statistics of the epoch, linear between the measured batch sizes."""
        return self.profile.gradient_in_epoch(epoch, batch_size)

    def progress(self, epoch: int) -> float:
        """Return the cumulative progress of the profile at the end of an epoch."""
        return self._progress[epoch]

    @cached_property
    def _progress(self) -> list[float]:
        return [float(p) for p in self.profile.progress * self.profile.total_progress]

    def steps(self, batch_size: int, epoch: int) -> float:
        """Return the sum over epochs of their progress divided by the gain of a step."""
        if batch_size not in self._steps:
            initial = self.batch.initial
            gains = [
                float(adascale_gain(self.gradient_statistics(batch_size, e), initial, batch_size))
                for e in range(self.epochs)
            ]
            needed = np.diff(self._progress, prepend=0.0) / gains
            self._steps[batch_size] = np.cumsum(needed).tolist()
        return self._steps[batch_size][epoch]


@lru_cache(maxsize=1)
def profiled_applications() -> dict[str, Application]:
    """Return all applications with a shipped profile, by name."""
    return {name: ProfiledApplication(load_profile(name)) for name in application_names()}
