"""Parts that all pages share: headings, tables that sort, axes, and the file around them (Bokeh).

A page holds everything that it needs, the library included, and asks no server for anything.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.models.support.validation import literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats

#: Width of a page, in pixels.
WIDTH = 1180

#: Fills that can be told apart in grey: neighbours differ in lightness, the last and the first too.
FILLS = ("#0b3c5d", "#6fb98f", "#7a3b00", "#b8a9c9", "#328cc1", "#cfe8ef", "#d9822b", "#d9b310")

#: Colour of a pattern on each of them.
INKS = ("#ffffff", "#000000", "#ffffff", "#000000", "#ffffff", "#000000", "#000000", "#000000")

#: Patterns on top of them, one after the other, as Bokeh names them.
HATCHES = (" ", "/", "o", "x", "-", "\\", ".", "|")

#: Colours of lines: none too pale for a thin line, and neighbours differ in lightness.
STROKES = ("#0b3c5d", "#c8741a", "#5c3a92", "#328cc1", "#7a3b00", "#4f9d78", "#a8325e")

#: Most rows of a table, and how many are seen without scrolling.
MOST_ROWS, SEEN_ROWS = 5_000, 15

#: Height of a row of a table and of its headings, and width of a letter with the margins of a cell.
ROW, HEAD, CELL_LETTER, CELL_MARGIN = 25, 27, 6.6, 18

#: Widest column in proportion to the others; what is cut is read by pointing at it.
WIDEST = 240

#: A text in a cell, which shows itself whole when one points at it; escaped.
TEXT_CELL = '<span title="<%- value %>"><%- value %></span>'


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


def table(frame: pd.DataFrame, rows: int = SEEN_ROWS) -> Any:
    """Return a table that sorts by the column that is clicked.

    Columns are as wide as what they hold, numbers stand on the right.

    Parameters
    ----------
    frame
        The rows; only the first `MOST_ROWS` are shown, which is then said above.
    rows
        How many are seen without scrolling.
    """
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, DataTable, InlineStyleSheet

    shown = frame.head(MOST_ROWS)
    cells = {str(name): _cells(shown[name]) for name in shown.columns}
    style = ".slick-cell { padding-left: 4px; padding-right: 4px; }"
    for place, values in enumerate(cells.values(), 1):
        if values.dtype.kind in "if":
            name = f".slick-header-column:nth-child({place}) .slick-column-name"
            style += f" {name} {{ float: right; }}"
    drawn = DataTable(
        source=ColumnDataSource({name: values.to_numpy() for name, values in cells.items()}),
        columns=[_table_column(name, values) for name, values in cells.items()],
        width=WIDTH,
        height=HEAD + ROW * min(len(shown), rows),
        row_height=ROW,
        index_position=None,
        reorderable=False,  # the style of a heading goes by its place
        stylesheets=[InlineStyleSheet(css=style)],
    )
    if len(frame) <= MOST_ROWS:
        return drawn
    return column(note(f"The first {MOST_ROWS:,} of {len(frame):,} rows."), drawn)


def _cells(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return numbers as they are, and anything else as text."""
    if values.dtype.kind in "if":
        return values
    if values.dtype.kind == "b":
        return values.map({True: "yes", False: "no"})
    return values.astype(object).where(values.notna(), "–").astype(str).astype(object)


def _table_column(name: str, values: pd.Series[Any]) -> Any:
    """Return a column of a table, as wide as its heading and its longest text."""
    from bokeh.models import HTMLTemplateFormatter, NumberFormatter, TableColumn

    title = name.replace("_", " ")
    formatter: Any = HTMLTemplateFormatter(template=TEXT_CELL)
    longest = 0
    if values.dtype.kind in "if":
        digits = decimals(values.to_numpy(dtype=float))
        shape = "0,0." + "0" * digits if digits else "0,0"
        formatter = NumberFormatter(format=shape, text_align="right", nan_format="–")
        for value in (values.min(), values.max()):
            longest = max(longest, len(f"{value:,.{digits}f}"))
    elif len(values):
        longest = int(values.str.len().max())
    width = CELL_LETTER * max(len(title), longest) + CELL_MARGIN
    return TableColumn(
        field=name, title=title, width=min(round(width), WIDEST), formatter=formatter
    )


def decimals(values: Floats) -> int:
    """Return how many decimals a column of numbers is shown with: the fewer, the larger they are.

    Parameters
    ----------
    values
        The numbers; those that are not finite do not count.
    """
    known = np.abs(values[np.isfinite(values)])
    if not known.size or (known == np.round(known)).all():
        return 0
    return int(np.clip(5 - math.floor(math.log10(known.max())), 1, 4))


#: Columns of names, which may be NA or 01.
NAMES = ("job", "application", "policy", "solver", "instance", "round")


#: Columns of other words.
STATES = ("status",)


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
        If it is no table, or lacks one of them, or one has a text in place of a number.
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
        if column not in (*NAMES, *STATES):
            numbers = pd.to_numeric(frame[column], errors="coerce")
            if (wrong := np.flatnonzero(numbers.isna() & frame[column].notna())).size:
                row = int(wrong[0])
                raise ValueError(
                    f"File '{path}', line {row + 2}: {column} is "
                    f"{literal(str(frame[column].iloc[row]))}; expected a number."
                )
    return frame


def new_figure(title: str, width: int, height: int, **options: Any) -> Any:
    """Return axes that can be moved and magnified."""
    from bokeh.plotting import figure

    given = {"tools": "xpan,xwheel_zoom,box_zoom,reset,save", "active_drag": "box_zoom", **options}
    ax: Any = figure(title=title, width=width, height=height, **given)
    ax.grid.grid_line_color = "#e6e6e6"
    ax.title.text_font_size = "13px"
    ax.toolbar.logo = None
    ax.outline_line_color = None
    ax.axis.minor_tick_line_color = None
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
