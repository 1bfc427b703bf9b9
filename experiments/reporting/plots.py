"""Pictures of benchmarks: functions that draw into an axes and return it.

Nothing here shows, saves or touches matplotlib's global state; colours are those of Okabe and Ito,
which colour-blind readers tell apart.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import write_bytes_atomically
from goodalloc.experiments.reporting.report import best_of, more_starved
from goodalloc.experiments.reporting.statistics import performance_profile, share_within
from goodalloc.solvers.interface.bounds import Bound, least_bound
from goodalloc.solvers.interface.result import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.statistics import Profile
    from goodalloc.solvers.interface.result import Result

#: Okabe and Ito's colours, the faintest last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")
#: A line for those that come after many others.
DASHED = (0, (7, 1.5, 1, 1.5, 1, 1.5))
#: Solvers in the order of the colours, so that a solver looks the same in every picture.
LOOKS = ("highs", "local_search", "greedy", "genetic", "knapsack", "convex", "pyomo", "brute_force")

#: A gap below this counts as none on a logarithmic axis.
SMALLEST_GAP = 1e-10

#: Distance of a legend from the axis above it.
LEGEND_INCHES = 0.5


def new_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    """An axes on a figure of its own, in inches."""
    from matplotlib.figure import Figure

    axes: Axes = Figure(figsize=(width, height), layout="constrained").subplots()
    return axes


def figure_of(ax: Axes) -> Figure:
    """The figure that an axes is on."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def looks(names: Iterable[str], known: Sequence[str] = LOOKS) -> dict[str, dict[str, Any]]:
    """Colour, line and marker for every name: always the same for the known ones.

    Other names take those that are left, in order. Forty are told apart.
    """
    given = list(dict.fromkeys(names))
    left = [index for index, name in enumerate(known) if name not in given]
    left += list(range(len(known), len(known) + len(given)))
    place = {name: known.index(name) for name in given if name in known}
    place |= dict(zip((name for name in given if name not in known), left, strict=False))
    return {name: _look(place[name]) for name in given}


def _look(place: int) -> dict[str, Any]:
    """Every further eight have the colours once more, each with another line and marker."""
    again, first = divmod(place, len(COLOURS))
    lines = (*STYLES, DASHED)
    return {
        "color": COLOURS[first],
        "linestyle": lines[(first % len(STYLES) + again) % len(lines)],
        "marker": MARKERS[(first + 3 * again) % len(MARKERS)],
    }


def plot_gaps(results: Sequence[Result], ax: Axes | None = None) -> Axes:
    """Optimality gap of every solver as a bar, in per cent on a logarithmic axis.

    Of several seeds the bar is the median, with a whisker from the least to the greatest.
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
            _gap_in_words(group, best),
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
    _open(ax)
    return ax


def _gap_in_words(runs: Sequence[Result], best: Result | None) -> str:
    """The median gap of a solver's runs, how many have none, and how many jobs more starve."""
    gaps = [result.gap for result in runs if not math.isnan(result.gap)]
    if not gaps:
        return "no allocation" if all(r.allocation is None for r in runs) else "no bound"
    failed = f", {len(runs) - len(gaps)} failed" if len(gaps) < len(runs) else ""
    if max(gaps) <= SMALLEST_GAP:
        given = any(result.evidence is Evidence.GIVEN for result in runs)
        return f"0 ({'by a bound given' if given else 'proven optimal'}){failed}"
    median, worst = (
        f"{100 * gap if gap > SMALLEST_GAP else 0:.2g} %" for gap in (np.median(gaps), max(gaps))
    )
    spread = "" if worst == median else f", worst {worst}"
    return f"{median}{spread}{_starved_in_words(runs, best)}{failed}"


def _starved_in_words(runs: Sequence[Result], best: Result | None) -> str:
    """By how many jobs more starve than in the best answer; nothing where as many do."""
    more = [int(number) for run in runs if (number := more_starved(run, best)) != ""]
    if not any(more):
        return ""
    low, high = f"{min(more):+d}", f"{max(more):+d}"
    return f"; {low if low == high else f'{low} to {high}'} starved"


def plot_comparison(results: Sequence[Result], gaps: Axes, time: Axes) -> None:
    """Gaps at the end in one axes, and in another over time, each solver with its first seed."""
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
    """Gap of the best allocation so far against time, one line a solver.

    Parameters
    ----------
    histories
        (seconds, fitness) of the incumbents of every solver, in time order.
    bound
        An upper bound on the fitness that is believed.
    ax
        Where to draw; a new figure if None.
    end
        Seconds to which lines are drawn; a little past the last incumbent if None.
    """
    ax = ax or new_axes()
    last = max((point[0] for history in histories.values() for point in history), default=1.0)
    end = max(end or 0.0, last * 1.5, 0.01)
    first, look = end, looks(histories)
    gaps = {
        name: [100 * max(bound - point[1], 0.0) / bound for point in history]
        for name, history in histories.items()
    }
    none = _place_of_zero([gap for values in gaps.values() for gap in values])
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
    ax.set_yticks(*_gap_ticks(none))
    ax.set_ylim(none / 2, 100.0)
    return ax


def _place_of_zero(gaps: Sequence[float]) -> float:
    """Where a logarithmic axis shows no gap: one decade below the smallest there is."""
    smallest = min((gap for gap in gaps if gap > 100 * SMALLEST_GAP), default=1.0)
    return float(10.0 ** (math.floor(math.log10(smallest)) - 1))


def _gap_ticks(none: float) -> tuple[list[float], list[str]]:
    """Ticks from no gap to 100 %, and what they are called."""
    decades = [10.0**k for k in range(round(math.log10(none)) + 1, 3)]
    kept = decades[:: max(-(-len(decades) // 7), 1)]
    return [none, *kept], ["0", *(f"{tick:g}" for tick in kept)]


def plot_gap_profile(gaps: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Share of runs that end within a gap, one line a solver; NaN is a failed run."""
    ax = ax or new_axes()
    none = _place_of_zero([100 * gap for values in gaps.values() for gap in values])
    shown = {n: [max(100 * gap, none) for gap in values] for n, values in gaps.items()}
    _draw_profiles(ax, {name: share_within(values) for name, values in shown.items()}, 100.0)
    ax.set_xticks(*_gap_ticks(none))
    ax.set_xlim(none / 2, 100.0)
    ax.set_xlabel("optimality gap of the fitness (%)")
    ax.set_ylabel("share of runs within the gap")
    return ax


def plot_performance_profile(
    seconds: Mapping[str, Sequence[float]], ax: Axes | None = None
) -> Axes:
    """Share of runs within a factor of the fastest solver, one line a solver; NaN is a failure."""
    ax = ax or new_axes()
    costs = np.maximum(np.array(list(seconds.values()), dtype=float).T, 1e-4)
    profiles = dict(zip(seconds, performance_profile(costs), strict=True))
    _draw_profiles(ax, profiles)
    ax.set_xlabel("time over that of the fastest solver (factor)")
    ax.set_ylabel("share of runs within the factor")
    return ax


def _draw_profiles(ax: Axes, profiles: Mapping[str, Profile], end: float = 0.0) -> None:
    """Draw step functions to the right edge: `end`, or twice the largest value if that is more."""
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
    """Time against the number of jobs, one line a group: medians, with the range as whiskers.

    A dashed line of slope 1 shows what growing in proportion to the size would look like.
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
    ax.grid(color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    _open(ax)
    if ax.get_legend_handles_labels()[0]:
        legend_below(ax)


def legend_below(ax: Axes, columns: int = 3, **arguments: Any) -> None:
    """A legend under the label of the horizontal axis, where it hides nothing."""
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


def _open(ax: Axes) -> None:
    """Plain numbers on logarithmic axes, and no box."""
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(lambda _value, _: "")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def save(drawn: Axes | Figure, path: Path) -> None:
    """Write a figure, or that of an axes, to a file, atomically, as its name ends.

    Raises
    ------
    ValueError
        If the file cannot be written or its name ends in no known format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else figure_of(drawn)
    kind = path.suffix.lstrip(".").lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"File '{path}': expected a name that ends in .png, .pdf or .svg.")
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    write_bytes_atomically(path, buffer.getvalue())
