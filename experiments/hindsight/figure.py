"""Picture of a day with hindsight: prices, who holds GPUs, and jobs beside their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule

HOUR = 3600.0

#: Points in time at which allocated GPUs are drawn.
POINTS = 400


def plot_hindsight(
    problem: OfflineProblem, bound: HindsightBound, schedule: HindsightSchedule | None
) -> Figure:
    """Draw the prices of the bound above the GPUs of a schedule, and jobs beside their bounds.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on all its schedules.
    schedule
        A schedule; None for the prices alone.
    """
    from matplotlib.figure import Figure

    rows = 1 if schedule is None else 2
    figure = Figure(figsize=(10.5, 2.6 * rows + 0.6), layout="constrained")
    if schedule is None:
        _draw_prices(figure.subplots(), problem, bound, bound.edges[-1])
        return figure
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1.0))
    prices = figure.add_subplot(grid[0, 0])
    _draw_prices(prices, problem, bound, float(schedule.completion.max()))
    _draw_gpus(figure.add_subplot(grid[1, 0], sharex=prices), problem, schedule)
    _draw_jobs(figure.add_subplot(grid[:, 1]), problem, bound, schedule)
    return figure


def _draw_prices(ax: Axes, problem: OfflineProblem, bound: HindsightBound, last: float) -> None:
    """Draw the price of a GPU-hour: hours of completion time that all jobs together lose by it."""
    scale = sum(job.weight for job in problem.jobs) / len(problem.jobs)
    for row, name in enumerate(problem.supply.types):
        ax.stairs(bound.prices[:, row] / scale, bound.edges / HOUR, color=COLOURS[row], label=name)
    ax.set_xlim(0.0, last / HOUR)
    ax.set_ylabel("price of a GPU-hour\n(hours of completion time)", fontsize="small")
    if len(problem.supply.types) > 1:
        ax.legend(frameon=False, fontsize="small")
    open_axes(ax)


def _draw_gpus(ax: Axes, problem: OfflineProblem, schedule: HindsightSchedule) -> None:
    """Draw the GPUs that the jobs of each training hold over time, one above the other."""
    times = np.linspace(0.0, float(schedule.completion.max()), POINTS)
    names = sorted({job.training for job in problem.jobs})
    held = np.zeros((len(names), POINTS))
    for job in problem.jobs:
        for segment in schedule.segments.get(job.name, ()):
            inside = (times >= segment.start) & (times < segment.end)
            held[names.index(job.training), inside] += segment.gpus
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(names))]
    ax.stackplot(times / HOUR, held, labels=names, colors=colours, linewidth=0)
    ax.set_ylabel("GPUs held", fontsize="small")
    ax.set_xlabel("time (h)", fontsize="small")
    ax.set_ylim(0.0, 1.02 * float(problem.supply.gpus.sum(axis=1).max()))
    open_axes(ax)


def _draw_jobs(
    ax: Axes, problem: OfflineProblem, bound: HindsightBound, schedule: HindsightSchedule
) -> None:
    """Draw the completion of every job against that in the schedule of its bound."""
    release = np.array([job.release for job in problem.jobs])
    names = sorted({job.training for job in problem.jobs})
    for index, name in enumerate(names):
        own = problem.jobs_of(name)
        ax.plot(
            (bound.ends - release)[own] / HOUR,
            (schedule.completion - release)[own] / HOUR,
            "o",
            markersize=3,
            color=COLOURS[index % len(COLOURS)],
            label=name,
        )
    both = (schedule.completion - release) / HOUR
    ax.legend(frameon=False, fontsize="small", markerscale=1.6, loc="lower right")
    ends = [float(both.min()) * 0.8, float(both.max()) * 1.2]
    ax.plot(ends, ends, color="0.6", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("completion in the plan of the bound (h)", fontsize="small")
    ax.set_ylabel("completion in the schedule (h)", fontsize="small")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    open_axes(ax)
