"""What a machine trains at: every task that ships, in every precision, and the best of each.

On a machine with GPUs these are all tasks, in single precision with and without rounded products
and in bfloat16; on CPUs the small ones, as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from goodalloc.experiments.measure.execution import PLAIN, Execution, Precision
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.tasks.task import SMALL, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.experiments.measure.devices import Devices


class BestSpeed(NamedTuple):
    """Fastest training of a task among the measured configurations.

    Attributes
    ----------
    task, precision, replicas
        What was trained.
    device
        The devices of the profile.
    largest_batch
        Largest measured number of examples per replica and pass.
    examples_per_second
        Of all replicas, in the fastest configuration.
    batch
        Examples per replica and pass in it.
    """

    task: str
    precision: str
    replicas: int
    device: str
    largest_batch: int
    examples_per_second: float
    batch: int


def everything(devices: Devices) -> dict[str, tuple[str, Execution]]:
    """Return tasks and how they compute, by the name of their profile.

    Parameters
    ----------
    devices
        Devices of this machine.

    Examples
    --------
    >>> from goodalloc.experiments.measure import CPUS, everything
    >>> [*everything(CPUS)]
    ['resnet-fp32', 'transformer-fp32', 'neumf-fp32', 'perceptron-fp32']
    """
    ways = [Execution(one) for one in get_args(Precision)] if devices.gpus else [PLAIN]
    tasks = TASKS if devices.gpus else SMALL
    return {f"{task}-{way.precision}": (task, way) for task in tasks for way in ways}


def best_speeds(profiles: Mapping[str, MeasuredProfile]) -> list[BestSpeed]:
    """Return the fastest configuration of every profile and number of replicas.

    Parameters
    ----------
    profiles
        Profiles by name.
    """
    found = []
    for one in profiles.values():
        passes = one.replicas * (one.accumulation_steps + 1)
        speed = passes * one.atomic_batch_size / one.step_time
        for replicas in np.unique(one.replicas).tolist():
            here = np.flatnonzero(one.replicas == replicas)
            best = int(here[np.argmax(speed[here])])
            found.append(
                BestSpeed(
                    one.facts["model"],
                    one.facts["precision"],
                    int(replicas),
                    one.facts["device"],
                    int(one.atomic_batch_size[here].max()),
                    rounded(float(speed[best]), 4),
                    int(one.atomic_batch_size[best]),
                )
            )
    return found


def plot_speeds(speeds: Sequence[BestSpeed]) -> Figure:
    """Draw the speeds of all tasks, a bar for every precision and number of replicas.

    Parameters
    ----------
    speeds
        The speeds.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.0 + 0.25 * len(speeds)), layout="constrained")
    ax = figure.subplots()
    ways = [*dict.fromkeys((one.precision, one.replicas) for one in speeds)]
    for look, (precision, replicas) in enumerate(ways):
        places = [
            place
            for place, one in enumerate(speeds)
            if (one.precision, one.replicas) == (precision, replicas)
        ]
        ax.barh(
            places,
            [speeds[place].examples_per_second for place in places],
            color=COLOURS[look % len(COLOURS)],
            label=f"{precision}, {replicas} replica{'s' * (replicas > 1)}",
        )
    ax.set_yticks(range(len(speeds)), [one.task for one in speeds], fontsize="small")
    ax.invert_yaxis()
    logarithmic(ax, "x")
    open_axes(ax)
    ax.set_xlabel("examples a second, in the fastest configuration")
    ax.legend(frameon=False, fontsize="small")
    return figure
