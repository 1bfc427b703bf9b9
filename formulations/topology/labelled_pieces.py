r"""Pieces by job and domain: the exact program of a round on a tree.

As `nested_patterns` with a group for each domain of the lowest level, except that every piece
belongs to a job: :math:`z_{jgq}` pieces of *q* GPUs of job *j* in lowest domain *g*. Job *j* lies
in domain *d* of level *l* or not, :math:`g_{jld}`, and uses the uplink of *d* or not,
:math:`t_{jd}`. With (T1)-(T4),

.. math::

    \textstyle\sum_f E_{gfq} \ge \sum_j z_{jgq}, \qquad
    \sum_{g,q} q z_{jgq} \ge \sum_i K_i x_i, \qquad
    \sum_i n_{K_i} x_i \le \sum_{g,q} z_{jgq} \le N_{max} \sum_i x_i                       (L1)

    \textstyle\sum_d g_{jld} = \sum_{i : l_i = l} x_i, \qquad
    \sum_q z_{jgq} \le C_g \sum_l g_{j,l,d(g,l)}                                           (L2)

    \textstyle\sum_{g \subseteq d, q} z_{jgq}
      \le C_d \bigl(t_{jd} + \sum_{d' \subseteq d} g_{j,l',d'}\bigr), \qquad
    \sum_j t_{jd} + \text{(kept)} \le U_d                                                  (L3)

over the choices *i* of *j* on several nodes; the cluster's one domain is left out of (L2), where
its choices stand in for :math:`g_{jld}`. *Exact* under interference avoidance: each piece is on a
node of its own as far as distributed jobs go, so that any pieces of its domains serve a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.tree_choices import level_of_choices
from goodalloc.formulations.topology.tree_slots import (
    add_limits,
    add_tree_slots,
    kept_uplinks,
    least_nodes,
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


class JobPieces(NamedTuple):
    """Columns ``z``: index of each, its job, its domain of the lowest level, and its GPUs."""

    column: Int[Indices, " pieces"]
    job: Int[Indices, " pieces"]
    group: Int[Indices, " pieces"]
    size: Int[Indices, " pieces"]


@dataclass(frozen=True)
class LabelledProgram:
    """The program with what reading a solution needs.

    Parameters
    ----------
    program, choices, slots
        The program, its choices, and the columns that it begins with.
    pieces
        Pieces of the distributed jobs.
    """

    program: Program
    choices: Choices
    slots: TreeSlots
    pieces: JobPieces


def build_labelled(
    round_: TopologyRound,
    choices: Choices,
    cost: Floats,
    *,
    within: Int[Indices, " choices"] | None = None,
    limits: Sequence[Limit] = (),
) -> LabelledProgram:
    """Build the program (T1)-(T4), (L1)-(L3) over some choices.

    Parameters
    ----------
    round_
        The round; interference is avoided.
    choices, cost
        Choices of its jobs, and the cost of each.
    within
        Domain of its level within which each choice is to be, -1 for any; any for all if None.
    limits
        Further rows: pairs of weights of the choices and the most that they may sum to.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.topology import build_labelled, topology_choices
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> round_ = TopologyRound(load_benchmark("tiny-cold"), Topology((), ()))
    >>> choices = topology_choices(round_)
    >>> cost = power_cost(choices.utility, -1.0)
    >>> build_labelled(round_, choices, cost).program.num_rows > 0
    True
    """
    builder = ProgramBuilder()
    slots = add_tree_slots(builder, round_, choices, cost, round_.domain[1])
    several = choices.of(Kind.SEVERAL_NODES)
    anywhere = np.full(len(choices), -1) if within is None else within
    labelled = _Labelled(builder, round_, choices, slots, several, anywhere)
    pieces = labelled.add_pieces()
    labelled.add_domains(pieces)
    for place, most in round_.topology.limited_levels.items():
        labelled.add_uplinks(pieces, place, most)
    add_limits(builder, slots.taken, limits)
    return LabelledProgram(builder.build(), choices, slots, pieces)


class _Labelled:
    """Program while it is being built.

    Parameters
    ----------
    builder, round_, choices, slots
        As above.
    several, within
        Choices on several nodes, and the domain of each choice.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        round_: TopologyRound,
        choices: Choices,
        slots: TreeSlots,
        several: Indices,
        within: Indices,
    ) -> None:
        self.builder, self.round_, self.choices, self.slots = builder, round_, choices, slots
        self.several, self.within = several, within
        self.level = level_of_choices(round_, choices)
        self.jobs, self.owner = np.unique(choices.job[several], return_inverse=True)
        _, first = np.unique(round_.domain[1], return_index=True)
        self.domain = round_.domain[:, first]  # of every domain of the lowest level
        self.inside: dict[int, tuple[Indices, Indices, Indices]] = {}  # g: column, owner, domain

    def add_pieces(self) -> JobPieces:
        """Add columns ``z`` and the rows (L1)."""
        choices, slots, builder = self.choices, self.slots, self.builder
        reach = self._reach()
        largest = np.zeros(self.jobs.size, dtype=np.int64)
        np.maximum.at(largest, self.owner, choices.replicas[self.several])
        given = np.zeros((self.domain.shape[1], slots.most + 1), dtype=bool)
        given[slots.giving.group, slots.giving.piece] = True
        useful = np.arange(slots.most + 1) < largest[:, None]
        owner, group, size = np.nonzero(reach[:, :, None] & given & useful[:, None])
        job = self.jobs[owner]
        columns = builder.add_columns(
            "pieces",
            owner.size,
            upper=float(self.round_.domain.shape[1]),
            label=lambda i: f"{job[i]}_{group[i]}_{size[i]}",
        )
        if not owner.size and not self.several.size:
            return JobPieces(columns, job, group, size)
        builder.add_entries(slots.piece_rows[group, size], columns, -1.0)
        chosen, replicas = slots.taken[self.several], choices.replicas[self.several]
        for name, weight, factor, side in (
            ("gpus", size, replicas, {"lower": 0.0}),
            ("least", 1.0, least_nodes(replicas, slots.most), {"lower": 0.0}),
            ("most", 1.0, self.round_.instance.rules.max_nodes_per_job, {"upper": 0.0}),
        ):
            rows = builder.add_rows(
                f"pieces_{name}", self.jobs.size, label=lambda i: str(self.jobs[i]), **side
            )
            builder.add_entries(rows[owner], columns, weight)
            builder.add_entries(rows[self.owner], chosen, -np.asarray(factor, dtype=float))
        return JobPieces(columns, job, group, size)

    def _reach(self) -> Indices:
        """Return which lowest domains each job on several nodes may use."""
        reach = np.zeros((self.jobs.size, self.domain.shape[1]), dtype=bool)
        for choice, owner in zip(self.several.tolist(), self.owner.tolist(), strict=True):
            domain = self.within[choice]
            here = self.domain[self.level[choice]]
            reach[owner] |= True if domain < 0 else here == domain
        return reach

    def add_domains(self, pieces: JobPieces) -> None:
        """Add columns ``g`` and the rows (L2)."""
        builder, top = self.builder, self.domain.shape[0] - 1
        groups = self.domain.shape[1]
        key = np.searchsorted(self.jobs, pieces.job) * groups + pieces.group
        cells, cell = np.unique(key, return_inverse=True)
        owner, group = cells // groups, cells % groups
        capacity = np.bincount(self.round_.domain[1])[group].astype(float)
        rows = builder.add_rows("inside", cells.size, upper=0.0, label=lambda i: str(cells[i]))
        builder.add_entries(rows[cell], pieces.column, 1.0)
        level = self.level[self.several]
        for place in np.unique(level).tolist():
            chosen, whose = self.several[level == place], self.owner[level == place]
            if place == top:
                at, which = np.nonzero(owner[:, None] == whose)
                builder.add_entries(rows[at], self.slots.taken[chosen[which]], -capacity[at])
                continue
            column, holder, domain = self._add_inside(place, chosen, whose)
            self.inside[place] = (column, holder, domain)
            index = np.full((self.jobs.size, int(self.domain[place].max()) + 1), -1)
            index[holder, domain] = column
            found = index[owner, self.domain[place][group]]
            here = found >= 0
            builder.add_entries(rows[here], found[here], -capacity[here])

    def _add_inside(
        self, place: int, chosen: Indices, whose: Indices
    ) -> tuple[Indices, Indices, Indices]:
        """Add columns ``g`` of a level, with their owners and domains."""
        builder = self.builder
        allowed = np.zeros((self.jobs.size, int(self.domain[place].max()) + 1), dtype=bool)
        for choice, owner in zip(chosen.tolist(), whose.tolist(), strict=True):
            domain = self.within[choice]
            allowed[owner, slice(None) if domain < 0 else domain] = True
        owner, domain = np.nonzero(allowed)
        columns = builder.add_columns(
            "lies_in",
            owner.size,
            upper=1.0,
            label=lambda i: f"{self.jobs[owner[i]]}_{place}_{domain[i]}",
        )
        mine = np.unique(whose)
        rows = builder.add_rows(
            "one_domain",
            mine.size,
            lower=0.0,
            upper=0.0,
            label=lambda i: f"{self.jobs[mine[i]]}_{place}",
        )
        builder.add_entries(rows[np.searchsorted(mine, owner)], columns, 1.0)
        builder.add_entries(rows[np.searchsorted(mine, whose)], self.slots.taken[chosen], -1.0)
        return columns, owner, domain

    def add_uplinks(self, pieces: JobPieces, place: int, most: int) -> None:
        """Add columns ``t`` and the rows (L3) of a level."""
        builder, domains = self.builder, int(self.domain[place].max()) + 1
        choice, crossed = kept_uplinks(self.round_, self.choices, place)
        uplink = builder.add_rows(
            "uplink", domains, upper=float(most), label=lambda i: f"{place}_{i}"
        )
        builder.add_entries(uplink[crossed], self.slots.taken[choice], 1.0)
        key = np.searchsorted(self.jobs, pieces.job) * domains
        key = key + self.domain[place][pieces.group]
        cells, cell = np.unique(key, return_inverse=True)
        owner, domain = cells // domains, cells % domains
        nodes = np.bincount(self.round_.domain[place])[domain].astype(float)
        uses = builder.add_columns(
            "uses",
            cells.size,
            upper=1.0,
            label=lambda i: f"{self.jobs[owner[i]]}_{place}_{domain[i]}",
        )
        builder.add_entries(uplink[domain], uses, 1.0)
        rows = builder.add_rows(
            "uses_unless_inside", cells.size, upper=0.0, label=lambda i: f"{place}_{cells[i]}"
        )
        builder.add_entries(rows[cell], pieces.column, 1.0)
        builder.add_entries(rows, uses, -nodes)
        for level, (column, holder, inner) in self.inside.items():
            if level > place:
                continue
            outer = np.zeros(int(self.domain[level].max()) + 1, dtype=np.int64)
            outer[self.domain[level]] = self.domain[place]
            at = np.searchsorted(cells, holder * domains + outer[inner])
            at = np.minimum(at, max(cells.size - 1, 0))
            here = cells[at] == holder * domains + outer[inner] if cells.size else np.zeros(0, bool)
            builder.add_entries(rows[at[here]], column[here], -nodes[at[here]])
