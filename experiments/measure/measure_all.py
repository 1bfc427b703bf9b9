"""What a machine trains at: every task that ships, its restarts, and pairs that share a device.

On a machine with GPUs these are all tasks, in single precision with and without rounded products
and in bfloat16; on CPUs the small ones, as they are.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.experiments.measure.execution import PLAIN, Execution, Precision
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.experiments.tasks.task import SMALL, TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.experiments.measure.devices import Devices

#: Restarts of each training, and seconds of each run of a pair.
RESTARTS, PAIR_SECONDS = 2, 1.0

#: Parts of a restart, in their order, and what each does.
PARTS = {
    "save_s": "save",
    "start_s": "start Python, PyTorch and the device",
    "build_s": "make the model",
    "load_s": "load",
    "first_step_s": "first step",
}


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


#: Columns of each table that are shown.
COLUMNS: Mapping[str, Sequence[str]] = {
    "speeds": BestSpeed._fields,
    "restarts": ("model", "checkpoint_mib", *PARTS, "step_s", "lost_s"),
    "pairs": ("model", "beside", "rate", "rate_half_width", "loss", "busy", "beside_busy", "quiet"),
}


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
    return {f"{task}-{way.precision}": (task, way) for task in trainings(devices) for way in ways}


def trainings(devices: Devices) -> tuple[str, ...]:
    """Return the names of the tasks that a machine trains: all on GPUs, the small ones on CPUs.

    Parameters
    ----------
    devices
        Devices of this machine.
    """
    return tuple(TASKS) if devices.gpus else SMALL


def pairs(devices: Devices) -> list[tuple[str, str]]:
    """Return the trainings to measure beside each other.

    Every small one beside every other; on GPUs also each of real size beside the next, and the last
    beside the first.

    Parameters
    ----------
    devices
        Devices of this machine.

    Examples
    --------
    >>> from goodalloc.experiments.measure import CPUS, pairs
    >>> pairs(CPUS)[:2]
    [('resnet', 'transformer'), ('resnet', 'neumf')]
    """
    large = [name for name in trainings(devices) if name not in SMALL]
    return [*combinations(SMALL, 2), *zip(large, large[1:] + large[:1], strict=True)]


class Continued(NamedTuple):
    """Table of measurements as far as they succeeded.

    Attributes
    ----------
    rows
        Rows of the device, each a mapping from column to value, blank cells None.
    failures
        A sentence for each that failed.
    """

    rows: list[dict[str, Any]]
    failures: list[str]


def continue_table(
    path: Path,
    device: str,
    keys: Sequence[str],
    wanted: Sequence[tuple[str, ...]],
    measure: Callable[..., list[dict[str, Any]]],
    report: Callable[[], object] = lambda: None,
) -> Continued:
    """Measure what a table lacks, and write it after each measurement.

    Rows of other measurements, as of another device, stay.

    Parameters
    ----------
    path
        Table as CSV, which need not exist.
    device
        Name of the device, in the column `device`.
    keys
        Columns that tell its measurements apart.
    wanted
        Values of `keys` of each measurement.
    measure
        Function of these values that returns one or more rows, the first of which has them and the
        device.
    report
        Callback after each measurement.

    Raises
    ------
    ValueError
        If there is a file that has no such columns.
    """
    rows, failures = list[dict[str, Any]](), list[str]()
    if path.exists():
        names = ("device", *keys)
        read_table(path, names, least=0)
        found = pd.read_csv(path, dtype=dict.fromkeys(names, str))
        cells = found.astype(object).where(found.notna(), None).to_numpy().tolist()
        rows = [dict(zip(found.columns, row, strict=True)) for row in cells]
    done = {tuple(row[key] for key in keys) for row in rows if row["device"] == device}
    for values in wanted:
        if values not in done:
            try:
                rows += measure(*values)
            except (ValueError, ProcessEnded) as error:
                failures.append(str(error))
            else:
                write_atomically(path, csv_text(rows, tuple(rows[-1])))
        report()
    return Continued([row for row in rows if row["device"] == device], failures)


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


def pictures(
    speeds: Sequence[BestSpeed],
    restarts: Sequence[Mapping[str, Any]],
    pairs_beside: Sequence[Mapping[str, Any]],
) -> dict[str, Figure]:
    """Return the pictures of what was measured, by the name of its table.

    Parameters
    ----------
    speeds
        As of `best_speeds`.
    restarts, pairs_beside
        Rows of the other tables.
    """
    drawn = {"speeds": plot_speeds(speeds)} if speeds else {}
    if restarts:
        drawn["restarts"] = plot_restarts(restarts)
    if pairs_beside:
        drawn["pairs"] = plot_pairs(pairs_beside)
    return drawn


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


def plot_restarts(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw what a restart of each training takes, part after part, a mean over its restarts.

    Parameters
    ----------
    rows
        Restarts, with the columns of `data/FORMAT.md`.
    """
    from matplotlib.figure import Figure

    means = pd.DataFrame(rows).groupby("model", sort=False)[[*PARTS]].mean()
    figure = Figure(figsize=(7.0, 1.6 + 0.3 * len(means)), layout="constrained")
    ax = figure.subplots()
    ends = means.cumsum(axis="columns")
    for (part, words), colour in zip(PARTS.items(), COLOURS, strict=False):
        left = ends[part] - means[part]
        ax.barh(means.index, means[part], left=left, color=colour, label=words)
    ax.invert_yaxis()
    open_axes(ax)
    ax.set_xlabel("seconds of a restart")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def plot_pairs(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the speed of each training beside another, with the fair share of the device.

    Parameters
    ----------
    rows
        Trainings beside each other, with the columns of `data/FORMAT.md`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.0 + 0.22 * len(rows)), layout="constrained")
    ax = figure.subplots()
    places = range(len(rows))
    rates, widths = ([row[name] for row in rows] for name in ("rate", "rate_half_width"))
    fair = [min(1.0, 1.0 / (row["busy"] + row["beside_busy"])) for row in rows]
    ax.errorbar(rates, places, xerr=widths, fmt="o", color=COLOURS[0], label="measured")
    ax.plot(fair, places, "|", color=COLOURS[1], markersize=12, label="fair share, without loss")
    ax.set_yticks(places, [f"{row['model']} beside {row['beside']}" for row in rows])
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    open_axes(ax)
    ax.set_xlabel("speed over that alone")
    ax.legend(frameon=False, fontsize="small")
    return figure
