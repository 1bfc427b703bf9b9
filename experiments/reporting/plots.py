"""Pictures of benchmarks: functions that draw into an axes and return it.

No function shows a picture or touches the global state of matplotlib; colours are those of Okabe
and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.atomic_write import write_bytes_atomically
from goodalloc.experiments.reporting.axes import gap_ticks, place_of_zero, plain_axes
from goodalloc.experiments.reporting.report import SMALLEST_GAP, best_of, gap_in_words
from goodalloc.experiments.reporting.statistics import performance_profile, share_within
from goodalloc.solvers.interface.bounds import Bound, least_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.statistics import Profile
    from goodalloc.solvers.interface.result import Result

#: Colours of Okabe and Ito, the faintest last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
#: Markers in the order of the colours, and styles of lines.
MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")
#: Solvers in the order of the colours, so that a solver looks the same in every picture.
LOOKS = ("highs", "local_search", "greedy", "genetic", "knapsack", "convex", "pyomo", "brute_force")

#: Distance of a legend from the axis above it, in inches.
LEGEND_INCHES = 0.5


def new_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    """Return an axes on a figure of its own, of a size in inches.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import figure_of, new_axes
    >>> figure_of(new_axes(width=6.0, height=4.0)).get_size_inches().tolist()
    [6.0, 4.0]
    """
    from matplotlib.figure import Figure

    axes: Axes = Figure(figsize=(width, height), layout="constrained").subplots()
    return axes


def figure_of(ax: Axes | Figure) -> Figure:
    """Return the figure of `ax`, or a figure itself.

    Raises
    ------
    ValueError
        If `ax` was removed from its figure.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import figure_of, new_axes
    >>> len(figure_of(new_axes()).axes)
    1
    """
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("Axes: it was removed from its figure; expected one that is on a figure.")
    return figure


def looks(names: Iterable[str], known: Sequence[str] = LOOKS) -> dict[str, dict[str, Any]]:
    """Return colour, line and marker for every name, always the same for the known ones.

    Other names take the remaining ones in order. Forty names can be distinguished.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import looks
    >>> looks(["greedy", "mine"])["greedy"]
    {'color': '#009E73', 'linestyle': '-.', 'marker': 'D'}
    """
    given = list(dict.fromkeys(names))
    unused = [index for index, name in enumerate(known) if name not in given]
    unused += list(range(len(known), len(known) + len(given)))
    place = {name: known.index(name) for name in given if name in known}
    place |= dict(zip((name for name in given if name not in known), unused, strict=False))
    return {name: _look(place[name]) for name in given}


def _look(place: int) -> dict[str, Any]:
    """Return the look of a place; every further eight repeat the colours with other lines."""
    again, first = divmod(place, len(COLOURS))
    lines = (*STYLES, (0, (7, 1.5, 1, 1.5, 1, 1.5)))
    return {
        "color": COLOURS[first],
        "linestyle": lines[(first % len(STYLES) + again) % len(lines)],
        "marker": MARKERS[(first + 3 * again) % len(MARKERS)],
    }


def plot_gaps(results: Sequence[Result], ax: Axes | None = None) -> Axes:
    """Draw the optimality gap of every solver as a bar, in per cent on a logarithmic axis.

    With several seeds the bar is the median, with a whisker from the least to the greatest.
    """
    ax = ax or new_axes()
    runs: dict[str, list[Result]] = {}
    for result in results:
        runs.setdefault(result.solver, []).append(result)
    known = [100 * result.gap for result in results if result.gap > SMALLEST_GAP]
    left = min([1e-3, *(gap / 5 for gap in known)])
    best = best_of(results)
    for row, (solver, group) in enumerate(runs.items()):
        gaps = [max(100 * r.gap, left / 10) for r in group if not math.isnan(r.gap)]
        if gaps:
            middle = float(np.median(gaps))
            ax.barh(row, middle, color=looks(runs)[solver]["color"], height=0.65)
            reach = [[middle - min(gaps)], [max(gaps) - middle]]
            if len(gaps) > 1:
                ax.errorbar(middle, row, xerr=reach, color="black", capsize=4, linewidth=1.2)
        ax.text(
            1.02,
            row,
            gap_in_words(group, best),
            va="center",
            fontsize="small",
            transform=ax.get_yaxis_transform(),
        )
    ax.set_xscale("log")
    ax.set_xlim(left, 100.0)
    ax.set_yticks(range(len(runs)), list(runs))
    ax.set_ylim(len(runs) - 0.4, -0.6)
    ax.set_xlabel("optimality gap of the fitness (%)")
    ax.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    plain_axes(ax)
    return ax


def plot_comparison(results: Sequence[Result], gaps: Axes, time: Axes) -> None:
    """Draw final gaps in one axes, and gaps over time in another, of the first seed per solver.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.reporting import new_axes, plot_comparison
    >>> from goodalloc.solvers import solve
    >>> gaps, time = new_axes(), new_axes()
    >>> plot_comparison([solve(load_benchmark("tiny-cold"), "greedy")], gaps, time)
    >>> gaps.get_title(), time.get_xlabel()
    ('Gap at the end', 'time (s)')
    """
    plot_gaps(results, gaps)
    gaps.set_title("Gap at the end", fontsize="medium")
    histories: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        points = [(point.seconds, point.fitness) for point in result.history]
        if result.allocation is None:
            points = []
        elif not points:
            points = [(result.solve_seconds, result.fitness)]
        histories.setdefault(result.solver, points)
    best = max((r.fitness for r in results if r.allocation is not None), default=math.nan)
    bound = least_bound(map(Bound.of, results), best)
    if math.isfinite(bound.value):
        end = max(result.solve_seconds for result in results)
        plot_gap_over_time(histories, bound.value, time, end)
    which = ", first seed" if len(histories) < len(results) else ""
    time.set_title(f"Gap over time{which}, compiling apart", fontsize="medium")


def plot_gap_over_time(
    histories: Mapping[str, Sequence[tuple[float, float]]],
    bound: float,
    ax: Axes | None = None,
    end: float | None = None,
) -> Axes:
    """Draw the gap of the best allocation so far against time, one line per solver.

    Parameters
    ----------
    histories
        Seconds and fitness of the incumbents of every solver, in the order of time.
    bound
        A believed upper bound on the fitness.
    ax
        Axes to draw into; a new one if None.
    end
        End of the lines in seconds; slightly after the last incumbent if None.
    """
    ax = ax or new_axes()
    last = max((point[0] for history in histories.values() for point in history), default=1.0)
    end = max(end or 0.0, last * 1.5, 0.01)
    first, look = end, looks(histories)
    gaps = {
        name: [100 * max(bound - point[1], 0.0) / bound for point in history]
        for name, history in histories.items()
    }
    none = place_of_zero([gap for values in gaps.values() for gap in values])
    widths = np.linspace(3.5, 1.0, len(histories)).tolist()  # so that none hides another
    for index, (name, history) in enumerate(histories.items()):
        if not history:
            continue
        seconds = [max(point[0], 1e-4) for point in history]
        heights = [max(gap, none) for gap in gaps[name]]
        first = min(first, seconds[0])
        ax.step(
            [*seconds, end],
            [*heights, heights[-1]],
            where="post",
            label=name,
            linewidth=widths[index],
            **look[name],
            markevery=[0, len(seconds) - 1],
            markersize=3 + 1.5 * widths[index],
            clip_on=False,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(first / 1.5, end)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("optimality gap of the fitness (%)")
    _finish(ax)
    ax.set_yticks(*gap_ticks(none))
    ax.set_ylim(none / 2, 100.0)
    return ax


def plot_gap_profile(gaps: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Draw the share of runs that end within a gap, one line per solver; NaN is a failed run."""
    ax = ax or new_axes()
    none = place_of_zero([100 * gap for values in gaps.values() for gap in values])
    shown = {n: [max(100 * gap, none) for gap in values] for n, values in gaps.items()}
    _draw_profiles(ax, {name: share_within(values) for name, values in shown.items()}, 100.0)
    ax.set_xticks(*gap_ticks(none))
    ax.set_xlim(none / 2, 100.0)
    ax.set_xlabel("optimality gap of the fitness (%)")
    ax.set_ylabel("share of runs within the gap")
    return ax


def plot_performance_profile(
    seconds: Mapping[str, Sequence[float]], ax: Axes | None = None
) -> Axes:
    """Draw the share of runs within a factor of the fastest solver; NaN is a failed run."""
    ax = ax or new_axes()
    costs = np.maximum(np.array(list(seconds.values()), dtype=float).T, 1e-4)
    profiles = dict(zip(seconds, performance_profile(costs), strict=True))
    _draw_profiles(ax, profiles)
    ax.set_xlabel("time over that of the fastest solver (factor)")
    ax.set_ylabel("share of runs within the factor")
    return ax


def _draw_profiles(ax: Axes, profiles: Mapping[str, Profile], end: float = 0.0) -> None:
    """Draw step functions up to `end`, or to twice the largest value if that is more."""
    points = [p.value for p in profiles.values() if p.value.size]
    low, high = (min(p[0] for p in points), max(p[-1] for p in points)) if points else (1.0, 1.0)
    right = max(2 * high, end)
    look = looks(profiles)
    for index, (name, profile) in enumerate(profiles.items()):
        value = np.concatenate([[low / 2], profile.value, [right]])
        share = np.concatenate([[0.0], profile.share, [profile.share.max(initial=0.0)]])
        ax.step(
            value,
            share,
            where="post",
            label=name,
            **look[name],
            markersize=4.5,
            markevery=(0.03 * (index + 1), 0.2),
        )
    ax.set_xscale("log")
    ax.set_xlim(low / 2, right)
    ax.set_ylim(-0.02, 1.04)
    _finish(ax)


def plot_scaling(
    seconds: Mapping[str, Mapping[int, Sequence[float]]], ax: Axes | None = None
) -> Axes:
    """Draw time against the number of jobs, one line per group: medians, and ranges as whiskers.

    A dashed line of slope 1 shows growth in proportion to the size.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import plot_scaling
    >>> ax = plot_scaling({"highs": {10: [0.1, 0.2], 20: [0.3, 0.5]}})
    >>> ax.get_xlabel(), ax.get_xscale()
    ('jobs', 'log')
    """
    ax = ax or new_axes()
    smallest = min(jobs for group in seconds.values() for jobs in group)
    largest = max(jobs for group in seconds.values() for jobs in group)
    bottoms = []
    for index, (name, group) in enumerate(seconds.items()):
        jobs = sorted(group)
        middle = np.array([np.median(group[j]) for j in jobs])
        spread = [[m - min(group[j]), max(group[j]) - m] for j, m in zip(jobs, middle, strict=True)]
        ax.errorbar(
            jobs,
            middle,
            np.array(spread).T,
            label=name,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            capsize=3,
            linewidth=1.5,
        )
        bottoms.append(middle[0])
    start = min(bottoms) / 2
    ax.plot(
        [smallest, largest],
        [start, start * largest / smallest],
        "--",
        color="0.6",
        label="in proportion to the jobs",
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("jobs")
    ax.set_ylabel("instance to checked, proven allocation (s)")
    _finish(ax)
    return ax


def _finish(ax: Axes) -> None:
    """Draw the grid and, if lines have labels, a legend."""
    ax.grid(color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    plain_axes(ax)
    if ax.get_legend_handles_labels()[0]:
        legend_below(ax)


def legend_below(ax: Axes, columns: int = 3, **arguments: Any) -> None:
    """Draw a legend below the label of the horizontal axis, where it hides nothing.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import legend_below, new_axes
    >>> ax = new_axes()
    >>> _ = ax.plot([1, 2], [1, 2], label="a line")
    >>> legend_below(ax)
    >>> ax.get_legend().get_texts()[0].get_text()
    'a line'
    """
    from matplotlib.transforms import ScaledTranslation

    figure = figure_of(ax)
    below = ax.transAxes + ScaledTranslation(0.0, -LEGEND_INCHES, figure.dpi_scale_trans)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=below,
        ncols=columns,
        frameon=False,
        fontsize="small",
        **arguments,
    )


def save(drawn: Axes | Figure, path: Path) -> None:
    """Write a figure, or that of an axes, atomically to a file, in the format of its suffix.

    Raises
    ------
    ValueError
        If the file cannot be written or its suffix is no known format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.reporting import new_axes, save
    >>> save(new_axes(), Path("empty.png"))
    >>> Path("empty.png").read_bytes()[1:4]
    b'PNG'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from goodalloc.experiments.reporting.figure_layout import lay_out  # which imports this module

    figure = figure_of(drawn)
    kind = path.suffix.lstrip(".").lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"File '{path}': expected a name that ends in .png, .pdf or .svg.")
    lay_out(figure)
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    write_bytes_atomically(path, buffer.getvalue())
