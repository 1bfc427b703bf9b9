"""Gavel's sweep over the load above the bound on any schedule of its jobs.

The replays are those of `load_sweep.py`. No schedule of the jobs that count has a smaller average
completion time than the bound (`goodalloc.solvers.steady_jobs`), whatever it knows and moves: such
a job can start in the first round after it came, and runs on its number of GPUs of one type at its
measured rate. The jobs before and after those that count take no GPUs in the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.workload import draw_gavel_jobs
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.load_sweep import GAVEL_LOAD
from goodalloc.experiments.studies.gavel.load_task import LoadTask, workload_of
from goodalloc.experiments.studies.gavel.long_replay import ROUND
from goodalloc.experiments.studies.hindsight.beside_bound import above_percent
from goodalloc.experiments.studies.hindsight.steady_bound_task import SteadyBoundTask, first_round
from goodalloc.models.hindsight import Configurations, SteadyJobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.gavel.workload import GavelJob
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.gavel.rate_table import RateTable

#: Seconds of constant prices.
INTERVAL = 12 * 3600.0

NOTE = """\
bound: no schedule of the jobs that count is below it, whatever it knows: any GPUs of a type, no
rounds after the first, no other jobs."""


class LoadAboveRow(NamedTuple):
    """Max-min fairness that knows the types, and that takes them for equal, above the bound.

    Attributes
    ----------
    trace
        GPUs of the jobs; see `TRACES` in `load_task.py`.
    jobs_per_hour, jobs, seeds
        The load, and how many jobs count, in how many workloads.
    known_jct_hours, equal_jct_hours, bound_hours
        Average completion times, and the bound on them.
    known_above_percent, equal_above_percent
        By how much they are above the bound.
    """

    trace: str
    jobs_per_hour: float
    jobs: int
    seeds: int
    known_jct_hours: Estimate
    known_above_percent: Estimate
    equal_jct_hours: Estimate
    equal_above_percent: Estimate
    bound_hours: Estimate


@dataclass(frozen=True)
class LoadBoundTask(SteadyBoundTask):
    """Bound on every schedule of the jobs that count; see `SteadyBoundTask`.

    Parameters
    ----------
    replay
        Either replay of the jobs.
    """

    replay: LoadTask

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        names = ("library", "trace", "load", "seed", "table", "size")
        return {
            "format": "goodalloc-gavel-load-bound",
            "version": 1,
            "interval": self.interval,
            **{name: told[name] for name in names},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the jobs that count."""
        rates, size = gavel_rates(self.replay.table), self.replay.size
        workload = workload_of(self.replay.trace, self.replay.per_hour)
        jobs = draw_gavel_jobs(self.replay.seed, size.most, rates, workload)
        return steady_gavel_jobs(jobs[size.warm_up : size.until], rates, size.gpus)


def steady_gavel_jobs(jobs: Sequence[GavelJob], rates: RateTable, gpus: int) -> SteadyJobs:
    """Return the offline problem of jobs of Gavel's generator; equal weights, of sum 1.

    Parameters
    ----------
    jobs
        The jobs.
    rates
        Steps a second on every type of GPU.
    gpus
        GPUs of every type.
    """
    names = sorted({(job.configuration, job.replicas) for job in jobs})
    alone = rates.alone_rates([one for one, _ in names], [number for _, number in names])

    def configurations(which: int) -> Configurations:
        (configuration, replicas), able = names[which], alone[which] > 0
        uses = replicas * np.eye(able.size)[able]
        return Configurations(f"{configuration} x {replicas}", alone[which, able], uses)

    release = np.array([job.submission for job in jobs])
    return SteadyJobs(
        tuple(map(configurations, range(len(names)))),
        np.array([names.index((job.configuration, job.replicas)) for job in jobs], dtype=int),
        np.array([job.steps for job in jobs], dtype=float),
        release,
        np.array([first_round(time, ROUND) for time in release.tolist()]),
        np.full(len(jobs), 1.0 / max(len(jobs), 1)),
        np.full(len(rates.types), float(gpus)),
    )


def _replays(plan: Plan) -> Iterator[LoadTask]:
    """Yield the replays by published rounds."""
    for task in GAVEL_LOAD.tasks(plan):
        assert isinstance(task, LoadTask)
        if task.rounds == "published":
            yield task


def _bound(plan: Plan, replay: LoadTask) -> LoadBoundTask:
    return LoadBoundTask(plan.folder, INTERVAL, replay).among(plan.folder, "load-bound")


def _tasks(plan: Plan) -> list[Task]:
    replays = list(_replays(plan))
    return [*replays, *(_bound(plan, task) for task in replays if not task.blind)]


def _rows(plan: Plan) -> list[LoadAboveRow]:
    """Return a row for each trace and load."""
    cells: dict[tuple[str, float], list[LoadTask]] = {}
    for task in _replays(plan):
        cells.setdefault((task.trace, task.load), []).append(task)
    rows = []
    for (trace, load), tasks in cells.items():
        hours: Mapping[bool, dict[int, float]] = {
            blind: {task.seed: task.outcome().jct_hours for task in tasks if task.blind == blind}
            for blind in (False, True)
        }
        bounds = {task.seed: _bound(plan, task).hours() for task in tasks if not task.blind}
        known, equal = (
            [above_percent(hours[blind][seed], least) for seed, least in bounds.items()]
            for blind in (False, True)
        )
        size = tasks[0].size
        rows.append(
            LoadAboveRow(
                trace=trace,
                jobs_per_hour=load,
                jobs=size.until - size.warm_up,
                seeds=len(bounds),
                known_jct_hours=estimate_of(list(hours[False].values())),
                known_above_percent=estimate_of(known),
                equal_jct_hours=estimate_of(list(hours[True].values())),
                equal_above_percent=estimate_of(equal),
                bound_hours=estimate_of(list(bounds.values())),
            )
        )
    return rows


def _shown(rows: list[LoadAboveRow]) -> Rows:
    """Return the estimates as "mean ± half-width"."""
    return [
        {
            "trace": row.trace,
            "jobs/hour": row.jobs_per_hour,
            "types known (h)": row.known_jct_hours.text(),
            "above the bound (%)": row.known_above_percent.text(".0f"),
            "types equal (h)": row.equal_jct_hours.text(),
            "equal: above (%)": row.equal_above_percent.text(".0f"),
            "bound (h)": row.bound_hours.text(),
        }
        for row in rows
    ]


def plot_loads_above(rows: list[LoadAboveRow]) -> Figure:
    """Draw both policies over the bound by load, a panel for each trace.

    Parameters
    ----------
    rows
        Rows of all traces and loads.
    """
    from matplotlib.figure import Figure

    traces = list(dict.fromkeys(row.trace for row in rows))
    figure = Figure(figsize=(4.6 * len(traces), 3.8), layout="constrained")
    panels = figure.subplots(1, len(traces), squeeze=False, sharey=True)[0]
    for ax, trace in zip(panels, traces, strict=True):
        mine = [row for row in rows if row.trace == trace]
        for label, colour, line, above in (
            ("types known", COLOURS[0], "-", [row.known_above_percent for row in mine]),
            ("types equal", COLOURS[1], "--", [row.equal_above_percent for row in mine]),
        ):
            ax.errorbar(
                [row.jobs_per_hour for row in mine],
                [1.0 + one.mean / 100.0 for one in above],
                yerr=np.nan_to_num([one.half_width / 100.0 for one in above]),
                label=label,
                color=colour,
                linestyle=line,
                marker="o",
                markersize=4,
                capsize=2,
            )
        ax.axhline(1.0, color="black", linewidth=0.9)
        ax.set_yscale("log", base=2)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_title(f"jobs of {'one GPU' if trace == 'single' else 'one to 8 GPUs'}")
        ax.set_xlabel("jobs an hour")
        open_axes(ax)
    panels[0].set_ylabel("average completion over the bound")
    panels[0].legend(frameon=False, fontsize="small", loc="upper left")
    return figure


LOADS_ABOVE = Reproduction(
    "hindsight-load: Gavel's sweep over the load above the bound on any schedule",
    _tasks,
    _rows,
    lambda _, rows: plot_loads_above(rows),
    GAVEL_LOAD.require,
    _shown,
    ignores=GAVEL_LOAD.ignores,
    lists=GAVEL_LOAD.lists,
    note=NOTE,
)
