"""Whether choices can be packed in parts, and the cut that says that they cannot.

The relaxed packing program (`pattern_master`) of choices taken in whole or in part: pieces on one
node are items, distributed jobs are split at will and count by their replicas, and what a job keeps
is an item of its own nodes. Where something stays unpacked, the prices give a cut (`value_cut`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.mode_choices import (
    choice_demand,
    most_replicas,
    node_capacity,
    replica_demand,
)
from goodalloc.formulations.node_items import Items, NodeClasses, node_classes
from goodalloc.formulations.resource_grid import ResourceGrid
from goodalloc.formulations.value_cut import Cut, CutMaker, held_amounts, type_codes
from goodalloc.models.instance import Instance
from goodalloc.solvers.highs_program import Watch
from goodalloc.solvers.pattern_master import PatternMaster

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Weight of what stays unpacked below which nothing does.
PACKED = 1e-6
#: A cut counts if the choices exceed it by this share.
VIOLATED = 1e-7


@dataclass(frozen=True)
class CutFinder:
    """Finds cuts over the choices of an instance.

    Parameters
    ----------
    instance, choices, grid
        The round, all its choices, the units of its tables.
    watch
        The clock of the solve.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid
    watch: Watch

    def find(self, weight: Floats) -> Cut | None:
        """A cut that these weights of the choices violate, or None where they can be packed.

        Parameters
        ----------
        weight
            How much of every choice is taken, one in all of every job; shape (choices,).
        """
        used = np.flatnonzero(weight > 0)
        taken, share = self.choices.where(used), weight[used]
        classes = self._classes(taken)
        items, demand, entries = self._items(taken, share, classes)
        size = np.ones(items.rows)
        size[: items.code.size] = np.maximum(items.units[:, 0], 1)
        master = PatternMaster(items, classes, self.grid.shape, size, self.watch)
        packed = master.solve(demand, classes.count, bounded=False)
        if not PACKED < packed.unpacked < np.inf:
            return None
        stay = np.zeros(self.instance.current.job.size)
        stay[entries] = packed.price[items.stay_row]
        cut = CutMaker(self.instance, self.choices, self.grid).cut(packed.values, stay)
        violated = float(cut.coefficient @ weight) > cut.upper * (1 + VIOLATED)
        return cut if violated else None

    def _classes(self, taken: Choices) -> NodeClasses:
        """The nodes, empty; those on which a job keeps something have a class of their own."""
        instance, current = self.instance, self.instance.current
        capacity = self.grid.at_most(node_capacity(instance))
        single = np.zeros(len(capacity), dtype=bool)
        single[current.node[np.isin(current.job, taken.job[taken.of(Kind.KEEP)])]] = True
        open_ = np.ones(len(capacity), dtype=bool)
        return node_classes(type_codes(instance)[1], capacity, open_, single)

    def _items(
        self, taken: Choices, share: Floats, classes: NodeClasses
    ) -> tuple[Items, Floats, Indices]:
        """The items, how much of every row there is, and the entries that the stays are."""
        instance, avoid = self.instance, self.instance.rules.interference_avoidance
        codes = type_codes(instance)[0]
        one, several = taken.of(Kind.ONE_NODE), taken.of(Kind.SEVERAL_NODES)
        units = self.grid.at_least(choice_demand(instance, taken.where(one)))
        kinds, counts = _grouped(codes[taken.mode[one]], units, share[one])
        each = self.grid.at_least(replica_demand(instance)[taken.mode[several]])
        replicas = share[several] * taken.replicas[several]
        spread, amounts = _grouped(codes[taken.mode[several]], each, replicas)
        current = instance.current
        kept = np.zeros(instance.num_jobs)
        keep = taken.of(Kind.KEEP)
        kept[taken.job[keep]] = share[keep]
        entries = np.flatnonzero(kept[current.job] > 0)
        stay_shared = (current.job_nodes[current.job[entries]] > 1) & avoid
        first = len(kinds) + len(spread)
        demand = np.concatenate([counts, amounts, kept[current.job[entries]]])
        stays = (
            classes.node_class[current.node[entries]],
            self.grid.at_least(held_amounts(instance)[entries]),
            first + np.arange(entries.size), stay_shared,
        )  # fmt: skip
        if not avoid:  # a distributed piece is then like any other
            kinds, spread = np.concatenate([kinds, spread]), spread[:0]
        extra = self._extras(spread, len(kinds))
        items = Items(
            kinds[:, 0], kinds[:, 1:], extra[:, 0], extra[:, 1:-2], extra[:, -2],
            extra[:, -1].astype(float), demand.size, *stays,
        )  # fmt: skip
        return items, demand, entries

    def _extras(self, spread: Indices, first: int) -> Indices:
        """Every piece that a distributed job may put on a node: code, demand, row, replicas."""
        capacity = self.grid.at_most(node_capacity(self.instance)).astype(float)
        rows = [
            (kind[0], *(kind[1:] * replicas), first + index, replicas)
            for index, kind in enumerate(spread)
            for replicas in range(1, 1 + int(most_replicas(capacity, kind[1:]).max()))
        ]
        return np.array(rows, dtype=np.int64).reshape(len(rows), capacity.shape[1] + 3)


def _grouped(code: Indices, units: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """Distinct pairs of code and demand, and the total weight of each."""
    keys = np.column_stack([code, units])
    kinds, where = np.unique(keys, axis=0, return_inverse=True)
    total = np.bincount(where.reshape(-1), weight, len(kinds))
    return kinds, np.asarray(total, dtype=np.float64)
