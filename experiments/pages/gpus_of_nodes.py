"""Page of a round: the GPUs of every node by job, what changed, and a table of the jobs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.pages.gpu_worth import gpu_worth
from goodalloc.experiments.pages.page_parts import (
    INKS,
    WIDTH,
    heading,
    marks,
    new_figure,
    note,
    page,
    shown_number,
    table,
)
from goodalloc.experiments.pages.tree_of_nodes import (
    counted_domains,
    draw_borders,
    order_of_nodes,
)
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.solvers.interface.bounds import knapsack
from goodalloc.solvers.interface.result import REFUTING_EXCESS

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices

#: Least and greatest width of a GPU, and height that the picture keeps to if it can, in pixels.
CELLS, HEIGHT = (12, 40), 640

#: Width of a letter of a node's name, and greatest height of a job's number, in pixels.
LETTER, NUMBER = 6.2, 13

#: Least width of the picture, for its title and its buttons.
FEWEST_PIXELS = 420

#: Least gap that is told apart from rounding.
LEAST_GAP = 1e-6

#: Most jobs on nodes that are labelled with the number of the job.
MOST_LABELS = 900

#: What the columns of the table on worth say.
WORTH = (
    "One more and one fewer: by how many per cent the fitness changes if this job alone has a GPU "
    "more or fewer, placed as well as can be. Where one more gains above the price that stands at "
    "the top, a job lacks a GPU; where one fewer loses less than that, it has one too many."
)

#: Line around the GPUs of a job, and its width: black and thick where the job starts or restarts.
KEPT, RESTARTED = ("#8a8a8a", 1.0), ("#000000", 2.5)


class Bound(NamedTuple):
    """Fitness that no allocation of a round exceeds.

    Attributes
    ----------
    value
        The fitness.
    source
        Who says so, as in "at most 1 % by a certificate".
    """

    value: float
    source: str


def round_page(
    round_: Instance | TopologyRound, allocation: Allocation, bound: Bound | None = None
) -> str:
    """Return a page of an allocation of a round beside the present one.

    Parameters
    ----------
    round_
        The round, without a tree or on one.
    allocation
        What was decided; the present allocation to show the round alone.
    bound
        A bound on the fitness; None for that of all GPUs in one pool, which is weak where jobs have
        modes or the cluster is a tree.

    Raises
    ------
    ValueError
        If the allocation breaks a rule of the round, or its fitness exceeds the bound.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.experiments.pages import round_page
    >>> instance = generate(seed=0, jobs=8, nodes=4, gpus_per_node=4)
    >>> "<html" in round_page(instance, instance.current)
    True
    """
    tree: TopologyRound | None = None
    if isinstance(round_, TopologyRound):
        tree, broken = round_, topology_violations(round_, allocation)
        instance, allocation = round_.leveled, round_.graded(allocation)
    else:
        instance, broken = round_, violations(round_, allocation)
    if broken:
        message = f"Instance '{instance.name}': {broken[0]}"
        if allocation == instance.current:
            message += " These are its present placements; --allocation shows others."
        raise ValueError(message)
    changes = job_changes(instance, allocation)
    worth = gpu_worth(instance, allocation)
    facts = _facts(instance, allocation, changes, bound)
    if tree is not None:
        facts["tree"] = counted_domains(tree)
    if worth is not None:
        facts["price of a GPU"] = f"{100.0 * worth.price:.2f} % of the fitness"
    title = f"Round {instance.name}"
    told = (
        "A square is a GPU; the name of its node stands on the left. A bar is what a job has of a "
        "node, with the number of the job; a thick black line around it says that the job starts "
        "or restarts. Point at a bar to read about its job; click a heading of the table to sort."
    )
    if tree is not None:
        told += (
            " Lines stand between nodes of different domains of the tree, the thicker the higher "
            "their level."
        )
    parts = [heading(title, facts), note(told), _nodes(instance, allocation, changes, tree)]
    jobs = _jobs(instance, allocation, changes)
    if any(job.modes for job in instance.jobs):
        name = "mode" if tree is None else "held_within"
        jobs.insert(4, name, _modes(instance, allocation, tree))
    if worth is not None:
        parts.append(note(WORTH))
        jobs.insert(5, "one_more_(%)", 100.0 * worth.more)
        jobs.insert(6, "one_fewer_(%)", -100.0 * worth.fewer)
    return page(title, [*parts, table(jobs)])


def job_changes(instance: Instance, allocation: Allocation) -> list[str]:
    """Return for every job what an allocation changes.

    One of "kept", "started", "stopped", "moved" (as many GPUs elsewhere), "resized" or "waits".
    """
    found = []
    before, after = instance.current.placements(), allocation.placements()
    for old, new in zip(before, after, strict=True):
        if old == new:
            found.append("kept" if new else "waits")
        elif not old or not new:
            found.append("started" if new else "stopped")
        else:
            same = sum(gpus for _, gpus in old) == sum(gpus for _, gpus in new)
            found.append("moved" if same else "resized")
    return found


def _facts(
    instance: Instance, allocation: Allocation, changes: list[str], bound: Bound | None
) -> dict[str, str]:
    value = fitness(instance, allocation)
    bound = bound or Bound(knapsack(instance).value, "one pool of all GPUs")
    if value > bound.value * (1.0 + REFUTING_EXCESS):
        raise ValueError(
            f"Instance '{instance.name}': the fitness {value:.9g} exceeds {bound.value:.9g}, the "
            f"bound by {bound.source}; expected one of this round."
        )
    percent = 100.0 * max(1.0 - value / bound.value, LEAST_GAP)
    gap = "–"
    if math.isfinite(bound.value):
        gap = f"at most {shown_number(percent, 2)} % by {bound.source}"
    counts = [f"{changes.count(kind)} {kind}" for kind in dict.fromkeys(sorted(changes))]
    held, gpus = int(allocation.replicas.sum()), instance.cluster.num_gpus
    return {
        "jobs": f"{instance.num_jobs:,}",
        "GPUs held": f"{held:,} of {gpus:,} on {instance.cluster.num_nodes:,} nodes",
        "fitness": shown_number(value, 6),
        "gap": gap,
        "changes": ", ".join(counts),
    }


def _nodes(
    instance: Instance, allocation: Allocation, changes: list[str], tree: TopologyRound | None
) -> Any:
    """Return the picture of all GPUs."""
    cluster = instance.cluster
    most = int(cluster.node_gpus.max())
    letters = max(map(len, cluster.node_names))
    cell, stride, rows = _grid(cluster.num_nodes, most, letters)
    order = np.arange(cluster.num_nodes) if tree is None else order_of_nodes(tree)
    place = np.argsort(order)
    left, top = (place // rows) * stride, place % rows
    margin = LETTER * letters / cell + 0.4
    right = float(left.max()) + most + 0.3
    width = min(max(round(cell * (margin + right)), FEWEST_PIXELS), WIDTH)
    ax = new_figure(
        "GPUs of every node",
        width,
        cell * rows + 60,
        tools="pan,wheel_zoom,reset,save",
        active_drag=None,
        toolbar_location="above",
        x_range=(-margin, max(right, width / cell - margin)),
        y_range=(rows + 0.1, -0.1),
    )
    _draw_gpus(ax, cluster, left, top, f"{min(cell - 2, 11)}px")
    held = _held(instance, allocation, changes, left, top)
    _draw_jobs(ax, held, cell, labels=allocation.job.size <= MOST_LABELS)
    if tree is not None:
        draw_borders(ax, tree, order, left, top, float(most))
    ax.axis.visible = False
    ax.grid.visible = False
    return ax


def _grid(nodes: int, most: int, letters: int) -> tuple[int, int, int]:
    """Return the pixels of a GPU, the GPUs from a column of nodes to the next, and its nodes.

    The largest GPUs with which the nodes keep to `WIDTH` and `HEIGHT`, else the smallest.
    """

    def divided(cell: int) -> tuple[int, int]:
        """Return the GPUs from a column of nodes to the next, and its nodes."""
        stride = most + math.ceil(LETTER * letters / cell) + 1
        return stride, -(-nodes // max(WIDTH // (cell * stride), 1))

    def fits(cell: int) -> bool:
        stride, rows = divided(cell)
        return cell * rows <= HEIGHT and cell * stride <= WIDTH

    cell = next(filter(fits, range(CELLS[1], CELLS[0], -1)), CELLS[0])
    return cell, *divided(cell)


def _draw_gpus(ax: Any, cluster: Cluster, left: Indices, top: Indices, letters: str) -> None:
    """Draw an empty square for every GPU, and the names of the nodes in this size of letters."""
    starts = np.repeat(np.cumsum(cluster.node_gpus) - cluster.node_gpus, cluster.node_gpus)
    ax.rect(
        x=np.repeat(left, cluster.node_gpus) + (np.arange(starts.size) - starts + 0.5),
        y=np.repeat(top, cluster.node_gpus) + 0.5,
        width=0.92,
        height=0.86,
        fill_color="#f2f2f2",
        line_color="#dddddd",
    )
    ax.text(
        x=left - 0.15,
        y=top + 0.5,
        text=list(cluster.node_names),
        text_align="right",
        text_baseline="middle",
        text_font_size=letters,
        text_color="#444444",
    )


def _draw_jobs(ax: Any, held: Any, cell: int, *, labels: bool) -> None:
    """Draw the bars of the jobs, with labels if wanted; a GPU has so many pixels."""
    from bokeh.models import ColumnDataSource, HoverTool

    letters = min(cell * 2 // 5, NUMBER)
    label = [(0.56 * letters * len(number) + 5) / cell for number in held["number"]]
    source = ColumnDataSource(held | {"label": label})
    drawn = ax.rect(
        x="x",
        y="y",
        width="width",
        height=0.86,
        source=source,
        fill_color="fill",
        hatch_pattern="hatch",
        hatch_color="ink",
        hatch_alpha=0.45,
        hatch_scale=8,
        line_color="line",
        line_width="thick",
    )
    if labels:
        place = {"x": "x", "y": "y", "source": source}
        ax.rect(**place, width="label", height=(letters + 4) / cell, color="#ffffff", alpha=0.85)
        ax.text(
            **place,
            text="number",
            text_align="center",
            text_baseline="middle",
            text_font_size=f"{letters}px",
            text_color="#000000",
        )
    tips = [("job", "@job"), ("application", "@application"), ("its GPUs", "@gpus")]
    tips += [("utility", "@utility{0.000}"), ("node", "@node"), ("change", "@change")]
    ax.add_tools(HoverTool(renderers=[drawn], tooltips=tips, visible=False))


def _held(
    instance: Instance, allocation: Allocation, changes: list[str], left: Indices, top: Indices
) -> Any:
    """Return a bar for the GPUs of each job on each of its nodes, with what there is to read."""
    names = instance.cluster.node_names
    fills, hatches = marks(instance.num_jobs)
    reached, slots = utilities(instance, allocation), [0] * instance.cluster.num_nodes
    bars = []
    for job, node, gpus in zip(
        allocation.job.tolist(), allocation.node.tolist(), allocation.replicas.tolist(), strict=True
    ):
        line, thick = KEPT if changes[job] == "kept" else RESTARTED
        bars.append(
            {
                "x": float(left[node]) + slots[node] + gpus / 2,
                "y": float(top[node]) + 0.5,
                "width": gpus - 0.12,
                "fill": fills[job],
                "hatch": hatches[job],
                "ink": INKS[job % len(INKS)],
                "line": line,
                "thick": thick,
                "job": instance.jobs[job].name,
                "application": instance.jobs[job].application or "–",
                "node": names[node],
                "gpus": int(allocation.job_replicas[job]),
                "utility": float(reached[job]),
                "change": changes[job],
                "number": str(job),
            }
        )
        slots[node] += gpus
    columns = "x y width fill hatch ink line thick job application node gpus utility change number"
    return {name: [bar[name] for bar in bars] for name in columns.split()}


def _jobs(instance: Instance, allocation: Allocation, changes: list[str]) -> pd.DataFrame:
    """Return a row for every job."""
    reached, before = utilities(instance, allocation), instance.current.job_replicas
    names = instance.cluster.node_names
    nodes = [
        " ".join(f"{names[node]}:{gpus}" for node, gpus in placement)
        for placement in allocation.placements()
    ]
    return pd.DataFrame(
        {
            "number": np.arange(instance.num_jobs),
            "job": [job.name for job in instance.jobs],
            "application": [job.application for job in instance.jobs],
            "GPUs": allocation.job_replicas,
            "GPUs_before": before,
            "change": changes,
            "utility": reached,
            "weight": [job.weight for job in instance.jobs],
            "age_(s)": [job.age for job in instance.jobs],
            "restarts": [job.restarts for job in instance.jobs],
            "nodes": nodes,
        }
    )


def _modes(instance: Instance, allocation: Allocation, tree: TopologyRound | None) -> list[str]:
    """Return the mode of every job that runs, or on a tree the lowest level that holds it."""
    runs = (allocation.job_replicas > 0).tolist()
    if tree is not None:
        names, levels = tree.topology.level_names, tree.level_of(allocation).tolist()
        return [names[level] if on else "–" for level, on in zip(levels, runs, strict=True)]
    return [
        job.modes[mode].name if job.modes and on else "–"
        for job, mode, on in zip(instance.jobs, allocation.mode.tolist(), runs, strict=True)
    ]
