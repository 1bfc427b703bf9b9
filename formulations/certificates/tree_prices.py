r"""A bound on every allocation of a round on a tree by prices, also of what its domains hold.

`formulations/certificates/price_bound.py` bounds the cost of every allocation by prices that jobs
pay for their pieces of nodes. On a tree every choice tells the level that is to hold its job, and
jobs on several nodes pay for that level as well:

- a job on *m* nodes that a domain of level *l* holds pays :math:`\phi_l(m)` there, and
  :math:`\phi_{l'}(m)` at every level *l'* above. Under interference avoidance no two such jobs
  share a node, and :math:`\phi_l` is superadditive, so that the jobs in a domain of *N* open nodes
  pay at most :math:`\phi_l(N)`. A choice of *K* GPUs has at least
  :math:`n_K = \max(2, \lceil K / \text{largest node} \rceil)` nodes, and pays for these;
- a job that no domain of level *l* holds pays :math:`\upsilon_l` for each uplink of that level that
  it uses: at least :math:`\max(2, \lceil n_K / C_l \rceil)` of them if domains have at most
  :math:`C_l` nodes. At most :math:`U_l` jobs use one, so that they pay at most
  :math:`U_l \upsilon_l` for it.

Jobs that keep their placement pay for its nodes and uplinks as they are. A job that a domain holds
has no more pieces than that has nodes. What domains hold together has prices of its own, beside
these: `domain_values.py`.

The relaxation whose dual values are such prices is the pattern program
(`formulations/gpu_rounds/patterns.py`) over the choices of the tree, with rows for the domains of a
level, which are cut like nodes, and for all of its uplinks:

.. math::

    D_{ls} + \text{cuts into } s - \text{cuts of } s \ge \sum_{i : l_i \le l,\, n_i = s} x_i,
    \qquad \sum_{i : l_i > l} \max(2, \lceil n_i / C_l \rceil) x_i \le U_l D_l.            (R1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.certificates.domain_values import DomainValues, knapsack
from goodalloc.formulations.certificates.dual_prices import pattern_prices
from goodalloc.formulations.certificates.piece_prices import PiecePrices
from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.certificates.prices import Prices
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.formulations.topology.tree_choices import level_of_choices, topology_choices
from goodalloc.formulations.topology.tree_slots import add_cuts, least_nodes

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.certificates.domain_values import DomainPrices
    from goodalloc.formulations.gpu_rounds.patterns import PatternProgram
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Most nodes of a domain whose jobs have prices by their nodes; the cuts grow with their square.
MOST_NODES = 64


@dataclass(frozen=True)
class TreePrices(Prices):
    """Prices of nodes, and of what domains hold; see `Prices`.

    Parameters
    ----------
    domains
        By level, the price of a job on so many nodes of a domain, from 0 on, at least 0. The most
        that these add up to within a number of nodes is phi. Empty where a level has none.
    uplinks
        By level, the price of a use of an uplink, at least 0.
    nested
        Prices of what domains hold together; they add up.
    """

    domains: tuple[Float[Floats, " nodes"], ...] = ()
    uplinks: tuple[float, ...] = ()
    nested: tuple[DomainPrices, ...] = ()

    def times(self, factor: float) -> TreePrices:
        """Return the prices times a factor; see `Prices.times`."""
        scaled = super().times(factor)
        assert isinstance(scaled, TreePrices)
        return replace(
            scaled,
            domains=tuple(prices * factor for prices in self.domains),
            uplinks=tuple(price * factor for price in self.uplinks),
            nested=tuple(prices.times(factor) for prices in self.nested),
        )


class TreeUses(NamedTuple):
    """What jobs on several nodes use of the levels of a tree, by choice.

    Attributes
    ----------
    choice
        The choices of jobs on several nodes, or to keep a placement there, but for pinned jobs.
    nodes
        Nodes of each, at least.
    level
        Level that holds each (`Topology.level_names`).
    uplinks
        Uplinks of each level that each uses, at least; 0 at the levels that hold it: shape
        (levels, uses).
    """

    choice: Int[Indices, " uses"]
    nodes: Int[Indices, " uses"]
    level: Int[Indices, " uses"]
    uplinks: Int[Indices, "levels uses"]


@dataclass(frozen=True)
class TreePriceBound(PriceBound):
    """The bound of one round on a tree; see `PriceBound`.

    Parameters
    ----------
    round_
        The round; interference is avoided. `instance` is its `leveled` one.
    """

    round_: TopologyRound

    @classmethod
    def of(cls, round_: TopologyRound) -> TreePriceBound:
        """Return the price bounds of a round, over its choices without dominated ones.

        Raises
        ------
        ValueError
            If interference is not avoided.
        """
        if not round_.instance.rules.interference_avoidance:
            raise ValueError(
                "Rules: interference_avoidance is False; expected True, as certificates of rounds "
                "on trees need."
            )
        leveled = round_.leveled
        return cls(leveled, topology_choices(round_), resource_grid(leveled), round_)

    @cached_property
    def levels(self) -> range:
        """Levels whose domains have prices: all but the node and the cluster."""
        return range(1, self.round_.domain.shape[0] - 1)

    @cached_property
    def held(self) -> DomainValues | None:
        """What domains hold together; None without a level of small ones."""
        return DomainValues.of(self.round_, self.choices)

    @cached_property
    def open_nodes(self) -> tuple[Int[Indices, " domains"], ...]:
        """Nodes of every domain that have GPUs and no pinned distributed job, by level."""
        instance, domain = self.round_.instance, self.round_.domain
        current = instance.current
        closed = instance.pinned[current.job] & (current.job_nodes[current.job] > 1)
        is_open = instance.cluster.node_gpus > 0
        is_open[current.node[closed]] = False
        return tuple(
            np.bincount(domain[level], is_open, int(domain[level].max()) + 1).astype(np.int64)
            for level in self.levels
        )

    @cached_property
    def open_uplinks(self) -> tuple[int | None, ...]:
        """Uses of all uplinks of each level that pinned jobs leave; None where any number is."""
        round_ = self.round_
        pinned = round_.instance.current.rows(np.flatnonzero(round_.instance.pinned))
        limits = round_.topology.limited_levels
        return tuple(
            int(round_.domain[level].max() + 1) * limits[level]
            - round_.crossings(pinned, level)[0].size
            if level in limits
            else None
            for level in self.levels
        )

    @cached_property
    def uses(self) -> TreeUses:
        """What jobs on several nodes use of the tree."""
        round_, choices, current = self.round_, self.choices, self.instance.current
        keep = choices.of(Kind.KEEP)
        stays = ~self.instance.pinned & (current.job_nodes > 1)
        keep = keep[stays[choices.job[keep]]]
        several = choices.of(Kind.SEVERAL_NODES)
        largest = int(self.instance.cluster.node_gpus.max())
        anew = least_nodes(choices.replicas[several], largest)
        level = level_of_choices(round_, choices)
        uplinks = []
        for place in self.levels:
            most = int(np.bincount(round_.domain[place]).max())
            crossed = np.bincount(
                round_.crossings(current, place)[0], minlength=self.instance.num_jobs
            )
            least = np.where(level[several] > place, np.maximum(2, -(-anew // most)), 0)
            uplinks.append(np.concatenate([least, crossed[choices.job[keep]]]))
        chosen = np.concatenate([several, keep])
        nodes = np.concatenate([anew, current.job_nodes[choices.job[keep]]])
        table = np.array(uplinks, dtype=np.int64).reshape(len(self.levels), chosen.size)
        return TreeUses(chosen, nodes, level[chosen], table)

    def charges(self, prices: Prices) -> Float[Floats, " choices"]:
        """Return the charge of every choice; see `PriceBound.charges`."""
        charge, uses = super().charges(prices), self.uses
        levels = level_of_choices(self.round_, self.choices)
        several = self.choices.of(Kind.SEVERAL_NODES)
        for level, pieces in self._pieces_within.items():
            mine = several[levels[several] == level]
            _, table = pieces.tables(prices)
            charge[mine] = table[pieces.kind[self.choices.mode[mine]], self.choices.replicas[mine]]
        if isinstance(prices, TreePrices):
            for level, values in zip(self.levels, self._values(prices), strict=True):
                inside = uses.level <= level
                charge[uses.choice[inside]] += values[uses.nodes[inside]]
            for used, price in zip(uses.uplinks, prices.uplinks, strict=True):
                charge[uses.choice] += price * used
            if self.held is not None:
                charge += sum(map(self.held.charges, prices.nested), np.zeros(charge.size))
        return charge

    def worth(self, prices: Prices) -> Float[Floats, " parts"]:
        """Return upper bounds on the worth of what nodes, domains and uplinks hold."""
        worth = [super().worth(prices)]
        if isinstance(prices, TreePrices):
            worth += [
                values[nodes]
                for nodes, values in zip(self.open_nodes, self._values(prices), strict=True)
            ]
            pairs = zip(self.open_uplinks, prices.uplinks, strict=True)
            worth.append(np.array([(number or 0) * price for number, price in pairs]))
            worth += [self.held.worth(nested) for nested in prices.nested if self.held]
        return np.concatenate(worth)

    def most_nodes(self, level: int) -> int:
        """Return the most nodes of a job that a domain of a level holds."""
        largest = int(np.bincount(self.round_.domain[level]).max())
        return min(largest, self.instance.rules.max_nodes_per_job)

    @cached_property
    def _pieces_within(self) -> dict[int, PiecePrices]:
        """Charges of the pieces of jobs on several nodes, by the level that is to hold them."""
        levels = level_of_choices(self.round_, self.choices)[self.choices.of(Kind.SEVERAL_NODES)]
        # pinned jobs may span more nodes, and do not matter here
        jobs = tuple(replace(job, placement=(), mode="") for job in self.instance.jobs)
        found = {}
        for level in np.unique(levels).tolist():
            rules = self.instance.rules.replace(max_nodes_per_job=self.most_nodes(level))
            instance = self.instance.replace(rules=rules, jobs=jobs)
            found[level] = PiecePrices(instance, self.choices, self.grid)
        return found

    def _values(self, prices: TreePrices) -> list[Float[Floats, " nodes"]]:
        """Return the value function of every level, up to the most nodes of a job or domain."""
        most = int(max(self.uses.nodes.max(initial=0), *(n.max() for n in self.open_nodes), 0))
        return [knapsack(level, most).alone for level in prices.domains]


@dataclass(frozen=True)
class TreeRelaxation:
    """Relaxation of a round on a tree whose dual values are prices: (R1).

    Parameters
    ----------
    program
        The program; the choices are its first columns, and the jobs its first rows.
    patterns
        The pattern program that it extends.
    domain_rows
        By level, the row of every number of nodes; none where a level has no such rows.
    uplink_rows
        By level, the row of its uplinks; -1 where it has none.
    """

    program: Program
    patterns: PatternProgram
    domain_rows: tuple[Int[Indices, " nodes"], ...]
    uplink_rows: tuple[int, ...]

    def prices(self, bounds: TreePriceBound, duals: Float[Floats, " rows"]) -> TreePrices:
        """Return the prices that dual values of the rows stand for.

        Parameters
        ----------
        bounds, duals
            Price bounds of the round, and the dual value of every row.
        """
        nodes = pattern_prices(bounds.instance, self.patterns, bounds.grid, duals)
        return TreePrices(
            values=nodes.values,
            stays=nodes.stays,
            domains=tuple(np.maximum(duals[rows], 0.0) for rows in self.domain_rows),
            uplinks=tuple(
                max(-float(duals[row]), 0.0) if row >= 0 else 0.0 for row in self.uplink_rows
            ),
        )


def build_tree_relaxation(bounds: TreePriceBound) -> TreeRelaxation:
    """Build the relaxation (R1), without costs.

    Parameters
    ----------
    bounds
        Price bounds of the round.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.formulations.certificates import TreePriceBound, build_tree_relaxation
    >>> relaxation = build_tree_relaxation(TreePriceBound.of(generate_on_tree(0, 16, load=0.5)))
    >>> len(relaxation.domain_rows)  # islands, racks and pods
    3
    """
    choices, uses = bounds.choices, bounds.uses
    patterns = build_patterns(bounds.instance, choices, np.zeros(len(choices)), exact=True)
    builder = ProgramBuilder.extending(patterns.program)
    _add_most_pieces(builder, bounds, patterns)
    domain_rows, uplink_rows = [], []
    for index, level in enumerate(bounds.levels):
        nodes = bounds.open_nodes[index]
        inside = (uses.level <= level) & (uses.nodes <= nodes.max(initial=0))
        rows = np.zeros(0, dtype=np.int64)
        if inside.any() and nodes.max() <= MOST_NODES:
            count = np.bincount(nodes).astype(float)
            rows = builder.add_rows("domain_slot", count.size, lower=-count)
            add_cuts(builder, rows, f"domain_cut_{level}", float(nodes.sum()))
            builder.add_entries(rows[uses.nodes[inside]], uses.choice[inside], -1.0)
        domain_rows.append(rows)
        most, used = bounds.open_uplinks[index], uses.uplinks[index]
        row = -1
        if most is not None and used.any():
            row = int(builder.add_rows("uplinks", 1, upper=float(most))[0])
            builder.add_entries(row, uses.choice, used)
        uplink_rows.append(row)
    return TreeRelaxation(builder.build(), patterns, tuple(domain_rows), tuple(uplink_rows))


def _add_most_pieces(
    builder: ProgramBuilder, bounds: TreePriceBound, patterns: PatternProgram
) -> None:
    """Add the rows by which a job has no more pieces than nodes in a domain that may hold it."""
    choices, uses = bounds.choices, bounds.choices.of(Kind.SEVERAL_NODES)
    if not uses.size:
        return
    level = level_of_choices(bounds.round_, choices)[uses]
    most = np.array([bounds.most_nodes(place) for place in range(1, bounds.round_.domain.shape[0])])
    jobs, owner = np.unique(choices.job[uses], return_inverse=True)
    rows = builder.add_rows("pieces_within", jobs.size, upper=0.0, label=lambda i: str(jobs[i]))
    builder.add_entries(rows[owner], uses, -most[level - 1].astype(float))
    of_job = dict(zip(jobs.tolist(), rows.tolist(), strict=True))
    row = [of_job[job] for job, _ in patterns.piece]
    builder.add_entries(row, list(patterns.piece.values()), 1.0)
