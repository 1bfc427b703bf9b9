"""Parts that all pages share: headings, tables that sort, axes, and the file around them (Bokeh).

A page holds everything that it needs, the library included, and asks no server for anything.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Width of a page, in pixels.
WIDTH = 1180

#: Fills that differ in lightness, from dark to light, so that they can be told apart in grey.
FILLS = ("#0b3c5d", "#7a3b00", "#328cc1", "#d9822b", "#6fb98f", "#d9b310", "#b8a9c9", "#cfe8ef")

#: Patterns on top of them, one after the other, as Bokeh names them.
HATCHES = (" ", "/", "o", "x", "-", "\\", ".", "|")

#: Most rows of a table.
MOST_ROWS = 5_000


def marks(count: int) -> tuple[list[str], list[str]]:
    """Return a fill and a pattern for each of `count` things, neighbours never alike."""
    fills = [FILLS[index % len(FILLS)] for index in range(count)]
    hatches = [HATCHES[(index // len(FILLS)) % len(HATCHES)] for index in range(count)]
    return fills, hatches


def heading(title: str, facts: Mapping[str, str]) -> Any:
    """Return a heading with a line of facts below, as text that people selected may have written.

    Parameters
    ----------
    title, facts
        The title, and values by their names.
    """
    from bokeh.models import Div

    shown = " · ".join(
        f"{html.escape(name)} <b>{html.escape(value)}</b>" for name, value in facts.items()
    )
    text = f"<h1 style='margin:0 0 4px 0;font-size:22px'>{html.escape(title)}</h1>{shown}"
    return Div(text=text, width=WIDTH, styles={"font-family": "sans-serif", "font-size": "14px"})


def note(text: str) -> Any:
    """Return a paragraph."""
    from bokeh.models import Div

    styles: Any = {"font-family": "sans-serif", "font-size": "13px", "color": "#444444"}
    return Div(text=html.escape(text), width=WIDTH, styles=styles)


def table(frame: pd.DataFrame, height: int = 420) -> Any:
    """Return a table that sorts by the column that is clicked.

    Parameters
    ----------
    frame
        The rows; only the first `MOST_ROWS` are shown.
    height
        Its height in pixels.
    """
    from bokeh.models import ColumnDataSource, DataTable, NumberFormatter, TableColumn

    shown = frame.head(MOST_ROWS)
    columns = []
    for name in shown.columns:
        kind = shown[name].dtype.kind
        formatter = {"i": "0,0", "f": "0,0.[0000]"}.get(kind)
        options: dict[str, Any] = {}
        if formatter:
            options["formatter"] = NumberFormatter(format=formatter)
        title = str(name).replace("_", " ")
        columns.append(TableColumn(field=str(name), title=title, **options))
    values: Any = {str(name): shown[name].to_numpy() for name in shown.columns}
    source = ColumnDataSource(values)
    rows = 28 * (len(shown) + 1) + 8
    return DataTable(
        source=source, columns=columns, width=WIDTH, height=min(height, rows), index_position=None
    )


#: Columns of names, which may be NA or 01.
NAMES = ("job", "application", "policy", "solver", "instance", "round")


def read_frame(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a table of results.

    Parameters
    ----------
    path
        A CSV file.
    columns
        Columns that it must have.

    Raises
    ------
    ValueError
        If it is no table, or lacks one of them.
    """
    try:
        frame = pd.read_csv(path)
        names = [name for name in NAMES if name in frame.columns]
        frame[names] = pd.read_csv(path, usecols=names, dtype=str, keep_default_na=False)[names]
    except (ValueError, OSError) as error:
        raise ValueError(f"File '{path}' is no table ({error}).") from error
    for column in columns:
        if column not in frame.columns:
            raise ValueError(f"File '{path}': column '{column}' is missing.")
    return frame


def new_figure(title: str, width: int, height: int, **options: Any) -> Any:
    """Return axes that can be moved and magnified."""
    from bokeh.plotting import figure

    given = {"tools": "xpan,xwheel_zoom,box_zoom,reset,save", "active_drag": "box_zoom", **options}
    ax: Any = figure(title=title, width=width, height=height, **given)
    ax.grid.grid_line_color = "#e6e6e6"
    ax.title.text_font_size = "13px"
    ax.toolbar.logo = None
    return ax


def page(title: str, parts: Sequence[Any]) -> str:
    """Return a page of these parts, one below the other, with the library inside."""
    from bokeh.embed import file_html
    from bokeh.layouts import column
    from bokeh.resources import INLINE

    return str(file_html(column(*parts), resources=INLINE, title=title))


def shown_number(value: float, digits: int = 4) -> str:
    """Return a number for people; a dash where it is unknown."""
    return f"{value:,.{digits}g}" if np.isfinite(value) else "–"
