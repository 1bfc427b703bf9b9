"""Nodes of a tree in a picture: those of a domain beside each other, with lines between domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Colour of the lines between domains, and width of the line between those of the lowest level.
BORDER, THINNEST = "#333333", 1.5


def order_of_nodes(round_: TopologyRound) -> Indices:
    """Return the nodes in an order in which those of every domain follow each other.

    Parameters
    ----------
    round_
        The round on a tree.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> order_of_nodes(generate_on_tree(0, nodes=4, jobs=2)).tolist()
    [0, 1, 2, 3]
    """
    nodes = np.arange(round_.domain.shape[1])
    return np.lexsort((nodes, *round_.domain[1:]))


def borders(round_: TopologyRound, order: Indices) -> Indices:
    """Return the highest level at which each node is apart from the one before; 0 for none.

    Parameters
    ----------
    round_, order
        The round, and the order of its nodes.
    """
    apart = np.diff(round_.domain[:, order], axis=1, prepend=round_.domain[:, order[:1]]) != 0
    apart[0] = False  # of nodes, all are apart
    places = np.arange(apart.shape[0])[:, None]
    highest: Indices = (places * apart).max(axis=0)
    return highest


def counted_domains(round_: TopologyRound) -> str:
    """Return how many domains there are of every level between node and cluster, as words."""
    levels = list(zip(round_.topology.level_names, round_.domain, strict=True))[1:-1]
    return ", ".join(f"{np.unique(domains).size:,} × {name}" for name, domains in levels)


def draw_borders(
    ax: Any, round_: TopologyRound, order: Indices, left: Indices, top: Indices, reach: float
) -> None:
    """Draw a line between nodes of different domains, the thicker the higher their level.

    Parameters
    ----------
    ax
        Axes of the picture.
    round_, order
        The round, and the order of its nodes.
    left, top
        Place of every node in the picture, shape (nodes,).
    reach
        How far the lines go to the right of a node's first GPU.
    """
    level = borders(round_, order)
    shown = np.flatnonzero(level)
    nodes, height = order[shown], level[shown]
    ax.segment(
        x0=left[nodes] - 0.15,
        x1=left[nodes] + reach,
        y0=top[nodes],
        y1=top[nodes],
        line_color=BORDER,
        line_width=THINNEST * height,
    )
