"""Picture of a day with hindsight: prices, who holds GPUs, and jobs beside their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import HOUR

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.late_jobs import LateBound
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule

#: Points in time at which allocated GPUs are drawn.
POINTS = 2_000

#: Lines of the prices of the types of GPU; the colours are those of trainings.
LINES = ("-", "--", ":", "-.")

#: Ratio of the ends of a logarithmic axis beyond which only powers of 10 have labels.
MANY_DECADES = 1e4


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
    _draw_jobs(figure.add_subplot(grid[:, 1]), problem, schedule)
    return figure


def plot_deadlines(
    problem: OfflineProblem, bound: LateBound, schedule: HindsightSchedule, *, makespan: bool
) -> Figure:
    """Draw the prices of a bound on late jobs above the GPUs of a schedule, and when jobs end.

    Parameters
    ----------
    problem, bound
        The problem, and a bound on the late jobs of its schedules.
    schedule
        A schedule.
    makespan
        Whether all jobs are due at the time that the bound refutes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 5.8), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1.0))
    prices = figure.add_subplot(grid[0, 0])
    _draw_steps(prices, problem, bound, HOUR, float(schedule.completion.max()))
    unit = "jobs that are not done by the line" if makespan else "late jobs"
    prices.set_ylabel(f"price of a GPU-hour\n({unit})", fontsize="small")
    _draw_gpus(figure.add_subplot(grid[1, 0], sharex=prices), problem, schedule)
    ax = figure.add_subplot(grid[:, 1])
    release = np.array([job.release for job in problem.jobs])
    if makespan:
        _draw_by_training(ax, problem, release, schedule.completion)
        ax.axhline(bound.due[0] / HOUR, color="0.4", linewidth=0.8)
        ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel("submission (h)", fontsize="small")
        ax.set_ylabel("end in the schedule (h); line: bound on the last", fontsize="small")
    else:
        allowed = bound.due - release
        _draw_by_training(ax, problem, allowed, schedule.completion - release)
        ends = np.array([float(allowed.min()) * 0.8, float(allowed.max()) * 1.2]) / HOUR
        ax.plot(ends, ends, color="0.6", linewidth=0.8)
        _draw_logarithmic(ax)
        ax.set_xlabel("time until it is due (h)", fontsize="small")
        ax.set_ylabel("completion in the schedule (h); late above the line", fontsize="small")
    ax.legend(frameon=False, fontsize="small", markerscale=1.6, loc="lower right")
    open_axes(ax)
    return figure


def _draw_prices(ax: Axes, problem: OfflineProblem, bound: HindsightBound, last: float) -> None:
    """Draw the price of a GPU-hour: hours of completion time that all jobs together lose by it."""
    scale = sum(job.weight for job in problem.jobs) / len(problem.jobs)
    _draw_steps(ax, problem, bound, 1.0 / scale, last)
    ax.set_ylabel("price of a GPU-hour\n(hours of completion time)", fontsize="small")


def _draw_steps(
    ax: Axes,
    problem: OfflineProblem,
    bound: HindsightBound | LateBound,
    unit: float,
    last: float,
) -> None:
    """Draw prices in a unit over time."""
    several = len(problem.supply.types) > 1
    for row, name in enumerate(problem.supply.types):
        ax.stairs(
            bound.prices[:, row] * unit,
            bound.edges / HOUR,
            color="0.2" if several else COLOURS[0],
            linestyle=LINES[row % len(LINES)],
            label=name,
        )
    ax.set_xlim(0.0, last / HOUR)
    if several:
        top = unit * max(float(bound.prices.max()), 1e-9)
        ax.set_ylim(-0.03 * top, 1.05 * top)  # a price of 0 is beside the axis
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
    ax.stackplot(times / HOUR, held, labels=names, colors=colours, linewidth=0, step="post")
    ax.set_ylabel("GPUs held", fontsize="small")
    ax.set_xlabel("time (h)", fontsize="small")
    ax.set_ylim(0.0, 1.02 * float(problem.supply.gpus.sum(axis=1).max()))
    ax.locator_params(axis="y", integer=True)
    open_axes(ax)


def _draw_jobs(ax: Axes, problem: OfflineProblem, schedule: HindsightSchedule) -> None:
    """Draw the completion of every job against its own bound: that alone on the cluster."""
    release = np.array([job.release for job in problem.jobs])
    alone = np.array(
        [job.begin + problem.training(job.training).least_seconds for job in problem.jobs]
    )
    both = (np.concatenate([schedule.completion, alone]) - np.tile(release, 2)) / HOUR
    _draw_by_training(ax, problem, alone - release, schedule.completion - release)
    ax.legend(frameon=False, fontsize="small", markerscale=1.6, loc="lower right")
    ends = [float(both.min()) * 0.8, float(both.max()) * 1.2]
    ax.plot(ends, ends, color="0.6", linewidth=0.8)
    _draw_logarithmic(ax)
    told = "completion alone on the cluster (h):\nno schedule has a shorter one"
    ax.set_xlabel(told, fontsize="small")
    ax.set_ylabel("completion in the schedule (h)", fontsize="small")
    open_axes(ax)


def _draw_by_training(
    ax: Axes,
    problem: OfflineProblem,
    across: Float[Floats, " jobs"],
    up: Float[Floats, " jobs"],
) -> None:
    """Draw a point for every job, in the colour of its training; seconds are told as hours."""
    for index, name in enumerate(sorted({job.training for job in problem.jobs})):
        own, colour = problem.jobs_of(name), COLOURS[index % len(COLOURS)]
        ax.plot(across[own] / HOUR, up[own] / HOUR, "o", markersize=3, color=colour, label=name)


def _draw_logarithmic(ax: Axes) -> None:
    """Draw both axes of hours logarithmic, with labels at 1, 2 and 5 of a decade at most."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        wide = high > MANY_DECADES * low
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
