"""Page of replays side by side: who held which GPUs when, the queue, goodput and gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.pages.gpus_over_time import (
    BARS,
    FADED,
    gpus_picture,
    select_jobs_together,
)
from goodalloc.experiments.pages.page_parts import (
    WIDTH,
    heading,
    new_figure,
    note,
    page,
    shown_number,
    table,
)
from goodalloc.experiments.pages.replay_files import held_by_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.pages.replay_files import Replayed
    from goodalloc.experiments.placements.gpus_held import Held
    from goodalloc.models.support.array_types import Floats

#: Lightness of a job's bar by its GPUs: each for twice as many as the one before, from 1.
SHADES = ("#a9cbea", "#86b0d8", "#6093c4", "#3f78ae", "#20578b", "#0f3a63", "#061f38")

#: Heights of a curve, and of what is below the last one of a column, in pixels.
CURVE, HOURS = 118, 38

#: Width of the buttons beside the pictures, in pixels.
TOOLS = 40

#: Titles of the curves of a replay by column; those without a value are left out.
CURVES = {
    "active_jobs": "jobs: submitted (grey area) and running (line)",
    "allocated_gpus": "GPUs held",
    "goodput": "goodput (thousand examples/s)",
    "gap": "gap of the decision (%)",
}

#: What the values of a curve are multiplied by.
FACTORS = {"goodput": 0.001, "gap": 100.0}

#: Headings of the table of a replay, where they are not the names of the columns.
COLUMNS = {
    "submission": "submission (s)",
    "start": "start (s)",
    "completion": "completion (s)",
    "jct": "from submission to completion (s)",
    "attained_service": "GPU seconds",
}

#: What the pictures tell of the GPUs of a node, with the placements and without.
WHICH = (
    "Second picture: a row is a GPU, and neighbouring rows are those of a node; a bar is the time "
    "in which a job held one or several. A bar of half the height is a job on GPUs of another one. "
    "GPUs of a node are alike: decisions say how many of them a job gets, and the picture leaves "
    "it those that it has."
)
HOW_MANY = (
    "Where the picture of the GPUs is missing, the replay did not write placements, or too many to "
    "draw: the bars tell how many GPUs a job held, not which."
)

#: Most bars of GPUs on a page, whose file would become too large.
MOST_BARS = 45_000

#: Least gap, in per cent, that is told apart from rounding.
LEAST_GAP = 1e-4

#: Axes reach at least this far, so that gaps that are nothing but rounding look like nothing.
LEAST_TOP = 0.01


def bars(replayed: Replayed) -> pd.DataFrame:
    """Return a row for every time that a job held one number of GPUs.

    Columns: row of the job by submission, job, begin and end in hours, GPUs.

    Parameters
    ----------
    replayed
        The records.
    """
    jobs = _in_order(replayed)
    place = {name: index for index, name in enumerate(jobs["job"])}
    ends = dict(zip(jobs["job"], jobs["completion"], strict=True))
    samples = replayed.samples.sort_values(["job", "time"], kind="stable")
    name, time = samples["job"].to_numpy(), samples["time"].to_numpy(dtype=float)
    gpus, restarts = samples["gpus"].to_numpy(), samples["restarts"].to_numpy()
    new = np.ones(len(samples), dtype=bool)
    new[1:] = (name[1:] != name[:-1]) | (gpus[1:] != gpus[:-1]) | (restarts[1:] != restarts[:-1])
    first = np.flatnonzero(new)
    begin, held, who = time[first], gpus[first], name[first]
    end = np.append(begin[1:], np.nan)
    last = np.append(who[1:] != who[:-1], True)
    end[last] = [ends.get(one, np.nan) for one in who[last]]
    end = np.where(np.isfinite(end), end, time.max() if len(time) else 0.0)
    frame = pd.DataFrame(
        {
            "row": [place.get(one, -1) for one in who],
            "job": who,
            "begin": begin / 3600.0,
            "end": np.maximum(end, begin) / 3600.0,
            "gpus": held,
        }
    )
    return frame[(frame["gpus"] > 0) & (frame["row"] >= 0)].reset_index(drop=True)


def _in_order(replayed: Replayed) -> pd.DataFrame:
    """Return the jobs in order of submission."""
    return replayed.jobs.sort_values("submission", kind="stable")


def rounds_and_idleness(replayed: Replayed) -> pd.DataFrame:
    """Return the rounds, with a row of zeros wherever no job is left.

    The simulator decides nothing while there are no jobs, so that the last round before such a time
    would seem to last.

    Parameters
    ----------
    replayed
        The records.
    """
    jobs = _in_order(replayed)
    end = jobs["completion"].fillna(np.inf).to_numpy(dtype=float)
    last_end = np.maximum.accumulate(end)
    next_submission = np.append(jobs["submission"].to_numpy(dtype=float)[1:], np.inf)
    idle = last_end[last_end < next_submission]
    empty = pd.DataFrame(0.0, index=range(idle.size), columns=replayed.rounds.columns)
    empty["time"] = idle
    if "gap" in empty:
        empty["gap"] = np.nan
    rounds = pd.concat([replayed.rounds, empty], ignore_index=True)
    return rounds.sort_values("time", kind="stable", ignore_index=True)


def replay_page(replays: Mapping[str, Replayed]) -> str:
    """Return a page of one replay, or of several side by side with one axis of time.

    Parameters
    ----------
    replays
        Records by the name of the policy.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> import pandas as pd
    >>> from goodalloc.experiments.pages import replay_page
    >>> from goodalloc.experiments.pages.replay_files import Replayed
    >>> jobs = {"job": ["a"], "application": ["ncf"], "submission": [0.0], "start": [60.0]}
    >>> jobs |= {"completion": [120.0], "jct": [120.0], "restarts": [0]}
    >>> rounds = {"time": [60], "active_jobs": [1], "running_jobs": [1], "allocated_gpus": [2]}
    >>> samples = {"time": [60], "job": ["a"], "gpus": [2], "restarts": [0]}
    >>> frames = (pd.DataFrame(one) for one in (jobs, rounds, samples))
    >>> "<html" in replay_page({"pollux": Replayed(*frames)})
    True
    """
    from bokeh.layouts import gridplot
    from bokeh.models import Range1d

    if not replays:
        raise ValueError("Page of replays: there are none; expected at least one.")
    last = max(float(one.jobs["completion"].max()) / 3600.0 for one in replays.values())
    shared = Range1d(start=0.0, end=last * 1.01 if np.isfinite(last) else 1.0)
    width = (WIDTH - TOOLS) // min(len(replays), 3)
    tops = {column: _top(column, replays) for column in CURVES}
    found = {name: held_by_jobs(one) for name, one in replays.items()}
    most = MOST_BARS // len(replays)
    held = {name: bars if len(bars) <= most else [] for name, bars in found.items()}
    columns = [_column(name, one, held[name], width, shared, tops) for name, one in replays.items()]
    for column, drawn in zip(columns, held.values(), strict=True):
        if any(held.values()) and not drawn:
            column.insert(1, None)
    select_jobs_together([ax for column in columns for ax in column if ax is not None])
    depth = max(map(len, columns))
    grid = [
        [column[row] if row < len(column) else None for column in columns] for row in range(depth)
    ]
    title = "Replay under " + ", ".join(replays)
    averages = ", ".join(
        f"{name} {shown_number(float(one.jobs['jct'].mean()) / 3600.0, 3)} h"
        for name, one in replays.items()
    )
    facts = {
        "jobs": f"{max(len(one.jobs) for one in replays.values()):,}",
        "from submission to completion, on average": averages,
    }
    told = (
        "A line is a job from submission to completion, in order of submission; a bar is the time "
        "in which it held GPUs, the darker the more, and a gap or a change of shade is a restart. "
        "Click a bar to mark its job in all pictures, and beside the bars to mark none. All "
        "pictures share the axis of time, and those in a row that of values: drag to magnify, "
        "reset with the button at the side."
    )
    parts: list[Any] = [heading(title, facts), note(told)]
    parts += [note(WHICH)] if any(held.values()) else []
    parts += [] if all(held.values()) else [note(HOW_MANY)]
    parts.append(_shades())
    parts.append(gridplot(grid, merge_tools=True, toolbar_location="right"))
    if len(replays) > 1:
        parts += [note("Hours from submission to completion:"), table(_beside(replays))]
    else:
        jobs = next(iter(replays.values())).jobs
        parts.append(table(jobs.rename(columns=COLUMNS)))
    return page(title, parts)


def _shades() -> Any:
    """Return what the shades of the bars mean."""
    from bokeh.models import Div

    square = "<span style='display:inline-block;width:22px;height:11px;background:{}'></span> {}"
    most = len(SHADES) - 1
    shown = [
        square.format(shade, f"{2**level}" if level < most else f"{2**level} and more")
        for level, shade in enumerate(SHADES)
    ]
    text = "GPUs, from &nbsp;" + " &nbsp; ".join(shown)
    styles: Any = {"font-family": "sans-serif", "font-size": "13px", "color": "#444444"}
    return Div(text=text, width=WIDTH, styles=styles)


def _beside(replays: Mapping[str, Replayed]) -> pd.DataFrame:
    """Return completion times of every job under all policies, in hours."""
    first = next(iter(replays.values())).jobs[["job", "application", "submission"]]
    first = first.rename(columns={"submission": "submission (s)"})
    for name, one in replays.items():
        hours = one.jobs[["job", "jct"]].assign(jct=one.jobs["jct"] / 3600.0)
        first = first.merge(hours.rename(columns={"jct": f"{name} (h)"}), on="job", how="left")
    return first


def _top(column: str, replays: Mapping[str, Replayed]) -> float:
    """Return the largest value of a curve under all policies, in the units of its picture."""
    factor = FACTORS.get(column, 1.0)
    values = [
        pd.to_numeric(one.rounds[column], errors="coerce").max()
        for one in replays.values()
        if column in one.rounds
    ]
    known = [factor * float(value) for value in values if np.isfinite(value)]
    return max([*known, LEAST_TOP])


def _column(
    name: str,
    replayed: Replayed,
    held: Sequence[Held],
    width: int,
    shared: Any,
    tops: Mapping[str, float],
) -> list[Any]:
    """Return the pictures of a replay, one above the other."""
    found = [_jobs_picture(name, replayed, width, shared)]
    if held:
        order = {job: row for row, job in enumerate(_in_order(replayed)["job"])}
        found.append(gpus_picture(held, order, replayed.cluster, width, shared))
    rounds = rounds_and_idleness(replayed)
    hours = rounds["time"].to_numpy(dtype=float) / 3600.0
    for column, title in CURVES.items():
        if column not in rounds:
            continue
        values = pd.to_numeric(rounds[column], errors="coerce").to_numpy(dtype=float)
        if not np.isfinite(values).any():
            continue
        values = FACTORS.get(column, 1.0) * values
        if column == "gap":
            most = max(float(np.nanmax(values)), LEAST_GAP)
            title = f"{title}, {shown_number(most, 2)} at most"
        ax = new_figure(title, width, CURVE, x_range=shared, y_range=(0.0, 1.05 * tops[column]))
        ax.yaxis.ticker.desired_num_ticks = 4
        if column == "gap":
            ax.scatter(hours, values, size=3, color="#20578b")
        elif column == "active_jobs":
            ax.varea_step(x=hours, y1=0.0 * values, y2=values, step_mode="after", color="#cccccc")
            _steps(ax, hours, rounds["running_jobs"].to_numpy(dtype=float), "#0f3a63")
        else:
            _steps(ax, hours, values, "#20578b")
        found.append(ax)
    for ax in found[1:-1]:
        ax.xaxis.major_label_text_font_size = "0px"
    if len(found) > 1:
        found[-1].height = CURVE + HOURS
    found[-1].xaxis.axis_label = "hours"
    return found


def _steps(ax: Any, hours: Floats, values: Floats, colour: str) -> None:
    """Draw values that hold until the next, without points where nothing changes."""
    changed = np.ones(values.size, dtype=bool)
    changed[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    kept = changed & np.isfinite(values)
    ax.step(hours[kept], values[kept], mode="after", color=colour, line_width=1.3)


def _jobs_picture(name: str, replayed: Replayed, width: int, shared: Any) -> Any:
    """Return the picture of the jobs over time."""
    from bokeh.models import ColumnDataSource, HoverTool, TapTool

    jobs = _in_order(replayed)
    count = len(jobs)
    height = int(min(max(260, 4 * count), 620))
    ax = new_figure(name, width, height, x_range=shared, y_range=(count + 0.5, -1.5))
    end = jobs["completion"].fillna(replayed.rounds["time"].max()).to_numpy(dtype=float)
    ax.segment(
        x0=jobs["submission"].to_numpy(dtype=float) / 3600.0,
        x1=end / 3600.0,
        y0=np.arange(count),
        y1=np.arange(count),
        line_color="#b5b5b5",
        line_width=0.6,
    )
    held = bars(replayed)
    level = np.minimum(np.log2(held["gpus"].to_numpy(dtype=float)).astype(int), len(SHADES) - 1)
    source = ColumnDataSource(
        {
            "top": held["row"].to_numpy(dtype=np.float32) - 0.42,
            "bottom": held["row"].to_numpy(dtype=np.float32) + 0.42,
            "begin": held["begin"].to_numpy(dtype=np.float32),
            "end": held["end"].to_numpy(dtype=np.float32),
            "gpus": held["gpus"].to_numpy(dtype=np.int32),
            "job": held["job"].tolist(),
            "shade": np.array(SHADES)[level],
        }
    )
    drawn = ax.quad(
        left="begin",
        right="end",
        top="top",
        bottom="bottom",
        source=source,
        name=BARS,
        fill_color="shade",
        line_color=None,
        nonselection_fill_alpha=FADED,
    )
    tips = [("job", "@job"), ("GPUs", "@gpus"), ("hours", "@begin{0.00} to @end{0.00}")]
    ax.add_tools(HoverTool(renderers=[drawn], tooltips=tips), TapTool(renderers=[drawn]))
    ax.yaxis.axis_label = "jobs, in order of submission"
    ax.grid.visible = False
    return ax
