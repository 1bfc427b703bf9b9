r"""Nested pattern counts: a round on a tree, with domains counted like nodes.

What matters of a domain is which pieces its nodes give to the distributed jobs that it holds, and
which it passes on to those of a higher level. Either the domains of each level are all counted
together (``merged``), so that no rack has a row of its own, or each has. With the choices *i* of
every job *j* and their costs; the level :math:`l_i` and the GPUs *K* of those on several nodes:

.. math::

    \min \sum_i c_i x_i, \qquad \textstyle\sum_{i \in A_j} x_i = 1 \;\; \forall j          (T1)

    \text{(P3), (P4) and (P9)-(P12): who stays on a node, and what it offers then}         (T2)

    \textstyle\sum_q E_{gfq} \le N_{gf1}                                                   (T3)

    L_s + \text{cuts into } s - \text{cuts of } s \ge \sum_j x_{j,one,s}                   (T4)

    \textstyle\sum_f E_{gfq} + \sum_{h \in g} P_{hq} \ge P_{gq} + Q_{gq}                    (T5)

    \textstyle\sum_q q Q_{gq} \ge \sum_K K m_{gK}, \quad
      \sum_K n_K m_{gK} \le \sum_q Q_{gq} \le N_{max} \sum_K m_{gK}, \quad
      \sum_{g \text{ of } l} m_{gK} = \sum_{i : l_i = l, K} x_i                            (T6)

for groups *g* of each level: sets of domains that are counted together, the lowest of which have
:math:`N_{gf1}` nodes of *f* free GPUs that a distributed job may use. :math:`E_{gfq}` of them give
a piece of *q*; the pieces are for the :math:`m_{gK}` jobs of *K* GPUs that a domain of *g* holds,
:math:`Q_{gq}` of them, or are passed on to the group above, :math:`P_{gq}`. No such job has fewer
than :math:`n_K = \max(2, \lceil K / \text{largest node} \rceil)` nodes. The slots (T4) are those of
`goodalloc.formulations.gpu_rounds.patterns`, over the whole cluster: a job on one node has no place
in the tree.

Domains that are counted together are cut like nodes: of the domains of a level, some have *s*
nodes, and one of *s* holds a job of *n* nodes and another of *s - n*,

.. math:: D_s + \text{cuts into } s - \text{cuts of } s \ge \sum_{K : n_K = s} \sum_{l' \le l} m_K
                                                                                           (T7)

Uplinks of a level of which at most *U* jobs share each: :math:`w_g` jobs use those of group *g*,
each takes at most the :math:`C_g` nodes of a domain, and one of a higher level uses two,

.. math:: \textstyle\sum_q P_{gq} \le C_g w_g, \quad w_g + \text{(kept)} \le U \times
    \text{domains}, \quad \sum_g w_g \ge 2 \sum_{l' > l} m_K                               (T8)

*Relaxation* under interference avoidance, for either way to count: every allocation, each job taken
at the lowest level that holds it, is a solution. (At that level a choice may have been dropped for
one of no less utility that fits wherever it does; that is then the solution.) The converse fails
where pieces do not split into jobs, domains counted together hold no such jobs, or pieces that are
passed on belong to more jobs than (T8) thinks; `labelled_pieces` is exact.

Unrestricted are the shapes of jobs: any pieces on any nodes, not only whole nodes and a remainder,
which would cut off optima (a job of 2 + 4 beside jobs of 6 and 3 on two nodes of 8, for example,
has no other place).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.tree_choices import level_of_choices
from goodalloc.formulations.topology.tree_slots import (
    add_cuts,
    add_limits,
    add_tree_slots,
    kept_uplinks,
    least_nodes,
    most_of_domains,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.formulations.topology.tree_slots import TreeSlots
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Most nodes of a domain for which (T7) is written; its columns grow with their square.
MOST_CUT = 24


@dataclass(frozen=True)
class NestedProgram:
    """The program with what reading a solution needs.

    Parameters
    ----------
    program, choices
        The program, and its choices, which are its first columns.
    placed
        Columns ``m`` by level and GPUs: one for each of `holding`.
    holding
        Groups that can hold such a job, by level and GPUs.
    """

    program: Program
    choices: Choices
    placed: dict[tuple[int, int], Int[Indices, " groups"]] = field(default_factory=dict)
    holding: dict[tuple[int, int], Int[Indices, " groups"]] = field(default_factory=dict)


def build_nested(
    round_: TopologyRound,
    choices: Choices,
    cost: Floats,
    *,
    merged: bool,
    limits: Sequence[Limit] = (),
) -> NestedProgram:
    """Build the program (T1)-(T8) over some choices.

    Parameters
    ----------
    round_
        The round; interference is avoided.
    choices, cost
        Choices of its jobs, and the cost of each.
    merged
        Whether the domains of a level are counted together.
    limits
        Further rows: pairs of weights of the choices and the most that they may sum to.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.topology import build_nested, topology_choices
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> round_ = TopologyRound(load_benchmark("tiny-cold"), Topology((), ()))
    >>> choices = topology_choices(round_)
    >>> cost = power_cost(choices.utility, -1.0)
    >>> build_nested(round_, choices, cost, merged=True).program.num_rows > 0
    True
    """
    builder = ProgramBuilder()
    group = round_.domain.copy()
    if merged:
        group[1:] = 0
    slots = add_tree_slots(builder, round_, choices, cost, group[1])
    nested = _Nested(builder, round_, choices, slots, group)
    if choices.of(Kind.SEVERAL_NODES).size:
        nested.add_levels()
        if merged:
            nested.add_domain_cuts()
    for place, most in round_.topology.limited_levels.items():
        nested.add_uplinks(place, most)
    add_limits(builder, slots.taken, limits)
    return NestedProgram(builder.build(), choices, nested.placed, nested.holding)


@dataclass
class _Nested:
    """Program while it is being built.

    `passed` are the columns ``P`` by level, shape (groups, sizes); the other fields as above.
    """

    builder: ProgramBuilder
    round_: TopologyRound
    choices: Choices
    slots: TreeSlots
    group: Indices
    placed: dict[tuple[int, int], Indices] = field(default_factory=dict)
    holding: dict[tuple[int, int], Indices] = field(default_factory=dict)
    passed: dict[int, Indices] = field(default_factory=dict)

    def add_levels(self) -> None:
        """Add pieces level by level, (T5) and (T6)."""
        several = self.choices.of(Kind.SEVERAL_NODES)
        level = level_of_choices(self.round_, self.choices)[several]
        rows = self.slots.piece_rows
        for place in range(1, int(level.max()) + 1):
            self._add_jobs(place, several[level == place], rows)
            if place < int(level.max()):
                rows = self._pass_on(place, rows)

    def _pass_on(self, place: int, rows: Indices) -> Indices:
        """Add columns ``P`` of a level and return the rows (T5) of the next."""
        groups, width = rows.shape
        _, first = np.unique(self.group[place], return_index=True)
        parent = self.group[place + 1][first]
        above = self.builder.add_rows(
            "piece", (int(parent.max()) + 1) * width, lower=0.0, label=lambda i: f"{place + 1}_{i}"
        ).reshape(-1, width)
        upper = float(self.group.shape[1])
        columns = self.builder.add_columns(
            "passed", groups * width, upper=upper, label=lambda i: f"{place}_{i}"
        ).reshape(groups, width)
        self.builder.add_entries(rows, columns, -1.0)
        self.builder.add_entries(above[parent], columns, 1.0)
        self.passed[place] = columns
        return above

    def _add_jobs(self, place: int, chosen: Indices, rows: Indices) -> None:
        """Add the jobs of a level by group and GPUs, and the pieces that they take: (T6)."""
        builder, capacity = self.builder, self._capacity(place)
        demands, demand = np.unique(self.choices.replicas[chosen], return_inverse=True)
        kind, group = np.nonzero(capacity >= demands[:, None])
        replicas = demands[kind]
        m = builder.add_columns(
            "jobs",
            kind.size,
            upper=float(self.group.shape[1] // 2),
            label=lambda i: f"{place}_{replicas[i]}_{group[i]}",
        )
        link = builder.add_rows(
            "all_jobs",
            demands.size,
            lower=0.0,
            upper=0.0,
            label=lambda i: f"{place}_{demands[i]}",
        )
        builder.add_entries(link[kind], m, 1.0)
        builder.add_entries(link[demand], self.slots.taken[chosen], -1.0)
        sizes = np.arange(1, min(self.slots.most, int(demands.max(initial=1)) - 1) + 1)
        pieces = builder.add_columns(
            "pieces",
            capacity.size * sizes.size,
            upper=float(self.group.shape[1]),
            label=lambda i: f"{place}_{i}",
        ).reshape(capacity.size, sizes.size)
        builder.add_entries(rows[:, sizes], pieces, -1.0)
        most_nodes = float(self.round_.instance.rules.max_nodes_per_job)
        for name, weight, each, side in (
            ("pieces_gpus", sizes, replicas, {"lower": 0.0}),
            ("pieces_least", 1.0, least_nodes(replicas, self.slots.most), {"lower": 0.0}),
            ("pieces_most", 1.0, most_nodes, {"upper": 0.0}),
        ):
            row = builder.add_rows(name, capacity.size, label=lambda i: f"{place}_{i}", **side)
            builder.add_entries(row[:, None], pieces, weight)
            builder.add_entries(row[group], m, -np.asarray(each, dtype=float))
        for index, gpus in enumerate(demands.tolist()):
            here = kind == index
            self.placed[place, gpus], self.holding[place, gpus] = m[here], group[here]

    def _capacity(self, place: int) -> Indices:
        """Return the most GPUs of one job on several nodes of a domain of each group."""
        rules, domain = self.round_.instance.rules, self.round_.domain[place]
        gpus = np.where(self.slots.free.blocked, 0, self.slots.free.gpus)
        total = most_of_domains(gpus, domain, rules.max_nodes_per_job)
        most = np.zeros(int(self.group[place].max()) + 1, dtype=np.int64)
        np.maximum.at(most, self.group[place], total[domain])
        return most

    def add_domain_cuts(self) -> None:
        """Add (T7) for the levels whose domains have few nodes."""
        builder, usable = self.builder, (self.slots.free.gpus > 0) & ~self.slots.free.blocked
        for place in range(1, self.group.shape[0] - 1):
            below = [key for key in self.placed if key[0] <= place]
            nodes = np.bincount(self.round_.domain[place][usable])
            most = int(nodes.max(initial=0))
            if not below or most > MOST_CUT:
                continue
            domains = np.bincount(nodes, minlength=most + 1).astype(float)
            rows = builder.add_rows(
                "domain_slot", most + 1, lower=-domains, label=f"{place}_{{}}".format
            )
            add_cuts(builder, rows, f"domain_cut_{place}", float(nodes.sum()))
            for key in below:
                least = int(least_nodes(np.array([key[1]]), self.slots.most)[0])
                if least <= most:
                    builder.add_entries(rows[least], self.placed[key], -1.0)

    def add_uplinks(self, place: int, most: int) -> None:
        """Add (T8) for a level, and the same for the jobs that stay, domain by domain."""
        builder, domain, group = self.builder, self.round_.domain[place], self.group[place]
        choice, crossed = kept_uplinks(self.round_, self.choices, place)
        domains, groups = int(domain.max()) + 1, int(group.max()) + 1
        kept = builder.add_rows(
            "kept_uplink", domains, upper=float(most), label=lambda i: f"{place}_{i}"
        )
        builder.add_entries(kept[crossed], self.slots.taken[choice], 1.0)
        if place not in self.passed:
            return
        _, first = np.unique(domain, return_index=True)
        of_domain = group[first]
        count = np.bincount(of_domain, minlength=groups)
        nodes = np.zeros(groups)
        np.maximum.at(nodes, of_domain, np.bincount(domain))
        upper = (most * count).astype(float)
        uses = builder.add_columns("uses", groups, upper=upper, label=lambda i: f"{place}_{i}")
        rows = builder.add_rows("uplink_pieces", groups, upper=0.0, label=lambda i: f"{place}_{i}")
        builder.add_entries(rows[:, None], self.passed[place], 1.0)
        builder.add_entries(rows, uses, -nodes)
        rows = builder.add_rows("uplink", groups, upper=upper, label=lambda i: f"{place}_{i}")
        builder.add_entries(rows, uses, 1.0)
        builder.add_entries(rows[of_domain[crossed]], self.slots.taken[choice], 1.0)
        two = builder.add_rows("two_uplinks", 1, lower=0.0, label=lambda _: str(place))
        builder.add_entries(two, uses, 1.0)
        for (level, _), m in self.placed.items():
            if level > place:
                builder.add_entries(two, m, -2.0)
