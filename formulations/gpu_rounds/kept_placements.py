"""Nodes where jobs may stay: the part of the pattern program with single nodes.

Nodes on which a job may keep its placement cannot be counted with others; equations (P3), (P4) and
(P9)-(P12) of `patterns` say, node by node, who stays and what that leaves for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import keep_choices
from goodalloc.models.support.array_types import Flags, Indices

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import ProgramBuilder
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


#: The columns ``b`` and ``o``, and the node, free GPUs and d of each.
Offers = tuple[Indices, Indices, Indices, Flags]


class StayRows(NamedTuple):
    """Rows that price a stay; one entry of each array is an entry of the matrix.

    Attributes
    ----------
    stay, row, coefficient
        The stay (of `FreeNodes`), the row, and the coefficient of its choice to keep there.
    """

    stay: Int[Indices, " entries"]
    row: Int[Indices, " entries"]
    coefficient: Float[Floats, " entries"]

    def prices(self, duals: Float[Floats, " rows"], num_stays: int) -> Float[Floats, " stays"]:
        """Return the charge of every stay at the rows' prices, shape (stays,)."""
        charged = -duals[self.row] * self.coefficient
        return np.asarray(np.bincount(self.stay, charged, num_stays), dtype=float)


#: Most jobs that may stay on a node for which every set of them has a column of its own.
MOST_STAYS = 5


@dataclass(frozen=True)
class FreeNodes:
    """Free GPUs of every node once the pinned jobs have theirs, and the jobs that may stay there.

    Parameters
    ----------
    gpus
        GPUs not held by pinned jobs, shape (nodes,).
    blocked
        Whether a pinned distributed job keeps other distributed jobs away, shape (nodes,).
    resident
        Whether some job may keep its placement there, shape (nodes,).
    stay_entry, stay_choice, stay_job, stay_node, stay_gpus, stay_spread
        One entry for every (keep choice, node): which entry of the current placements, which
        choice, whose, which node, its GPUs there, and whether the job is distributed.
    """

    gpus: Int[Indices, " nodes"]
    blocked: Bool[Flags, " nodes"]
    resident: Bool[Flags, " nodes"]
    stay_entry: Int[Indices, " stays"]
    stay_choice: Int[Indices, " stays"]
    stay_job: Int[Indices, " stays"]
    stay_node: Int[Indices, " stays"]
    stay_gpus: Int[Indices, " stays"]
    stay_spread: Bool[Flags, " stays"]

    def label(self, stay: int) -> str:
        """Return the name of a stay in a file: its node and its job."""
        return f"{self.stay_node[stay]}_{self.stay_job[stay]}"


def free_nodes(instance: Instance, choices: Choices) -> FreeNodes:
    """Return the GPUs that pinned jobs leave, and the placements that may be kept.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices, free_nodes
    >>> instance = load_benchmark("tiny-cold")
    >>> free = free_nodes(instance, enumerate_choices(instance))
    >>> bool(free.gpus.sum() == instance.cluster.num_gpus)  # nothing runs
    True
    """
    current, pinned = instance.current, instance.pinned
    gpus = instance.cluster.node_gpus.copy()
    held_by_pinned = pinned[current.job]
    np.subtract.at(gpus, current.node[held_by_pinned], current.replicas[held_by_pinned])
    spread = current.job_nodes[current.job] > 1
    blocked = np.zeros(gpus.size, dtype=bool)
    if instance.rules.interference_avoidance:
        blocked[current.node[held_by_pinned & spread]] = True
    choice_of_job = keep_choices(instance, choices)
    stays = (choice_of_job[current.job] >= 0) & ~held_by_pinned
    resident = np.zeros(gpus.size, dtype=bool)
    resident[current.node[stays]] = True
    return FreeNodes(
        gpus=gpus,
        blocked=blocked,
        resident=resident,
        stay_entry=np.flatnonzero(stays),
        stay_choice=choice_of_job[current.job[stays]],
        stay_job=current.job[stays],
        stay_node=current.node[stays],
        stay_gpus=current.replicas[stays],
        stay_spread=spread[stays],
    )


def add_residents(
    builder: ProgramBuilder, instance: Instance, free: FreeNodes
) -> tuple[Offers, StayRows]:
    """Add columns ``b`` and ``o`` of nodes where jobs may stay, and the rows that tell which do."""
    stays_of = np.bincount(free.stay_node, minlength=free.gpus.size)
    parts = [_add_crowded(builder, instance, free, stays_of > MOST_STAYS)]
    for count in range(1, MOST_STAYS + 1):
        nodes = np.flatnonzero(stays_of == count)
        if nodes.size:
            parts.append(_add_states(builder, instance, free, nodes, count))
    offers, rows = zip(*parts, strict=True)
    t, node, size, distributable = (np.concatenate(part) for part in zip(*offers, strict=True))
    stay, row, coefficient = (np.concatenate(part) for part in zip(*rows, strict=True))
    return (t, node, size, distributable), StayRows(stay, row, coefficient)


def _add_states(
    builder: ProgramBuilder,
    instance: Instance,
    free: FreeNodes,
    nodes: Int[Indices, " resident"],
    count: int,
) -> tuple[Offers, StayRows]:
    """Add one column for every node and set of jobs that stay there: (P3) and (P4).

    A column says who stays, so what it offers is known: the convex hull of the node's states.
    """
    at = np.flatnonzero(np.isin(free.stay_node, nodes))
    stays = at[np.argsort(free.stay_node[at], kind="stable")].reshape(nodes.size, count)
    member = (np.arange(2**count)[:, None] >> np.arange(count)) & 1  # (sets, stays)
    size = free.gpus[nodes][:, None] - free.stay_gpus[stays] @ member.T
    spread = free.stay_spread[stays].astype(np.int64) @ member.T
    allowed = size >= 0
    distributable = np.repeat(~free.blocked[nodes][:, None], 2**count, axis=1)
    if instance.rules.interference_avoidance:
        allowed &= spread + free.blocked[nodes][:, None] <= 1
        distributable &= spread == 0
    row, state = np.nonzero(allowed)

    def name_state(i: int) -> str:
        stayers = free.stay_job[stays[row[i]]][member[state[i]] > 0].tolist()
        return "_".join(map(str, (nodes[row[i]], *(stayers or ["none"]))))

    t = builder.add_columns("state", row.size, upper=1.0, label=name_state)
    one = builder.add_rows(
        "one_state", nodes.size, lower=1.0, upper=1.0, label=lambda i: str(nodes[i])
    )  # (P3)
    builder.add_entries(one[row], t, 1.0)
    stay = builder.add_rows(
        "stay", stays.size, lower=0.0, upper=0.0, label=lambda i: free.label(stays.ravel()[i])
    )  # (P4)
    builder.add_entries(stay, free.stay_choice[stays].ravel(), -1.0)
    column, which = np.nonzero(member[state])
    builder.add_entries(stay[row[column] * count + which], t[column], 1.0)
    offers = t, nodes[row], size[row, state], distributable[row, state]
    return offers, StayRows(stays.ravel(), stay, np.full(stay.size, -1.0))


def _add_crowded(
    builder: ProgramBuilder, instance: Instance, free: FreeNodes, crowded: Bool[Flags, " nodes"]
) -> tuple[Offers, StayRows]:
    """Add columns ``o`` and rows (P9)-(P12) of nodes with too many stays to list their sets."""
    nodes = np.flatnonzero(crowded)
    here = np.flatnonzero(crowded[free.stay_node])
    choice, at, gpus = free.stay_choice[here], free.stay_node[here], free.stay_gpus[here]
    has_spread = np.zeros(free.gpus.size, dtype=bool)
    if instance.rules.interference_avoidance:
        has_spread[at[free.stay_spread[here]]] = True
    sizes = free.gpus[nodes]
    open_nodes, closed_nodes = ~free.blocked[nodes], free.blocked[nodes] | has_spread[nodes]
    parts = []
    for to_several, wanted in ((True, open_nodes), (False, closed_nodes)):
        node = np.repeat(nodes[wanted], sizes[wanted])
        ends = np.cumsum(sizes[wanted])
        size = np.arange(1, node.size + 1) - np.repeat(ends - sizes[wanted], sizes[wanted])
        parts.append((node, size, np.full(node.size, to_several)))
    node, size, distributable = (np.concatenate(part) for part in zip(*parts, strict=True))

    def name_offer(i: int) -> str:
        return f"{node[i]}_{size[i]}_{'open' if distributable[i] else 'closed'}"

    def name_node(i: int) -> str:
        return str(nodes[i])

    t = builder.add_columns("offer", node.size, upper=1.0, label=name_offer)
    row_of = np.full(free.gpus.size, -1)
    row_of[nodes] = builder.add_rows("capacity", nodes.size, upper=sizes, label=name_node)  # (P9)
    builder.add_entries(row_of[node], t, size)
    builder.add_entries(row_of[at], choice, gpus)
    priced = [(here, row_of[at], gpus.astype(np.float64))]
    row_of[nodes] = builder.add_rows("one_offer", nodes.size, upper=1.0, label=name_node)  # (P10)
    builder.add_entries(row_of[node], t, 1.0)
    stay_rows = builder.add_rows(
        "stay", at.size, upper=1.0, label=lambda i: free.label(here[i])
    )  # (P11)
    builder.add_entries(stay_rows, choice, 1.0)
    priced.append((here, stay_rows, np.ones(here.size)))
    by_node = np.argsort(node, kind="stable")
    first = np.searchsorted(node[by_node], at, side="left")
    count = np.searchsorted(node[by_node], at, side="right") - first
    which = np.repeat(np.arange(count.size), count)
    offset = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)
    offer = by_node[first[which] + offset]
    large = size[offer] > free.gpus[at[which]] - gpus[which]
    builder.add_entries(stay_rows[which[large]], t[offer[large]], 1.0)
    mixed = np.flatnonzero(has_spread)
    row_of[mixed] = builder.add_rows(
        "interference", mixed.size, upper=1.0, label=lambda i: str(mixed[i])
    )  # (P12)
    touching = free.stay_spread[here] & has_spread[at]
    builder.add_entries(row_of[at[touching]], choice[touching], 1.0)
    touched = here[touching]
    priced.append((touched, row_of[at[touching]], np.ones(touched.size)))
    spreadable = distributable & has_spread[node]
    builder.add_entries(row_of[node[spreadable]], t[spreadable], 1.0)
    rows = StayRows(*(np.concatenate(part) for part in zip(*priced, strict=True)))
    return (t, node, size, distributable), rows
