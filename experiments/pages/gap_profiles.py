"""Page of a comparison of solvers: profiles of gaps and seconds, and a table that sorts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.pages.page_parts import (
    STROKES,
    WIDTH,
    heading,
    new_figure,
    note,
    page,
    read_frame,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats

#: File of the gap benchmark, and columns that a page needs.
GAPS = "gap.csv"
COLUMNS = ("instance", "solver", "seed", "status", "fitness", "bound", "gap", "solve_seconds")

#: Gaps in per cent and seconds below these are drawn as these, on logarithmic axes.
LEAST_GAP, LEAST_SECONDS = 1e-7, 1e-4

#: Dashes of the lines, so that they differ without colour: pixels of line and of gap in turn.
DASHES: Sequence[Sequence[int]] = ((), (8, 3), (2, 3), (8, 3, 2, 3), (16, 6))


def read_gaps(path: Path) -> pd.DataFrame:
    """Read the runs of the gap benchmark.

    Raises
    ------
    ValueError
        If the file is no such table.
    """
    frame = read_frame(path, COLUMNS)
    if frame.empty:
        raise ValueError(f"File '{path}' has no runs; expected at least one.")
    return frame


def gap_page(runs: pd.DataFrame) -> str:
    """Return a page of the runs of a gap benchmark.

    Parameters
    ----------
    runs
        A row for each run, with `COLUMNS`.

    Examples
    --------
    >>> import pandas as pd
    >>> from goodalloc.experiments.pages import gap_page
    >>> row = {"instance": "a", "solver": "highs", "seed": 0, "status": "optimal", "fitness": 1.0}
    >>> row |= {"bound": 1.0, "gap": 0.0, "solve_seconds": 0.1}
    >>> "<html" in gap_page(pd.DataFrame([row]))
    True
    """
    from bokeh.layouts import row

    solvers = list(dict.fromkeys(runs["solver"]))
    title = "Solvers on " + (
        f"{runs['instance'].nunique()} rounds" if runs["instance"].nunique() > 1 else "one round"
    )
    facts = {"solvers": ", ".join(solvers), "runs": f"{len(runs):,}"}
    told = (
        "Left: the share of the runs that a solver ends with at most so large a gap to the bound "
        "of its row, at least 1e-7 %; right: within so many seconds. All rows of the file count; "
        "runs without an allocation are in no share. Click a name of the legend to hide its line, "
        "or a heading to sort."
    )
    shown = percent(runs)
    return page(
        title,
        [
            heading(title, facts),
            note(told),
            row(*profiles(shown, solvers)),
            table(_averages(shown, solvers)),
            table(shown[[*COLUMNS]].rename(columns={"gap": "gap_(%)"})),
        ],
    )


def profiles(runs: pd.DataFrame, solvers: list[str]) -> tuple[Any, Any]:
    """Return axes of the gaps and of the seconds; runs without an allocation are in no share.

    Parameters
    ----------
    runs
        A row for each run, gaps in per cent.
    solvers
        Names in the order of their lines.
    """
    answered = runs.where(runs["fitness"].notna()).assign(solver=runs["solver"])
    return (
        plot_shares(answered, solvers, "gap", "gap (%)", LEAST_GAP),
        plot_shares(answered, solvers, "solve_seconds", "seconds", LEAST_SECONDS),
    )


def percent(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with their gaps in per cent."""
    return runs.assign(gap=100.0 * runs["gap"])


def plot_shares(
    runs: pd.DataFrame, solvers: list[str], column: str, label: str, least: float
) -> Any:
    """Return axes with the share of the runs up to each value of a column, by solver.

    Parameters
    ----------
    runs
        Rows with the column and with ``solver``; NaN counts as no value.
    solvers
        Names in the order of their lines.
    column, label
        Column, and label of the axis.
    least
        Least value that the logarithmic axis shows.
    """
    ax = new_figure("", WIDTH // 2, 360, x_axis_type="log", y_range=(-3, 103))
    known = np.maximum(runs[column].to_numpy(dtype=float), least)
    known = known[np.isfinite(known)]
    ends = (float(known.min()), float(known.max())) if known.size else (least, 1.0)
    for index, solver in enumerate(solvers):
        mine = runs[runs["solver"] == solver]
        values, shares = _shares(mine[column].to_numpy(dtype=float), least, ends)
        ax.step(
            values,
            shares,
            mode="after",
            color=STROKES[index % len(STROKES)],
            line_dash=list(DASHES[index % len(DASHES)]),
            line_width=2,
            legend_label=solver,
        )
    ax.xaxis.axis_label, ax.yaxis.axis_label = label, "runs (%)"
    ax.legend.click_policy = "hide"
    ax.legend.label_text_font_size = "11px"
    ax.legend.glyph_width = 34  # a whole dash and dot
    ax.legend.border_line_color = None
    ax.legend.spacing = 0
    ax.add_layout(ax.legend[0], "right")
    return ax


def _shares(values: Floats, least: float, ends: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return ascending values and the share of all that are at most as large, in per cent.

    From the first of two ends, with a share of 0, to the second, with the last share.
    """
    known = np.sort(np.maximum(values[np.isfinite(values)], least))
    shares = 100.0 * np.arange(known.size + 1) / max(values.size, 1)
    return np.concatenate(([ends[0]], known, [ends[1]])), np.append(shares, shares[-1])


def _averages(runs: pd.DataFrame, solvers: list[str]) -> pd.DataFrame:
    """Return a row for each solver."""
    rows = []
    for solver in solvers:
        mine = runs[runs["solver"] == solver]
        rows.append(
            {
                "solver": solver,
                "runs": len(mine),
                "optimal": int((mine["status"] == "optimal").sum()),
                "mean_gap_(%)": float(mine["gap"].mean()),
                "largest_gap_(%)": float(mine["gap"].max()),
                "median_(s)": float(mine["solve_seconds"].median()),
                "most_(s)": float(mine["solve_seconds"].max()),
            }
        )
    return pd.DataFrame(rows)
