"""What knowing the types of GPU is worth by the load, over thousands of jobs: Gavel's Figure 8.

Thousands of jobs of Gavel's generator come to 36 GPUs of each of three types, of one GPU each
("single") or of up to eight ("multiple"). As in the published sweeps the first thousands warm the
cluster up, and jobs go on coming until those that count are complete, or as many more have come:
jobs that are not complete then count with their time so far. The average completion time under
max-min fairness that knows the types stands beside that which takes them for equal, with the growth
of both queues and the largest loads at which they could settle (`sustainable_load.py`). In quick
replays, shares and rounds come about in two other ways, too, at one load (`ROUNDS`).

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 7.3. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.load_task import (
    GPUS,
    ROUNDS,
    TRACES,
    LoadTask,
    Size,
    workload_of,
)
from goodalloc.experiments.studies.gavel.sustainable_load import sustainable_load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.gavel.load_task import LoadOutcome
    from goodalloc.experiments.studies.gavel.sustainable_load import SustainableLoad

#: Jobs an hour, at most the published 6 and 3, most near the knees; many with published values.
LOADS: Mapping[str, tuple[float, ...]] = {
    "single": (3.2, 4.0, 4.8, 5.2, 5.6, 6.0),
    "multiple": (1.2, 2.0, 2.4, 2.6, 2.8),
}
QUICK_LOADS: Mapping[str, tuple[float, ...]] = {"single": (3.2, 5.6), "multiple": (2.8,)}

#: Trace and load at which quick replays compare the other ways to shares and rounds.
COMPARED = ("single", 3.2)

#: The published ratio of average completion times, the largest of all its experiments.
PUBLISHED = 3.5


class PublishedHours(NamedTuple):
    """Average completion times that notebooks of the published code print, for one seed.

    They print them with their distributions of completion times (`continuous_jobs.ipynb` and
    `continuous_jobs_multigpu.ipynb` in `scheduler/notebooks/figures/evaluation`), not those of all
    seeds, which Figures 8 and 9 draw.
    """

    aware: float
    blind: float


#: Those that we know, by trace and jobs an hour.
PUBLISHED_HOURS: Mapping[tuple[str, float], PublishedHours] = {
    ("single", 3.2): PublishedHours(16.08, 23.59),
    ("single", 4.0): PublishedHours(16.82, 23.49),
    ("single", 4.8): PublishedHours(18.97, 35.79),
    ("single", 5.6): PublishedHours(28.96, 95.99),
    ("multiple", 2.8): PublishedHours(55.78, 169.93),
}

#: Size of whole and of quick replays.
SIZE, QUICK = Size(GPUS, 2000, 4000, 5000, 10000, 3), Size(12, 50, 100, 150, 400, 2)


def _cells(plan: Plan) -> list[tuple[str, str, float]]:
    """Return the traces, rounds and loads that are compared."""
    loads = QUICK_LOADS if plan.quick else LOADS
    others = [name for name in ROUNDS if name != "published"] if plan.quick else []
    sweep = [(trace, "published", load) for trace in TRACES for load in loads[trace]]
    return sweep + [(COMPARED[0], name, COMPARED[1]) for name in others]


def _runs(plan: Plan, cell: tuple[str, str, float], blind: bool) -> list[LoadTask]:
    """Return the replays of a cell, one for every seed."""
    trace, rounds, load = cell
    size = QUICK if plan.quick else SIZE
    tasks = (
        LoadTask(
            folder=plan.folder,
            trace=trace,
            load=load,
            rounds=rounds,
            blind=blind,
            seed=seed,
            table=plan.artifact,
            size=size,
        )
        for seed in range(size.seeds)
    )
    return [task.among(plan.folder, "load") for task in tasks]


def _tasks(plan: Plan) -> list[LoadTask]:
    return [
        task
        for cell in _cells(plan)
        for blind in (False, True)
        for task in _runs(plan, cell, blind)
    ]


class LoadRow(NamedTuple):
    """Max-min fairness that knows the types, and that takes them for equal, at a load.

    Attributes
    ----------
    gpus
        GPUs in all; the load is for three times `GPUS`.
    jobs
        Jobs that count.
    aware_of_sustainable_percent, blind_of_sustainable_percent
        The load in parts of the largest at which the queue can settle.
    window_aware_jct_hours, window_blind_jct_hours, window_blind_over_aware
        Of the jobs of the published window only.
    aware_stay_percent, blind_stay_percent
        Growth of the queue while the jobs that count came, in parts of the jobs that came.
    aware_unfinished_percent, blind_unfinished_percent
        Jobs that count and are not complete at the end.
    published_aware_jct_hours, published_blind_jct_hours, published_blind_over_aware
        Of one published seed, and their ratio; blank where they are not known.
    published_largest_ratio
        Ratio reported by the paper, of no particular load.
    """

    trace: str
    rounds: str
    jobs_per_hour: float
    gpus: int
    jobs: int
    seeds: int
    aware_of_sustainable_percent: float
    blind_of_sustainable_percent: float
    aware_jct_hours: Estimate
    blind_jct_hours: Estimate
    blind_over_aware: Estimate
    window_aware_jct_hours: Estimate
    window_blind_jct_hours: Estimate
    window_blind_over_aware: Estimate
    aware_stay_percent: Estimate
    blind_stay_percent: Estimate
    aware_unfinished_percent: float
    blind_unfinished_percent: float
    published_aware_jct_hours: float | None
    published_blind_jct_hours: float | None
    published_blind_over_aware: float | None
    published_largest_ratio: float


def _rows(plan: Plan) -> list[LoadRow]:
    """Return a row for each cell."""
    rates, size = gavel_rates(plan.artifact), QUICK if plan.quick else SIZE
    most = {
        trace: sustainable_load(rates, workload_of(trace, 1.0), (GPUS,) * len(rates.types))
        for trace in TRACES
    }
    return [
        _row(
            cell,
            size,
            most[cell[0]],
            [task.outcome() for task in _runs(plan, cell, blind=False)],
            [task.outcome() for task in _runs(plan, cell, blind=True)],
        )
        for cell in _cells(plan)
    ]


def _row(
    cell: tuple[str, str, float],
    size: Size,
    most: SustainableLoad,
    aware: Sequence[LoadOutcome],
    blind: Sequence[LoadOutcome],
) -> LoadRow:
    trace, rounds, load = cell
    published = PUBLISHED_HOURS.get((trace, load))

    def ratio(hours: Callable[[LoadOutcome], float]) -> Estimate:
        both = zip(blind, aware, strict=True)
        return estimate_of([hours(other) / hours(one) for other, one in both])

    return LoadRow(
        trace=trace,
        rounds=rounds,
        jobs_per_hour=load,
        gpus=3 * size.gpus,
        jobs=size.until - size.warm_up,
        seeds=len(aware),
        aware_of_sustainable_percent=rounded(100.0 * load / most.aware, 4),
        blind_of_sustainable_percent=rounded(100.0 * load / most.blind, 4),
        aware_jct_hours=estimate_of([one.jct_hours for one in aware]),
        blind_jct_hours=estimate_of([one.jct_hours for one in blind]),
        blind_over_aware=ratio(lambda one: one.jct_hours),
        window_aware_jct_hours=estimate_of([one.window_jct_hours for one in aware]),
        window_blind_jct_hours=estimate_of([one.window_jct_hours for one in blind]),
        window_blind_over_aware=ratio(lambda one: one.window_jct_hours),
        aware_stay_percent=estimate_of([one.stay_percent for one in aware]),
        blind_stay_percent=estimate_of([one.stay_percent for one in blind]),
        aware_unfinished_percent=rounded(float(np.mean([a.unfinished_percent for a in aware])), 3),
        blind_unfinished_percent=rounded(float(np.mean([b.unfinished_percent for b in blind])), 3),
        published_aware_jct_hours=published and published.aware,
        published_blind_jct_hours=published and published.blind,
        published_blind_over_aware=published and rounded(published.blind / published.aware, 3),
        published_largest_ratio=PUBLISHED,
    )


def _shown(rows: list[LoadRow]) -> Rows:
    """Return the estimates as "mean ± half-width"."""
    return [
        {
            "trace": row.trace,
            "rounds": row.rounds,
            "jobs/hour": row.jobs_per_hour,
            "of sustainable (%)": f"{row.aware_of_sustainable_percent:.0f}; "
            f"{row.blind_of_sustainable_percent:.0f}",
            "types known (h)": row.aware_jct_hours.text(),
            "types equal (h)": row.blind_jct_hours.text(),
            "ratio": row.blind_over_aware.text(".2f"),
            "ratio, published window": row.window_blind_over_aware.text(".2f"),
            "published": _published(row),
            "stay (%)": f"{row.aware_stay_percent.text()}; {row.blind_stay_percent.text()}",
            "unfinished (%)": f"{row.aware_unfinished_percent:.2f}; "
            f"{row.blind_unfinished_percent:.2f}",
        }
        for row in rows
    ]


def _published(row: LoadRow) -> str:
    """Return the published hours and their ratio, or the largest ratio where they are unknown."""
    if row.published_blind_over_aware is None:
        return f"up to {row.published_largest_ratio:g}"
    hours = f"{row.published_aware_jct_hours:.1f}; {row.published_blind_jct_hours:.1f}"
    return f"{hours}: {row.published_blind_over_aware:.2f}"


NOTE = """\
Pairs of numbers: types known; types equal. Of sustainable: the load in parts of the largest at
which the queue can settle. Stay: growth of the queue in parts of the jobs that come. Unfinished
jobs count with their time so far, which makes the averages too small."""


def _plot(_: Plan, rows: list[LoadRow]) -> Figure:
    """Draw average completion times and their ratio by load, with the sustainable loads."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col")
    for place, trace in enumerate(TRACES):
        mine = [row for row in rows if row.trace == trace and row.rounds == "published"]
        times, ratios = axes[0, place], axes[1, place]
        loads = [row.jobs_per_hour for row in mine]
        for label, colour, line, hours in (
            ("types known", COLOURS[0], "-", [row.aware_jct_hours for row in mine]),
            ("types equal", COLOURS[1], "--", [row.blind_jct_hours for row in mine]),
        ):
            _draw(times, loads, hours, label, colour, line)
        for label, colour, line, ratio in (
            ("jobs after warm-up", COLOURS[2], "-", [row.blind_over_aware for row in mine]),
            ("published window", COLOURS[3], ":", [row.window_blind_over_aware for row in mine]),
        ):
            _draw(ratios, loads, ratio, label, colour, line)
        ratios.axhline(PUBLISHED, color="#555555", linewidth=0.9, linestyle="-.")
        ratios.text(0.0, PUBLISHED, " published: up to 3.5", va="top", fontsize="small")
        _draw_published(times, ratios, mine)
        _draw_sustainable(times, ratios, mine[-1])
        times.set_yscale("log", base=2)
        times.yaxis.set_major_formatter("{x:g}")
        times.set_title(f"{trace}: jobs of {'one GPU' if trace == 'single' else 'one to 8 GPUs'}")
        ratios.set_xlim(left=0.0)
        ratios.set_ylim(bottom=0.0)
        ratios.set_xlabel("jobs an hour")
        for ax in (times, ratios):
            open_axes(ax)
    axes[0, 0].set_ylabel("average completion time (h)")
    axes[1, 0].set_ylabel("types equal over types known")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="upper left")
    axes[1, 0].legend(frameon=False, fontsize="small", loc="lower left")
    return figure


def _draw(
    ax: Axes, loads: list[float], values: list[Estimate], label: str, colour: str, line: str
) -> None:
    """Draw estimates by load with their intervals."""
    ax.errorbar(
        loads,
        [one.mean for one in values],
        yerr=np.nan_to_num([one.half_width for one in values]),
        label=label,
        color=colour,
        linestyle=line,
        marker="o",
        markersize=4,
        capsize=2,
    )


def _draw_published(times: Axes, ratios: Axes, rows: list[LoadRow]) -> None:
    """Draw the published values, as far as they are known."""
    known = [
        (row.jobs_per_hour, PUBLISHED_HOURS[row.trace, row.jobs_per_hour])
        for row in rows
        if (row.trace, row.jobs_per_hour) in PUBLISHED_HOURS
    ]
    loads = [load for load, _ in known]
    for ax, values, colour, label in (
        (times, [hours.aware for _, hours in known], COLOURS[0], "published, known"),
        (times, [hours.blind for _, hours in known], COLOURS[1], "published, equal"),
        (ratios, [hours.blind / hours.aware for _, hours in known], "black", "published"),
    ):
        ax.plot(loads, values, "x", color=colour, markersize=8, markeredgewidth=2, label=label)


def _draw_sustainable(times: Axes, ratios: Axes, row: LoadRow) -> None:
    """Draw the largest loads at which queues can settle."""
    for percent, colour in (
        (row.blind_of_sustainable_percent, COLOURS[1]),
        (row.aware_of_sustainable_percent, COLOURS[0]),
    ):
        for ax in (times, ratios):
            load = 100.0 * row.jobs_per_hour / percent
            ax.axvline(load, color=colour, linewidth=0.9, linestyle=(0, (1, 2)))


GAVEL_LOAD = Reproduction(
    "gavel-load: what knowing the types of GPU is worth by the load, over thousands of jobs",
    _tasks,
    _rows,
    _plot,
    lambda plan: require_gavel_table(plan.artifact),
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
    note=NOTE,
)
