"""Page of a comparison of solvers: profiles of gaps and seconds, and a table that sorts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.pages.page_parts import (
    FILLS,
    WIDTH,
    heading,
    new_figure,
    note,
    page,
    read_frame,
    table,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats

#: File of the gap benchmark, and columns that a page needs.
GAPS = "gap.csv"
COLUMNS = ("instance", "solver", "seed", "status", "fitness", "bound", "gap", "solve_seconds")

#: Gaps in per cent and seconds below these are drawn as these, on logarithmic axes.
LEAST_GAP, LEAST_SECONDS = 1e-7, 1e-4

#: Dashes of the lines, so that they differ without colour.
DASHES = ("solid", "dashed", "dotted", "dotdash", "dashdot")


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
        "Left: the share of the runs that a solver ends with at most so large a gap to the best "
        "bound that is believed, at least 1e-7 %; right: within so many seconds. Runs without an "
        "allocation are in no share. Click a name of the legend to hide its line, or a heading to "
        "sort."
    )
    shown = percent(runs)
    profiles = (
        plot_shares(shown, solvers, "gap", "gap (%)", LEAST_GAP),
        plot_shares(shown, solvers, "solve_seconds", "seconds", LEAST_SECONDS),
    )
    return page(
        title,
        [
            heading(title, facts),
            note(told),
            row(*profiles),
            table(_averages(shown, solvers), 240),
            table(shown[[*COLUMNS]].rename(columns={"gap": "gap_(%)"})),
        ],
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
    ax = new_figure("", WIDTH // 2, 340, x_axis_type="log", y_range=(-3, 103))
    for index, solver in enumerate(solvers):
        mine = runs[runs["solver"] == solver]
        values, shares = _shares(mine[column].to_numpy(dtype=float), least)
        ax.step(
            values,
            shares,
            mode="after",
            color=FILLS[index % len(FILLS)],
            line_dash=DASHES[(index // 2) % len(DASHES)],
            line_width=2,
            legend_label=solver,
        )
    ax.xaxis.axis_label, ax.yaxis.axis_label = label, "runs (%)"
    ax.legend.click_policy = "hide"
    ax.legend.label_text_font_size = "11px"
    ax.add_layout(ax.legend[0], "right")
    return ax


def _shares(values: Floats, least: float) -> tuple[Floats, Floats]:
    """Return ascending values and the share of all that are at most as large, in per cent."""
    known = np.sort(np.maximum(values[np.isfinite(values)], least))
    shares = 100.0 * np.arange(1, known.size + 1) / max(values.size, 1)
    return np.append(known, known[-1:]), np.append(shares, shares[-1:])


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
