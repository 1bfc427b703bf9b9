"""What is to be packed on nodes: items of equal demand, and nodes of equal capacity."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Code of items that any type of GPU serves.
ANY_TYPE = -1


@dataclass(frozen=True)
class Items:
    """Items, and the rows that count them.

    Row *i* of the packing counts item *i*, whole pieces that may share a node freely. The rows
    after those count what distributed jobs get: an *extra* is a piece of which a node holds at most
    one, and adds an amount to such a row.

    Parameters
    ----------
    code, units
        Type of GPU (or `ANY_TYPE`) and demand of every item, shapes (items,), (items, resources).
    extra_code, extra_units
        The same of every extra.
    extra_row, extra_amount
        Which row it counts for, and how much.
    rows
        Number of all rows.
    """

    code: Indices
    units: Indices
    extra_code: Indices
    extra_units: Indices
    extra_row: Indices
    extra_amount: Floats
    rows: int


@dataclass(frozen=True)
class NodeClasses:
    """Nodes that are alike: the same type of GPU, as much left, open to distributed jobs or not.

    Parameters
    ----------
    code, units, open
        Shapes (classes,), (classes, resources), (classes,).
    count
        Nodes of every class, shape (classes,).
    node_class
        Class of every node, shape (nodes,).
    """

    code: Indices
    units: Indices
    open: Flags
    count: Indices
    node_class: Indices


def node_classes(code: Indices, units: Indices, open_: Flags) -> NodeClasses:
    """Group the nodes."""
    keys = np.column_stack([code, open_.astype(np.int64), units])
    found, where, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return NodeClasses(found[:, 0], found[:, 2:], found[:, 1] > 0, count, where.reshape(-1))
