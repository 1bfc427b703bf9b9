"""Certificates of tiny rounds from plain linear programs, for testing the checker.

The program of a leaf has a column for every choice (with every way to place it in groups of nodes)
and for everything that a node can hold. Its duals are the prices: of pieces, of pieces of
distributed jobs, and of what jobs keep. A second program knows no nodes, only totals by group; its
duals are the prices of resources.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from goodalloc.formulations.basics.power_mean_cost import (
    fitness_from_cost,
    least_useful,
    power_cost,
)
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices, node_capacity
from goodalloc.models.round.objective import fitness
from tests.support.certification.certificates import certificate, choice_name, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats
    from tests.support.certification.certificates import Document


#: Highest price: more than any allocation of a random round costs, where costs are a few units.
PENALTY = 1e5

#: A piece: its group of nodes, its units, and whether few like it may share a node.
Piece = tuple[int, tuple[int, ...], bool]


@dataclass(frozen=True)
class Leaf:
    """What the linear program of a leaf says: its value, its prices, and how it decides."""

    value: float
    prices: Document
    taken: Floats


@dataclass(frozen=True)
class Programs:
    """The linear programs of a tiny round, in which every choice has a cost.

    Parameters
    ----------
    instance, choices, costs
        The round, all its choices, and what each costs.
    """

    instance: Instance
    choices: Choices
    costs: Floats

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """Units of every node that jobs may have that are not pinned, shape (nodes, resources)."""
        current, unit = self.instance.current, np.array(units(self.instance))
        room = np.floor(node_capacity(self.instance) * (1 + 1e-9) / unit + 1e-9).astype(np.int64)
        pinned = self.instance.pinned[current.job]
        np.subtract.at(room, current.node[pinned], self.held[pinned])
        return np.asarray(room)

    @cached_property
    def held(self) -> NDArray[np.int64]:
        """Units of every entry of the current allocation, shape (entries, resources)."""
        current = self.instance.current
        rows = (self.instance.first_mode + current.mode)[current.job]
        return np.asarray(self.each[rows] * current.replicas[:, None])

    @cached_property
    def each(self) -> NDArray[np.int64]:
        """Units of a replica in every mode, shape (modes, resources)."""
        each = self.instance.mode_demand / np.array(units(self.instance))
        return np.asarray(np.rint(each), dtype=np.int64)

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """Group of every node, shape (nodes,)."""
        groups = self.instance.cluster.groups
        return np.asarray(np.repeat(np.arange(len(groups)), [group.nodes for group in groups]))

    def _pieces(self, row: int, replicas: int, *, shared: bool) -> list[Piece]:
        """Where so many replicas may be as one piece."""
        taken, found = self.each[row] * replicas, []
        for g, group in enumerate(self.instance.cluster.groups):
            serves = self.instance.modes[row].gpu_type in ("", group.gpu_type)
            if serves and self.instance.most_in_group[row, g] >= replicas:
                found.append((g, tuple(taken.tolist()), shared))
        return found

    def placements(self, choice: int) -> list[tuple[Piece, ...]]:
        """All ways to place a choice anew, by groups; nothing where it is idle or kept."""
        kind, row = self.choices.kind[choice], int(self.choices.mode[choice])
        replicas, rules = int(self.choices.replicas[choice]), self.instance.rules
        if kind in (Kind.IDLE, Kind.KEEP):
            return [()]
        if kind == Kind.ONE_NODE:
            return [(piece,) for piece in self._pieces(row, replicas, shared=False)]
        most = min(rules.max_nodes_per_job, self.instance.cluster.num_nodes)
        found: set[tuple[Piece, ...]] = set()
        for split in partitions(replicas, most):
            ways = [self._pieces(row, k, shared=rules.interference_avoidance) for k in split]
            found |= {tuple(sorted(way)) for way in itertools.product(*ways)}
        return sorted(found)

    def contents(self, node: int, pieces: list[Piece], stays: list[int]) -> Iterator[Counter[Any]]:
        """All that a node may hold: pieces, and entries that stay."""
        current, instance = self.instance.current, self.instance
        several = (current.job_nodes > 1) & instance.rules.interference_avoidance
        items: list[Any] = [
            (piece, piece[1], piece[2]) for piece in pieces if piece[0] == self.group[node]
        ]
        items += [
            (i, tuple(self.held[i].tolist()), bool(several[current.job[i]]))
            for i in stays
            if current.node[i] == node
        ]
        here = current.job[current.node == node]
        closed = bool(np.any(several[here] & instance.pinned[here]))

        def extend(first: int, room: tuple[int, ...], alone: bool) -> Iterator[list[Any]]:
            yield []
            for at in range(first, len(items)):
                item, size, shared = items[at]
                rest = tuple(a - b for a, b in zip(room, size, strict=True))
                if min(rest) < 0 or (shared and alone):
                    continue
                again = at + isinstance(item, int)
                for others in extend(again, rest, alone or shared):
                    yield [item, *others]

        for held in extend(0, tuple(self.room[node].tolist()), closed):
            yield Counter(held)

    def leaf(self, allowed: NDArray[np.bool_], *, nodes: bool) -> Leaf | None:
        """The program over the choices that are allowed, with nodes or with totals of groups only.

        None where a job has no choice.
        """
        instance, current = self.instance, self.instance.current
        places = [(i, way) for i in np.flatnonzero(allowed) for way in self.placements(int(i))]
        keeps = {int(self.choices.job[i]) for i in self.choices.of(Kind.KEEP) if allowed[i]}
        free = ~instance.pinned[current.job]
        stays = [i for i, j in enumerate(current.job.tolist()) if j in keeps and free[i]]
        pieces = sorted({piece for _, way in places for piece in way})
        program = _Program()
        for i, way in places:
            job: int = int(self.choices.job[i])
            items: list[Any] = list(way)
            if self.choices.kind[i] == Kind.KEEP:
                items += [k for k in stays if current.job[k] == job]
            uses: Mapping[Any, float] = Counter(items) if nodes else self._totals(items)
            program.add(float(self.costs[i]), {("job", job): 1.0}, uses)
        if nodes:
            for node in range(instance.cluster.num_nodes):
                for content in self.contents(node, pieces, stays):
                    negative = {item: -count for item, count in content.items()}
                    program.add(0.0, {("node", node): 1.0}, negative)
        room = [self.room[self.group == g].sum(axis=0) for g in range(len(instance.cluster.groups))]
        limits = (
            {} if nodes else {(g, r): n for g, row in enumerate(room) for r, n in enumerate(row)}
        )
        solved = program.solve(limits)
        if solved is None:
            return None
        value, duals, x = solved
        taken = np.zeros(len(self.choices))
        np.add.at(taken, [i for i, _ in places], x[: len(places)])
        return Leaf(value, self._prices(duals), taken)

    def _totals(self, items: list[Any]) -> dict[Any, float]:
        """What pieces and entries take in all, by group and resource."""
        taken: Counter[Any] = Counter()
        for item in items:
            entry = isinstance(item, int)
            group = int(self.group[self.instance.current.node[item]]) if entry else item[0]
            for r, amount in enumerate(self.held[item].tolist() if entry else item[1]):
                taken[group, r] += amount
        return dict(taken)

    def _prices(self, duals: dict[Any, float]) -> Document:
        """Duals as a leaf of a certificate has them."""
        count, width = len(self.instance.cluster.groups), self.room.shape[1]
        prices: Document = {
            "resources": [[0.0] * width for _ in range(count)],
            "pieces": [[] for _ in range(count)],
            "distributed": [[] for _ in range(count)],
            "stays": [0.0] * self.instance.current.job.size,
        }
        for item, price in duals.items():
            if isinstance(item, int):
                prices["stays"][item] = price
            elif len(item) == 2:
                prices["resources"][item[0]][item[1]] = price
            elif price > 0:
                prices["distributed" if item[2] else "pieces"][item[0]].append([*item[1], price])
        if not self.instance.rules.interference_avoidance:
            del prices["distributed"]
        return prices

    def tree(
        self, allowed: NDArray[np.bool_], depth: int, *, nodes: bool
    ) -> tuple[Document, float]:
        """A tree of leaves, split where choices are fractional, and its least value."""
        leaf = self.leaf(allowed, nodes=nodes)
        if leaf is None:
            return {"prices": {}}, math.inf
        fraction = np.abs(leaf.taken - np.rint(leaf.taken))
        if depth == 0 or fraction.max() < 1e-6:
            return {"prices": leaf.prices}, leaf.value
        choice = int(np.argmax(fraction))
        job = int(self.choices.job[choice])
        other = self.choices.job != job
        here = np.arange(len(self.choices)) == choice
        inside, low = self.tree(allowed & (here | other), depth - 1, nodes=nodes)
        outside, high = self.tree(allowed & ~here, depth - 1, nodes=nodes)
        split = {
            "job": job,
            "choices": [choice_name(self.instance, self.choices, choice)],
            "inside": inside,
            "outside": outside,
        }
        return split, min(low, high)


class _Program:
    """A linear program that grows column by column; rows are known by any name."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.equal: list[dict[Any, float]] = []
        self.uses: list[Mapping[Any, float]] = []

    def add(self, cost: float, equal: dict[Any, float], uses: Mapping[Any, float]) -> None:
        """Add a column: its cost, where it counts for a total of 1, and what it uses."""
        self.costs.append(cost)
        self.equal.append(equal)
        self.uses.append(uses)

    def solve(self, limits: dict[Any, float]) -> tuple[float, dict[Any, float], Floats] | None:
        """Value, prices of what is used (0 of it is there unless `limits` says more), and columns.

        Whoever uses more than there is pays `PENALTY`, so that prices say why something cannot be.
        """
        names = sorted({name for uses in self.uses for name in uses}, key=repr)
        ones = sorted({name for equal in self.equal for name in equal})
        for name in names:
            self.add(PENALTY, {}, {name: -1.0})
        found = linprog(
            self.costs,
            _matrix(names, self.uses) if names else None,
            [limits.get(name, 0.0) for name in names] if names else None,
            _matrix(ones, self.equal),
            np.ones(len(ones)),
            method="highs",
        )
        if found.status != 0:
            return None
        duals = np.maximum(-found.ineqlin.marginals, 0.0).tolist() if names else []
        return float(found.fun), dict(zip(names, duals, strict=True)), found.x


def _matrix(names: list[Any], columns: Sequence[Mapping[Any, float]]) -> Floats:
    """Columns as a matrix with a row for every name."""
    row = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(names), len(columns)))
    for at, column in enumerate(columns):
        for name, amount in column.items():
            matrix[row[name], at] = amount
    return matrix


def programs(
    instance: Instance, fitness: float, bound: float
) -> tuple[Programs, NDArray[np.bool_]]:
    """The programs of a round, and which choices an allocation better than a known one may use.

    Parameters
    ----------
    instance, fitness
        The round, and what some allocation is worth; costs refer to it.
    bound
        At an infinite power, the bound to be proved.
    """
    choices, power = enumerate_mode_choices(instance, prune=False), instance.rules.power
    if math.isinf(power):
        costs = np.where(choices.utility <= bound, 1.0, 0.0)
        return Programs(instance, choices, costs), np.ones(len(choices), dtype=bool)
    useful = choices.utility >= least_useful(fitness, instance.num_jobs, power)
    costs = np.zeros(len(choices))
    costs[useful] = power_cost(choices.utility[useful], power, fitness)
    return Programs(instance, choices, costs), useful


def certify(
    instance: Instance,
    allocation: Allocation,
    *,
    depth: int = 0,
    nodes: bool = True,
    above: float = 1e-9,
) -> tuple[Document, float]:
    """A certificate from linear programs, and the bound that they give but for rounding.

    Parameters
    ----------
    instance, allocation
        A tiny round and an allocation of it.
    depth
        How often choices are split.
    nodes
        Whether pieces on nodes are priced, or resources.
    above
        By how much, relatively, the claim exceeds the programs' bound.
    """
    value, power = fitness(instance, allocation), instance.rules.power
    wanted = value * (1 + above)
    program, allowed = programs(instance, value, wanted)
    tree, total = program.tree(allowed, depth, nodes=nodes)
    if math.isinf(power):
        least = 1e-9 if power < 0 else instance.num_jobs - 1 + 1e-9
        bound = value if total > least else math.inf
        return certificate(instance, tree, wanted, None), bound
    bound = 0.0 if total == math.inf else fitness_from_cost(total, instance.num_jobs, power, value)
    bound = max(bound, value)
    return certificate(instance, tree, min(bound * (1 + above), 1e99), value), bound


def partitions(total: int, parts: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a sum of 2 numbers or more, in ascending order."""
    for first in range(least, total // 2 + 1):
        if parts >= 2:
            yield first, total - first
            for others in partitions(total - first, parts - 1, first):
                yield first, *others
