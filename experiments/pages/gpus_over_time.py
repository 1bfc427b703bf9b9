"""Picture of the GPUs of a replay over time: which job held each of them, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.pages.page_parts import FILLS, new_figure
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.placements.gpus_held import Held

#: Height of a GPU in pixels where they are few, and least and greatest height of the picture.
GPU_HEIGHT, HEIGHTS = 9, (150, 640)

#: Most names of nodes beside the picture.
MOST_NAMES = 20

#: Pixels of a bar from which on the bars have a line around them.
LEAST_OUTLINED = 4

#: Opacity of the bars of other jobs while one is selected.
FADED = 0.12

#: Name by which the bars of a picture are found.
BARS = "bars"

#: Script that selects all bars of a job, in every picture, when one of them is clicked.
SELECT_JOB = """
const wanted = new Set(clicked.selected.indices.map((bar) => clicked.data.job[bar]));
for (const source of sources) {
    const all = [];
    source.data.job.forEach((job, bar) => { if (wanted.has(job)) all.push(bar); });
    const old = source.selected.indices;
    if (all.length !== old.length || all.some((bar, place) => bar !== old[place])) {
        source.selected.indices = all;
    }
}
"""


def gpus_picture(
    held: Sequence[Held], order: Mapping[str, int], cluster: Cluster | None, width: int, hours: Any
) -> Any:
    """Return the picture: a row for every GPU, a bar for every time that a job held it.

    Parameters
    ----------
    held
        Who held which GPUs when; at least one.
    order
        Place of every job by submission, which decides the fill of its bars.
    cluster
        The nodes; None if they are not known but for the GPUs that were held.
    width
        Width of the picture in pixels.
    hours
        Range of the axis of time.
    """
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, TapTool
    from bokeh.transform import linear_cmap

    cluster = _whole(held, cluster)
    first_row = np.concatenate([[0], np.cumsum(cluster.node_gpus)])
    total = int(first_row[-1])
    height = int(np.clip(GPU_HEIGHT * total, *HEIGHTS))
    ax = new_figure("GPUs of every node", width, height, x_range=hours, y_range=(total, 0))
    if GPU_HEIGHT * cluster.num_nodes <= HEIGHTS[1]:
        ax.hspan(y=first_row[1:-1].tolist(), line_color="#c8c8c8", line_width=0.6)
    top = np.array([first_row[one.node] + one.first + 0.5 * one.guest for one in held])
    bottom = np.array([first_row[one.node] + one.first + one.gpus for one in held])
    names = cluster.node_names
    seconds = np.array([one.end - one.begin for one in held])
    last = max(one.end for one in held)
    outlined = width * float(np.median(seconds)) >= LEAST_OUTLINED * last
    source = ColumnDataSource(
        {
            "top": top.astype(np.float32),
            "bottom": bottom.astype(np.float32),
            "begin": np.array([one.begin / 3600.0 for one in held], dtype=np.float32),
            "end": np.array([one.end / 3600.0 for one in held], dtype=np.float32),
            "fill": np.array([order[one.job] % len(FILLS) for one in held], dtype=np.uint8),
            "gpus": np.array([one.gpus for one in held], dtype=np.int32),
            "job": [one.job for one in held],
            "node": [names[one.node] for one in held],
        }
    )
    drawn = ax.quad(
        left="begin",
        right="end",
        top="top",
        bottom="bottom",
        source=source,
        name=BARS,
        fill_color=linear_cmap("fill", FILLS, -0.5, len(FILLS) - 0.5),
        line_color="#ffffff" if outlined else None,
        line_width=0.4,
        nonselection_fill_alpha=FADED,
    )
    tips = [("job", "@job"), ("GPUs", "@gpus on @node"), ("hours", "@begin{0.00} to @end{0.00}")]
    ax.add_tools(HoverTool(renderers=[drawn], tooltips=tips), TapTool(renderers=[drawn]))
    middles = (first_row[:-1] + first_row[1:]) / 2.0
    shown = range(0, len(names), -(-len(names) // MOST_NAMES))
    ax.yaxis.ticker = FixedTicker(ticks=[float(middles[node]) for node in shown])
    ax.yaxis.major_label_overrides = {float(middles[node]): names[node] for node in shown}
    ax.grid.visible = False
    return ax


def _whole(held: Sequence[Held], cluster: Cluster | None) -> Cluster:
    """Return the cluster with all nodes that were held; equal nodes where it is not known."""
    nodes = max(one.node for one in held) + 1
    if cluster is None:
        return Cluster.uniform(nodes, max(one.first + one.gpus for one in held))
    return cluster.resized(max(nodes, cluster.num_nodes))


def select_jobs_together(pictures: Sequence[Any]) -> None:
    """Let a click on a bar of a job mark all bars of that job, in all of these pictures.

    Parameters
    ----------
    pictures
        Pictures with bars that have a column ``job``.
    """
    from bokeh.models import CustomJS

    sources = [drawn.data_source for ax in pictures for drawn in ax.select({"name": BARS})]
    for source in sources:
        script = CustomJS(args={"sources": sources, "clicked": source}, code=SELECT_JOB)
        source.selected.js_on_change("indices", script)
