"""Items of equal demand to be packed on nodes, and nodes of equal capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.support.array_types import Flags, Floats, Indices

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
        Row that every extra counts for, and the amount that it adds.
    rows
        Number of all rows.
    stay_class, stay_units, stay_row, stay_shared
        Pieces that jobs may keep: class of the node, demand (stays, resources), row that counts
        the piece, and whether it is an extra.
    """

    code: Int[Indices, " items"]
    units: Int[Indices, "items resources"]
    extra_code: Int[Indices, " extras"]
    extra_units: Int[Indices, "extras resources"]
    extra_row: Int[Indices, " extras"]
    extra_amount: Float[Floats, " extras"]
    rows: int
    stay_class: Int[Indices, " stays"]
    stay_units: Int[Indices, "stays resources"]
    stay_row: Int[Indices, " stays"]
    stay_shared: Bool[Flags, " stays"]


@dataclass(frozen=True)
class NodeClasses:
    """Classes of equal nodes: the same type of GPU, equal free capacity, open to distributed jobs
    or not.

    Parameters
    ----------
    code, units, open
        Shapes (classes,), (classes, resources), (classes,).
    count
        Nodes of every class, shape (classes,).
    node_class
        Class of every node, shape (nodes,).
    """

    code: Int[Indices, " classes"]
    units: Int[Indices, "classes resources"]
    open: Bool[Flags, " classes"]
    count: Int[Indices, " classes"]
    node_class: Int[Indices, " nodes"]


def node_classes(
    code: Int[Indices, " nodes"],
    units: Int[Indices, "nodes resources"],
    open_: Bool[Flags, " nodes"],
    single: Bool[Flags, " nodes"] | None = None,
) -> NodeClasses:
    """Group the nodes; those that are `single` have a class of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import node_classes
    >>> units = np.array([[4], [4], [8]])  # free GPUs of three nodes
    >>> classes = node_classes(np.zeros(3, dtype=int), units, open_=np.ones(3, dtype=bool))
    >>> classes.count.tolist()
    [2, 1]
    """
    own = np.zeros(code.size, dtype=np.int64)
    if single is not None:
        own[single] = 1 + np.flatnonzero(single)
    keys = np.column_stack([own, code, open_.astype(np.int64), units])
    found, where, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return NodeClasses(found[:, 1], found[:, 3:], found[:, 2] > 0, count, where.reshape(-1))


def without_stays(
    *,
    code: Int[Indices, " items"],
    units: Int[Indices, "items resources"],
    extra_code: Int[Indices, " extras"],
    extra_units: Int[Indices, "extras resources"],
    extra_row: Int[Indices, " extras"],
    extra_amount: Float[Floats, " extras"],
    rows: int,
) -> Items:
    """Return items where no job keeps its placement.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import without_stays
    >>> none = np.zeros(0, dtype=int)
    >>> items = without_stays(
    ...     code=np.zeros(2, dtype=int),
    ...     units=np.array([[1], [2]]),  # GPUs of two kinds of piece
    ...     extra_code=none,
    ...     extra_units=np.zeros((0, 1), dtype=int),
    ...     extra_row=none,
    ...     extra_amount=np.zeros(0),
    ...     rows=2,
    ... )
    >>> items.stay_row.size
    0
    """
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros((0, units.shape[1]), dtype=np.int64)
    return Items(
        code=code,
        units=units,
        extra_code=extra_code,
        extra_units=extra_units,
        extra_row=extra_row,
        extra_amount=extra_amount,
        rows=rows,
        stay_class=none,
        stay_units=nothing,
        stay_row=none,
        stay_shared=np.zeros(0, dtype=bool),
    )
