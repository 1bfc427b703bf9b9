"""Figure of an allocation, the GPUs of every node by job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.plots import legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance

IDLE_COLOUR = "#EDEDED"

#: Nodes up to which every GPU's job is named.
MOST_LABELLED_NODES = 32


def plot_allocation(instance: Instance, allocation: Allocation, ax: Axes | None = None) -> Axes:
    """Draw an allocation: a row for each node, a square for each GPU, coloured by application.

    Numbers are the jobs' indices, where there is room for them; distributed jobs are hatched.

    Parameters
    ----------
    instance, allocation
        What was decided.
    ax
        Where to draw; a new figure if None.
    """
    from matplotlib.patches import Patch, Rectangle

    ax = ax or new_axes()
    colours = _application_colours(instance)
    distributed = allocation.job_nodes > 1
    next_slot = [0] * instance.cluster.num_nodes
    labelled = instance.cluster.num_nodes <= MOST_LABELLED_NODES
    for node, gpus in enumerate(instance.cluster.node_gpus.tolist()):
        for slot in range(gpus):
            ax.add_patch(Rectangle((slot, node), 0.94, 0.9, facecolor=IDLE_COLOUR))
    order = np.lexsort((allocation.job, -allocation.replicas, allocation.node))
    entries = (allocation.job[order], allocation.node[order], allocation.replicas[order])
    for job, node, gpus in zip(*(part.tolist() for part in entries), strict=True):
        slot = next_slot[node]
        next_slot[node] += gpus
        face = colours[instance.jobs[job].application]
        hatch = "////" if distributed[job] else None
        ax.add_patch(
            Rectangle(
                (slot, node),
                gpus - 0.06,
                0.9,
                facecolor=face,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.0,
            )
        )
        if labelled:
            _label(
                ax,
                slot + gpus / 2 - 0.03,
                node + 0.45,
                str(job),
                face,
                boxed=bool(distributed[job]),
            )
    _label_nodes(ax, instance)
    served = {instance.jobs[job].application for job in allocation.job.tolist()}
    handles = [
        Patch(facecolor=colour, label=name or "?")
        for name, colour in colours.items()
        if name in served
    ]
    if allocation.replicas.sum() < instance.cluster.num_gpus:
        handles.append(Patch(facecolor=IDLE_COLOUR, label="idle"))
    if distributed.any():
        handles.append(
            Patch(facecolor="#888888", hatch="////", edgecolor="white", label="several nodes")
        )
    legend_below(ax, 4, handles=handles)
    return ax


def _application_colours(instance: Instance) -> dict[str, str]:
    """Return the colours of the applications, of rising lightness, distinct also in grey."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    names = sorted({job.application for job in instance.jobs})
    shades = colormaps["viridis"](np.linspace(0.0, 0.92, len(names)))
    return {name: to_hex(shade) for name, shade in zip(names, shades, strict=True)}


def _label(ax: Axes, x: float, y: float, text: str, face: str, *, boxed: bool) -> None:
    """Draw a number on a coloured square, dark on light and light on dark."""
    red, green, blue = (int(face[i : i + 2], 16) for i in (1, 3, 5))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 130
    box = {"facecolor": face, "edgecolor": "none", "pad": 0.8} if boxed else None
    ax.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=6.5,
        color="white" if dark else "black",
        bbox=box,
    )


def _label_nodes(ax: Axes, instance: Instance) -> None:
    names = instance.cluster.node_names
    step = max(-(-len(names) // MOST_LABELLED_NODES), 1)
    shown = range(0, len(names), step)
    ax.set_yticks([node + 0.45 for node in shown], [names[node] for node in shown])
    widest = int(instance.cluster.node_gpus.max())
    ax.set_xticks([slot + 0.47 for slot in range(widest)], [str(i) for i in range(widest)])
    ax.tick_params(length=0, labelsize="small")
    ax.set_xlim(-0.1, widest + 0.1)
    ax.set_ylim(len(names) + 0.1, -0.2)
    for side in ax.spines.values():
        side.set_visible(False)
    numbered = "; numbers are jobs" if len(names) <= MOST_LABELLED_NODES else ""
    ax.set_xlabel(f"GPU of the node{numbered}")
    ax.set_ylabel("node")
    ax.set_title(f"Who gets which GPUs: {instance.name}", fontsize="medium")
