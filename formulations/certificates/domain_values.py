r"""Worth of the domains of a tree at given prices of what they hold: nested knapsacks.

Let jobs pay by the GPUs that they have: :math:`\pi_k` for *k* GPUs on one node, :math:`\rho_{lk}`
for *k* GPUs on several nodes that a domain of level *l* holds, up to a level *L*;
:math:`\lambda` a GPU for those that only higher levels hold; :math:`\delta` for an entry of the
present placements that is kept. With the knapsacks *f* of :math:`\pi` and :math:`\phi_l` of
:math:`\rho_l` (`formulations/mode_rounds/node_values.py`), a node *v* of which *g* GPUs go to jobs
on several nodes, and a domain *d* of which *g* GPUs go to jobs that it does not hold, are worth

.. math::

    A_v(g) = \max_S \Bigl\{ \sum_{j \in S} \delta_{jv} + f(R_v - h(S) - g) \Bigr\}, \qquad
    B_d(g) = \max_{t \ge g} \Bigl\{ \max_{\sum_c g_c = t} \sum_{c \in d} B_c(g_c)
             + \phi_l(t - g) \Bigr\},                                                        (1)

over the sets *S* of jobs that may stay on the node, the parts *c* of the domain, and
:math:`B_v = A_v`. No allocation pays more than :math:`W = \sum_d \max_g \{B_d(g) + \lambda g\}`
over the domains of level *L*, since *f* and :math:`\phi_l` are superadditive and every GPU goes to
one job. Which pieces of nodes a job has does not matter here. What has a price at a higher level
has it at a lower one, too, and a GPU of one node has it at every level: GPUs that could earn it
there are not worth less (`DomainPrices.all_levels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.topology.tree_choices import level_of_choices

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Most GPUs of a domain that is looked at as a whole.
MOST_GPUS = 128


def knapsack(prices: Float[Floats, " sizes"], most: int) -> NodeValue:
    """Return the most that any numbers of pieces are worth together, by the room for them.

    Parameters
    ----------
    prices, most
        Price of a piece of every size, from 0 on, and the largest room.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.certificates import knapsack
    >>> knapsack(np.array([0.0, 0.0, 2.0, 3.5]), 6).alone.tolist()
    [0.0, 0.0, 2.0, 3.5, 4.0, 5.5, 7.0]
    """
    sizes = np.arange(1, min(prices.size, most + 1))
    return node_value(sizes[:, None], prices[sizes], (most + 1,))


def _pieces(value: NodeValue, room: int) -> list[int]:
    """Return the sizes of the pieces of a `knapsack` that are worth most within a room."""
    count = value.pattern(np.array([room]))
    return np.repeat(value.size[:, 0], count).tolist()


@dataclass(frozen=True)
class DomainPrices:
    """Prices of jobs by where they are held, all at least 0; see (1).

    Parameters
    ----------
    one_node
        Price of a job on so many GPUs of one node, from 0 on.
    levels
        By level up to *L*, price of a job on so many GPUs of several nodes.
    above
        Price of a GPU of a job that higher levels hold.
    stays
        Price of every entry of the present placements.
    """

    one_node: Float[Floats, " gpus"]
    levels: tuple[Float[Floats, " gpus"], ...]
    above: float
    stays: Float[Floats, " entries"]

    @cached_property
    def least(self) -> float:
        """Price of a GPU of a job that higher levels hold, no less than that of one GPU alone."""
        alone = float(self.one_node[1]) if self.one_node.size > 1 else 0.0
        return max(self.above, alone)

    @cached_property
    def all_levels(self) -> tuple[Float[Floats, " gpus"], ...]:
        """By level, the prices of that and of all higher ones."""
        found = [np.array([0.0, self.least])]
        for prices in self.levels[::-1]:
            size = max(prices.size, found[-1].size)
            pair = (np.pad(some, (0, size - some.size)) for some in (prices, found[-1]))
            found.append(np.maximum(*pair))
        return tuple(found[:0:-1])

    def times(self, factor: float) -> DomainPrices:
        """Return the prices times a factor."""
        return DomainPrices(
            self.one_node * factor,
            tuple(prices * factor for prices in self.levels),
            self.above * factor,
            self.stays * factor,
        )


class Held(NamedTuple):
    """What a domain of level *L* holds where it is worth most.

    Attributes
    ----------
    worth
        The worth.
    one_node
        GPUs of each job on one node.
    several
        Level and GPUs of each job on several nodes.
    above
        GPUs for jobs that higher levels hold.
    stays
        Entries of the present placements that are kept.
    """

    worth: float
    one_node: list[int]
    several: list[tuple[int, int]]
    above: int
    stays: list[int]


@dataclass(frozen=True)
class DomainValues:
    """The domains of a round, and their worth at prices of jobs.

    Parameters
    ----------
    round_, choices
        The round, and the choices of its jobs.
    highest
        The level *L*, at least 1.
    """

    round_: TopologyRound
    choices: Choices
    highest: int

    @classmethod
    def of(cls, round_: TopologyRound, choices: Choices) -> DomainValues | None:
        """Return those of the highest level whose domains are small enough; None without any."""
        gpus = round_.instance.cluster.node_gpus
        small = [
            level
            for level in range(1, round_.domain.shape[0])
            if np.bincount(round_.domain[level], gpus).max() <= MOST_GPUS
        ]
        return cls(round_, choices, max(small)) if small else None

    @cached_property
    def level(self) -> Int[Indices, " choices"]:
        """Level that is to hold each choice, by its position; 1 on one node."""
        return level_of_choices(self.round_, self.choices)

    @cached_property
    def free_gpus(self) -> Int[Indices, " nodes"]:
        """GPUs of every node that pinned jobs leave."""
        instance, current = self.round_.instance, self.round_.instance.current
        pinned = instance.pinned[current.job]
        free = instance.cluster.node_gpus.copy()
        np.subtract.at(free, current.node[pinned], current.replicas[pinned])
        return free

    @cached_property
    def may_keep(self) -> Bool[Flags, " entries"]:
        """Whether the job of every entry may keep its placement, and need not."""
        instance = self.round_.instance
        keeps = np.zeros(instance.num_jobs, dtype=bool)
        keeps[self.choices.job[self.choices.of(Kind.KEEP)]] = True
        return np.asarray((keeps & ~instance.pinned)[instance.current.job])

    @cached_property
    def classes(self) -> list[tuple[Indices, int]]:
        """Domains of level *L* that are alike: the nodes of one of them, and their number."""
        domain, level = self.round_.domain, self.round_.domain[self.highest]
        resident = np.zeros(level.size, dtype=bool)
        resident[self.round_.instance.current.node[self.may_keep]] = True
        found: dict[object, tuple[Indices, int]] = {}
        order = np.argsort(level, kind="stable")
        for nodes in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
            inner = [
                np.unique(row, return_inverse=True)[1] for row in domain[1 : self.highest, nodes]
            ]
            alone = int(nodes[0]) if resident[nodes].any() else -1
            key = alone, self.free_gpus[nodes].tobytes(), *(row.tobytes() for row in inner)
            known, count = found.get(key, (nodes, 0))
            found[key] = known, count + 1
        return list(found.values())

    def charges(self, prices: DomainPrices) -> Float[Floats, " choices"]:
        """Return the charge of every choice."""
        choices, charge = self.choices, np.zeros(len(self.choices))
        one, several = choices.of(Kind.ONE_NODE), choices.of(Kind.SEVERAL_NODES)
        table = knapsack(prices.one_node, int(choices.replicas[one].max(initial=0)))
        charge[one] = table.alone[choices.replicas[one]]
        level = self.level[several]
        for place, own in enumerate(prices.all_levels, start=1):
            here = several[level == place]
            table = knapsack(own, int(choices.replicas[here].max(initial=0)))
            charge[here] = table.alone[choices.replicas[here]]
        higher = several[level > self.highest]
        charge[higher] = prices.least * choices.replicas[higher]
        keep = choices.of(Kind.KEEP)
        current = self.round_.instance.current
        paid = np.bincount(current.job, prices.stays * self.may_keep, current.num_jobs)
        charge[keep] = paid[choices.job[keep]]
        return charge

    def worth(self, prices: DomainPrices) -> Float[Floats, " classes"]:
        """Return the worth of all domains, those that are alike together."""
        every = DomainPrices(prices.one_node, prices.all_levels, prices.least, prices.stays)
        priced = _Priced(self, every)
        return np.array([count * priced.worth(nodes) for nodes, count in self.classes])

    def best(self, prices: DomainPrices) -> list[Held]:
        """Return what a domain of each class holds where it is worth most."""
        priced = _Priced(self, prices)
        return [priced.held(nodes) for nodes, _ in self.classes]


class _Part(NamedTuple):
    """Node or domain: its worth by the GPUs that it gives to jobs that it does not hold.

    Attributes
    ----------
    curve
        The worth, shape (GPUs + 1,).
    level
        Its level, 0 of a node.
    node
        The node, -1 of a domain.
    parts, sums
        Parts of a domain, and the worth of the first of them together, by the GPUs that these give.
    """

    curve: Floats
    level: int
    node: int = -1
    parts: tuple[_Part, ...] = ()
    sums: tuple[Floats, ...] = ()


class _Priced:
    """Domains at given prices."""

    def __init__(self, values: DomainValues, prices: DomainPrices) -> None:
        self.values, self.prices = values, prices
        most = int(values.free_gpus.max())
        self.one = knapsack(prices.one_node, most)
        gpus = [np.bincount(row, values.free_gpus).max() for row in values.round_.domain]
        self.several = [
            knapsack(own, int(gpus[level])) for level, own in enumerate(prices.levels, start=1)
        ]
        current = values.round_.instance.current
        kept = np.flatnonzero(values.may_keep & (prices.stays > 0))
        kept = kept[np.argsort(current.node[kept], kind="stable")]
        self._entries = {
            int(current.node[some[0]]): some
            for some in np.split(kept, np.flatnonzero(np.diff(current.node[kept])) + 1)
            if some.size
        }
        self._empty: dict[int, Floats] = {}

    def worth(self, nodes: Indices) -> float:
        """Return the worth of a domain of the highest level."""
        return float(self._ends(self._part(nodes, self.values.highest)).max())

    def held(self, nodes: Indices) -> Held:
        """Return what a domain of the highest level holds where it is worth most."""
        part = self._part(nodes, self.values.highest)
        ends = self._ends(part)
        above = int(ends.argmax())
        held = Held(float(ends[above]), [], [], above, [])
        self._collect(part, above, held)
        return held

    def _ends(self, part: _Part) -> Floats:
        return part.curve + self.prices.above * np.arange(part.curve.size)

    def _part(self, nodes: Indices, level: int) -> _Part:
        if level == 0:
            return _Part(self._node_curve(int(nodes[0])), 0, int(nodes[0]))
        below = self.values.round_.domain[level - 1, nodes]
        order = np.argsort(below, kind="stable")
        groups = np.split(nodes[order], np.flatnonzero(np.diff(below[order])) + 1)
        parts = tuple(self._part(group, level - 1) for group in groups)
        sums = [parts[0].curve]
        for part in parts[1:]:
            sums.append(together(sums[-1], part.curve))
        own, inside = self.several[level - 1].alone, sums[-1]
        curve = inside.copy()
        for used in range(1, curve.size):
            to = curve[: curve.size - used]
            np.maximum(to, inside[used:] + own[used], out=to)
        return _Part(curve, level, parts=parts, sums=tuple(sums))

    def _node_curve(self, node: int) -> Floats:
        room = int(self.values.free_gpus[node])
        if node not in self._entries:
            if room not in self._empty:
                self._empty[room] = self.one.alone[: room + 1][::-1]
            return self._empty[room]
        stays = self._stays(node)[-1]
        return np.array(
            [(stays[: left + 1] + self.one.alone[left::-1]).max() for left in range(room, -1, -1)]
        )

    def _stays(self, node: int) -> list[Floats]:
        """Return the most that the first entries of a node are worth, by GPUs that they keep."""
        room = int(self.values.free_gpus[node])
        tables = [np.full(room + 1, -np.inf)]
        tables[0][0] = 0.0
        current = self.values.round_.instance.current
        for entry in self._entries[node].tolist():
            before, gpus = tables[-1], int(current.replicas[entry])
            after = before.copy()
            if gpus <= room:
                kept = before[: room + 1 - gpus] + self.prices.stays[entry]
                np.maximum(after[gpus:], kept, out=after[gpus:])
            tables.append(after)
        return tables

    def _collect(self, part: _Part, given: int, held: Held) -> None:
        """Add what a part holds that gives so many GPUs to jobs that it does not hold."""
        if part.node >= 0:
            self._collect_node(part.node, given, held)
            return
        inside, own = part.sums[-1], self.several[part.level - 1]
        rest = inside[given:] + own.alone[: inside.size - given]
        used = int(rest.argmax())
        held.several.extend((part.level, gpus) for gpus in _pieces(own, used))
        total = given + used
        for index in range(len(part.parts) - 1, 0, -1):
            before, curve = part.sums[index - 1], part.parts[index].curve
            low, high = max(total - before.size + 1, 0), min(total, curve.size - 1)
            some = np.arange(low, high + 1)
            mine = int(some[(before[total - some] + curve[some]).argmax()])
            self._collect(part.parts[index], mine, held)
            total -= mine
        self._collect(part.parts[0], total, held)

    def _collect_node(self, node: int, given: int, held: Held) -> None:
        room = int(self.values.free_gpus[node]) - given
        if node in self._entries:
            tables = self._stays(node)
            total = tables[-1][: room + 1] + self.one.alone[room::-1]
            kept = int(total.argmax())
            room -= kept
            entries = self._entries[node].tolist()
            for index in range(len(entries), 0, -1):
                if tables[index][kept] > tables[index - 1][kept]:
                    held.stays.append(entries[index - 1])
                    kept -= int(self.values.round_.instance.current.replicas[entries[index - 1]])
        held.one_node.extend(_pieces(self.one, room))


def together(first: Float[Floats, " gpus"], second: Float[Floats, " gpus"]) -> Floats:
    """Return the most that two parts are worth, by the GPUs that they give together.

    Parameters
    ----------
    first, second
        Worth of each by the GPUs that it gives.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.certificates import together
    >>> together(np.array([3.0, 1.0]), np.array([2.0, 1.5])).tolist()
    [5.0, 4.5, 2.5]
    """
    if first.size < second.size:
        first, second = second, first
    found = np.full(first.size + second.size - 1, -np.inf)
    for given, worth in enumerate(second.tolist()):
        to = found[given : given + first.size]
        np.maximum(to, first + worth, out=to)
    return found
