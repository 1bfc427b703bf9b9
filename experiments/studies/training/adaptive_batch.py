"""Adaptive against fixed batch sizes: seconds of real training to the same validation target.

A network learns digits under an agent on one core, with fixed batch sizes of a grid and with rules
that adapt it. All scale the learning rate by AdaScale, except AdaBatch, whose schedule replaces
that. Seconds are those of the training loop without evaluations, including delays by fits in the
agent's child process. Fixed batch sizes are tuned, and so are the two rules that have a constant:
AdaBatch by the epochs between its growths, CABS by its factor. The best of a kind is the one with
the least mean over the seeds, and is known only afterwards, as is the median fixed batch size; the
cost of finding it (all other runs) is not counted. The time that `goodput, profiled` spends on
timing passes at a few batch sizes beforehand is a column of its own. Ratios are paired by seed.

The learning rate for M0 is far below the largest stable one, so that training lasts long enough to
be timed. At such rates AdaScale is cautious: `digits_efficiency.py` measures its efficiency.

The runs of a seed follow each other, and every seed begins with another contender, so that a
change in the speed of the machine affects all contenders equally.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, STYLES
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_run import DigitsRun
from goodalloc.experiments.studies.training.digits_training import DigitsJob, require_training
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Fixed batch sizes M; the first is M0.
GRID = (16, 32, 64, 128, 256, 512, 1024)

#: Epochs between two growths of AdaBatch, and constants of CABS (1 is the published one).
GROWTH_EPOCHS = (1, 2, 5, 10, 20)
CABS_CONSTANTS = (1.0, 16.0, 64.0, 256.0, 1024.0)

#: Batch sizes at which passes are timed beforehand.
PROFILED = (16, 64, 256, 1024)

SEEDS, QUICK_SEEDS = 5, 2

#: Places by which the order of the contenders is shifted from seed to seed.
STRIDE = 5

JOB = DigitsJob("wide perceptron", rate=0.005, epochs=600, evaluate=512, decay=0.999)

#: Learning rate of quick trainings, larger so that they take fewer steps.
QUICK_RATE = 0.02


class Contender(NamedTuple):
    """Fixed batch size or rule that adapts it.

    Attributes
    ----------
    name
        Label in tables and figures.
    kind
        Contenders that differ in the constant of their rule alone; the best of them stands for all.
    batch_rule, learning_rate
        Rules of the `DigitsJob`.
    total
        Batch size M if it is fixed.
    growth_epochs, cabs_constant
        Of the `DigitsJob`, where the rule is AdaBatch or CABS.
    profiled
        Whether the throughput is known beforehand.
    """

    name: str
    kind: str
    batch_rule: str
    total: int | None = None
    profiled: bool = False
    learning_rate: str = "adascale"
    growth_epochs: int = DigitsJob._field_defaults["growth_epochs"]
    cabs_constant: float = DigitsJob._field_defaults["cabs_constant"]


CONTENDERS = (
    *(Contender(f"fixed {total}", "fixed", "fixed", total) for total in GRID),
    Contender("goodput, profiled", "goodput, profiled", "goodput", profiled=True),
    Contender("goodput", "goodput", "goodput"),
    Contender("noise scale", "noise scale", "noise-scale"),
    *(
        Contender(f"CABS, c = {constant:g}", "CABS", "cabs", cabs_constant=constant)
        for constant in CABS_CONSTANTS
    ),
    *(
        Contender(
            f"AdaBatch, {epochs} epochs",
            "AdaBatch",
            "adabatch",
            learning_rate="constant",
            growth_epochs=epochs,
        )
        for epochs in GROWTH_EPOCHS
    ),
)

#: Kinds that adapt the batch size.
ADAPTIVE = tuple(dict.fromkeys(one.kind for one in CONTENDERS if one.total is None))


def _run(plan: Plan, one: Contender, seed: int) -> DigitsRun:
    job = JOB._replace(
        batch_rule=one.batch_rule,
        total=one.total,
        learning_rate=one.learning_rate,
        growth_epochs=one.growth_epochs,
        cabs_constant=one.cabs_constant,
        seed=seed,
        rate=QUICK_RATE if plan.quick else JOB.rate,
    )
    task = DigitsRun(plan.folder, job, PROFILED if one.profiled else (), timed=True)
    return replace(task, folder=plan.folder / "adaptive" / digest(task.description()))


def _seeds(plan: Plan) -> range:
    return range(QUICK_SEEDS if plan.quick else SEEDS)


def _tasks(plan: Plan) -> list[DigitsRun]:
    """Return the runs by seed, each seed beginning with another contender."""
    return [
        _run(plan, CONTENDERS[(place + STRIDE * seed) % len(CONTENDERS)], seed)
        for seed in _seeds(plan)
        for place in range(len(CONTENDERS))
    ]


class ContenderRow(NamedTuple):
    """Outcome of a contender, means over the seeds.

    Attributes
    ----------
    runs, reached
        Number of trainings, and of those that reached the target.
    kind, place
        What it is compared with, and "best" of these; or "median" of the fixed batch sizes; else
        empty.
    seconds, processor_seconds
        Time to the target, by the clock and of the training thread.
    over_best, over_median
        Seconds over those of the best and of the median fixed batch size.
    profile_seconds
        Seconds of timing passes beforehand; None without it.
    """

    contender: str
    kind: str
    runs: int
    reached: int
    place: str
    seconds: Estimate
    over_best: Estimate
    over_median: Estimate
    processor_seconds: Estimate
    examples: Estimate
    last_batch_size: Estimate
    profile_seconds: float | None


def _rows(plan: Plan) -> list[ContenderRow]:
    """Return a row for every contender."""
    runs = {one.name: [_run(plan, one, seed) for seed in _seeds(plan)] for one in CONTENDERS}
    ends = {name: [run.history()[-1] for run in mine] for name, mine in runs.items()}
    seconds = {name: np.array([end.seconds for end in mine]) for name, mine in ends.items()}
    kinds = {one.name: one.kind for one in CONTENDERS}
    ranked = {
        kind: sorted((n for n in kinds if kinds[n] == kind), key=lambda n: seconds[n].mean())
        for kind in dict.fromkeys(kinds.values())
    }
    places = {names[0]: "best" for names in ranked.values() if len(names) > 1}
    best, middle = ranked["fixed"][0], ranked["fixed"][len(ranked["fixed"]) // 2]
    places[middle] = "median"
    rows = []
    for name, mine in ends.items():
        profiles = [profile for run in runs[name] if (profile := run.profile())]
        spent = [profile.seconds for profile in profiles]
        rows.append(
            ContenderRow(
                name,
                kind=kinds[name],
                runs=len(mine),
                reached=sum(end.validation_loss <= JOB.target for end in mine),
                place=places.get(name, ""),
                seconds=estimate_of(seconds[name].tolist()),
                over_best=estimate_of((seconds[name] / seconds[best]).tolist()),
                over_median=estimate_of((seconds[name] / seconds[middle]).tolist()),
                processor_seconds=estimate_of([end.processor_seconds for end in mine]),
                examples=estimate_of([end.examples for end in mine]),
                last_batch_size=estimate_of([end.total for end in mine]),
                profile_seconds=estimate_of(spent).mean if spent else None,
            )
        )
    return rows


def _shown(rows: list[ContenderRow]) -> Rows:
    """Return the table that people read."""
    return [
        {
            "contender": row.contender,
            "reached": f"{row.reached} of {row.runs}",
            "seconds": row.seconds.text(".1f"),
            "over best fixed": row.over_best.text(".2f"),
            "over median fixed": row.over_median.text(".2f"),
            "processor s": f"{row.processor_seconds.mean:.1f}",
            "examples": f"{row.examples.mean:.0f}",
            "last M": f"{row.last_batch_size.mean:.0f}",
            "place": row.place,
        }
        for row in rows
    ]


def _plot(plan: Plan, rows: list[ContenderRow]) -> Figure:
    """Draw seconds by contender, and batch sizes and losses of the first seed over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    bars, sizes, losses = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.0))
    _plot_seconds(rows, bars)
    slowest_first = sorted(rows, key=lambda row: -row.seconds.mean)
    shown = {row.kind: row.contender for row in slowest_first}  # the fastest of a kind remains
    for index, kind in enumerate([*ADAPTIVE, "fixed"]):
        name = shown[kind]
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


def _plot_seconds(rows: list[ContenderRow], ax: Axes) -> None:
    """Draw a bar with its interval for every contender, grey for fixed batch sizes."""
    for place, row in enumerate(rows):
        adaptive = row.kind in ADAPTIVE
        ax.barh(
            place,
            row.seconds.mean,
            xerr=row.seconds.half_width,
            height=0.65,
            capsize=3,
            color=COLOURS[ADAPTIVE.index(row.kind)] if adaptive else "#BBBBBB",
        )
    names = [f"{row.contender} ({row.place})" if row.place else row.contender for row in rows]
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
