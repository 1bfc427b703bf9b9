"""Adaptive against fixed batch sizes: seconds of real training to the same validation target.

A network learns digits under an agent on one core, with every batch size of a grid kept to the end
and with rules that set it as they go. All scale the learning rate by AdaScale, but for AdaBatch,
whose schedule stands for it. Seconds are those of the loop without evaluations, fits in the agent's
child included where they slow it down. The best fixed batch size is the one with the least mean
over the seeds, found after the fact, as is the middle one; what finding it costs (all the other
runs) is not counted, nor is what `goodput, profiled` spends on timing passes at a few batch sizes
beforehand, which is a column of its own. Ratios are taken seed by seed.

The learning rate for M0 is far below what the network bears, so that training lasts long enough to
be timed. At such rates AdaScale is cautious: `digits_efficiency.py` has what it leaves.

Runs of a seed follow each other, and every seed begins with another contender, so that a change of
the machine hits all alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.estimates import estimate, estimated, shown_estimate
from goodalloc.experiments.reporting.plots import COLOURS, STYLES
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_run import DigitsRun
from goodalloc.experiments.studies.training.digits_training import DigitsJob, require_training
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: M of the grid; the first one is M0.
GRID = (16, 32, 64, 128, 256, 512, 1024)

#: Batch sizes at which passes are timed beforehand.
PROFILED = (16, 64, 256, 1024)

SEEDS, QUICK_SEEDS = 5, 2

#: Places by which the order of the contenders is shifted from seed to seed.
STRIDE = 5

JOB = DigitsJob("wide perceptron", rate=0.005, epochs=600, evaluate=512, decay=0.999)

#: Quick trainings have a larger rate, so fewer steps.
QUICK_RATE = 0.02


class Contender(NamedTuple):
    """What sets the batch size.

    Attributes
    ----------
    name
        For people.
    batch_rule
        As in `DigitsJob`.
    total
        M, where it is fixed.
    profiled
        Whether the throughput is known beforehand.
    learning_rate
        As in `DigitsJob`.
    """

    name: str
    batch_rule: str
    total: int | None = None
    profiled: bool = False
    learning_rate: str = "adascale"


CONTENDERS = (
    *(Contender(f"fixed {total}", "fixed", total) for total in GRID),
    Contender("goodput, profiled", "goodput", profiled=True),
    Contender("goodput", "goodput"),
    Contender("noise scale", "noise-scale"),
    Contender("CABS", "cabs"),
    Contender("AdaBatch", "adabatch", learning_rate="constant"),
)
ADAPTIVE = tuple(one.name for one in CONTENDERS if one.total is None)


def _run(plan: Plan, one: Contender, seed: int) -> DigitsRun:
    job = JOB._replace(
        batch_rule=one.batch_rule,
        total=one.total,
        learning_rate=one.learning_rate,
        seed=seed,
        rate=QUICK_RATE if plan.quick else JOB.rate,
    )
    task = DigitsRun(plan.folder, job, PROFILED if one.profiled else (), timed=True)
    return replace(task, folder=plan.folder / "adaptive" / digest(task.description()))


def _seeds(plan: Plan) -> range:
    return range(QUICK_SEEDS if plan.quick else SEEDS)


def _tasks(plan: Plan) -> list[DigitsRun]:
    """Seed by seed, each beginning with another contender."""
    return [
        _run(plan, CONTENDERS[(place + STRIDE * seed) % len(CONTENDERS)], seed)
        for seed in _seeds(plan)
        for place in range(len(CONTENDERS))
    ]


def _rows(plan: Plan) -> Rows:
    """A row for every contender."""
    runs = {one.name: [_run(plan, one, seed) for seed in _seeds(plan)] for one in CONTENDERS}
    ends = {name: [run.history()[-1] for run in mine] for name, mine in runs.items()}
    seconds = {name: np.array([end.seconds for end in mine]) for name, mine in ends.items()}
    fixed = sorted(
        (name for name in seconds if name not in ADAPTIVE), key=lambda name: seconds[name].mean()
    )
    best, middle = fixed[0], fixed[len(fixed) // 2]
    rows: Rows = []
    for name, mine in ends.items():
        row: dict[str, Any] = {
            "contender": name,
            "runs": len(mine),
            "reached": sum(end.validation_loss <= JOB.target for end in mine),
            "place": {best: "best", middle: "median"}.get(name, ""),
        }
        values = {
            "seconds": seconds[name],
            "over_best": seconds[name] / seconds[best],
            "over_median": seconds[name] / seconds[middle],
            "processor_seconds": [end.processor_seconds for end in mine],
            "examples": [end.examples for end in mine],
            "last_batch_size": [end.total for end in mine],
        }
        for column, found in values.items():
            row |= estimated(column, [float(value) for value in found])
        profiles = [profile for run in runs[name] if (profile := run.profile())]
        spent = [profile.seconds for profile in profiles]
        rows.append(row | {"profile_seconds": estimate(spent)["mean"] if spent else ""})
    return rows


def _shown(rows: Rows) -> Rows:
    """The table as people read it."""
    return [
        {
            "contender": row["contender"],
            "reached": f"{row['reached']} of {row['runs']}",
            "seconds": _interval(row, "seconds", ".1f"),
            "over best fixed": _interval(row, "over_best"),
            "over median fixed": _interval(row, "over_median"),
            "processor s": f"{row['processor_seconds']:.1f}",
            "examples": f"{row['examples']:.0f}",
            "last M": f"{row['last_batch_size']:.0f}",
            "place": row["place"],
        }
        for row in rows
    ]


def _interval(row: Mapping[str, Any], name: str, form: str = ".2f") -> str:
    return shown_estimate(row[name], row[f"{name}_half_width"], form)


def _plot(plan: Plan, rows: Rows) -> Figure:
    """Seconds by contender; batch sizes and losses of the first seed over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    bars, sizes, losses = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.0))
    _plot_seconds(rows, bars)
    best = next(row["contender"] for row in rows if row["place"] == "best")
    names = [*ADAPTIVE, best]
    for index, name in enumerate(names):
        contender = next(one for one in CONTENDERS if one.name == name)
        history = _run(plan, contender, 0).history()
        look: dict[str, Any] = {
            "color": COLOURS[index],
            "linestyle": STYLES[index % len(STYLES)],
            "linewidth": 1.4,
            "label": name,
        }
        seconds = [one.seconds for one in history]
        sizes.step(seconds, [one.total for one in history], where="pre", **look)
        losses.plot(seconds, [one.validation_loss for one in history], **look)
    logarithmic(sizes, "y", base=2)
    sizes.set_yticks(GRID, [str(size) for size in GRID])
    sizes.set_ylabel("batch size (examples)")
    losses.set_yscale("log")
    losses.set_yticks((0.2, 0.5, 1.0, 2.0), ("0.2", "0.5", "1", "2"))
    losses.minorticks_off()
    losses.set_ylabel("validation loss")
    losses.legend(frameon=False, fontsize="small")
    for ax in (sizes, losses):
        ax.set_xlabel("seconds of training (first seed)")
        open_axes(ax)
    return figure


def _plot_seconds(rows: Rows, ax: Axes) -> None:
    """A bar for every contender, fixed ones grey, with intervals."""
    for place, row in enumerate(rows):
        adaptive = row["contender"] in ADAPTIVE
        ax.barh(
            place,
            row["seconds"],
            xerr=row["seconds_half_width"],
            height=0.65,
            capsize=3,
            color=COLOURS[ADAPTIVE.index(row["contender"])] if adaptive else "#BBBBBB",
        )
    names = [
        f"{row['contender']} ({row['place']})" if row["place"] else row["contender"] for row in rows
    ]
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("seconds to the target")
    open_axes(ax)


ADAPTIVE_BATCH = Reproduction(
    "adaptive-batch: seconds to a validation target, adaptive and fixed batch sizes, on this "
    "machine",
    _tasks,
    _rows,
    _plot,
    lambda _: require_training(),
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    measures=True,
)
