"""The pattern program: one round as a small mixed-integer program without node symmetry.

Speed depends on (one node | several, GPUs), so what couples the jobs is only how nodes are cut into
pieces. Equal free nodes are *counted*, not indexed; only nodes whose jobs may keep their placement
have rows of their own. Notation (see NOTATION.md), equations as in `build_patterns`:

    minimise  sum_i c_i x_i                                                                 (P1)
    sum_{i of j} x_i = 1                                       for every job j              (P2)
    sum_T b_vT = 1                                             for every resident node v    (P3)
    sum_{T with j} b_vT = y_j                                  for every j that may stay    (P4)
    sum_q E_fq <= N_f1                                         for every free size f        (P5)
    L_s + cuts into s - cuts of s >= sum_j x_{j,one,s}         for every size s             (P6)
    sum_f E_fq >= sum_K Q_Kq                                   for every piece size q       (P7)
    sum_q q Q_Kq >= K m_K,  2 m_K <= sum_q Q_Kq <= N_max m_K   for every K on several nodes (P8)

with ``m_K`` the number of jobs placed on several nodes with K GPUs, ``N_max`` the most nodes of a
job, ``y_j`` the choice to keep, ``b_vT`` whether exactly the jobs T stay on node v (so that it
offers what they leave; a distributed piece may go there unless T holds a distributed job),
``N_fd`` how many nodes, empty or by their state, offer f free GPUs (d = 1: to a distributed
piece, too), ``E_fq`` how many of them give a piece of q to a distributed job, ``L_s = N_s0 + N_s1
- sum_q E_sq + sum_q E_{s+q,q}`` the slots of s GPUs that this leaves, ``X_sq`` how many slots of
s GPUs are cut into q and s - q, and ``Q_Kq`` how many pieces of q the distributed jobs of K GPUs
take (with ``exact=True``, of each such job, in place of "every K"). Without interference
avoidance (P5) and (P7) fall away: pieces are slots like any other, Q_Kq stands in (P6).

For example, two empty nodes of 4 GPUs, N_41 = 2, hold a job of 6 GPUs and one of 2: m_6 = 1 takes
pieces of 4 and 2 (Q_64 = Q_62 = 1), which two nodes give (E_44 = E_42 = 1); the second keeps a slot
of 2 (L_2 = E_42 = 1), and the other job takes it. Which node is which was never asked.

Where more than `MOST_STAYS` jobs may stay on a node their sets are too many, and ``o_vfd`` says
only that node v offers f free GPUs (d = 1: to a distributed piece, too):

    sum_f f o_vf + sum_{j on v} h_jv y_j <= F_v                                             (P9)
    sum_f o_vf <= 1                                                                         (P10)
    y_j + sum_{f > F_v - h_jv} o_vf <= 1                       for every j that may stay    (P11)
    sum_{j distributed on v} y_j + sum_f o_vf1 <= 1            interference avoidance       (P12)

The program is a *relaxation*: the pieces of equal distributed jobs are counted together, so that a
solution may (rarely) not split into jobs. `packing.pack` tells, and `build_patterns` with
``exact=True`` counts the pieces of every distributed job by itself, which makes the program exact
under interference avoidance. Without it two slots of one job may still share a node, and a job on
"several" nodes end up on one; `node_program` settles what is left.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.kept_placements import add_residents, free_nodes
from goodalloc.models.support.array_types import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.kept_placements import FreeNodes, Offers, StayRows
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Indices

#: A row: its coefficients, and the most that they may come to.
Limit = tuple[Floats, float]


@dataclass(frozen=True)
class PatternProgram:
    """The program with the column indices that decoding needs.

    The first columns are the choices. The columns ``b`` and ``o`` are listed with their node, size
    and d; ``dist[f, q]`` are the columns ``E``, ``cut[s, q]`` the columns ``X`` and
    ``piece[owner, q]`` the columns ``Q`` (owner: K, or the job when exact). ``slot_rows[s]`` and
    ``piece_rows[q]`` are the rows (P6) and (P7), the same where interference is not avoided.
    """

    program: Program
    choices: Choices
    free: FreeNodes
    offer_columns: Int[Indices, " offers"]
    offer_node: Int[Indices, " offers"]
    offer_size: Int[Indices, " offers"]
    offer_distributable: Bool[Flags, " offers"]
    dist: dict[tuple[int, int], int] = field(default_factory=dict)
    cut: dict[tuple[int, int], int] = field(default_factory=dict)
    piece: dict[tuple[int, int], int] = field(default_factory=dict)
    exact: bool = False
    slot_rows: Int[Indices, " sizes"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    piece_rows: Int[Indices, " sizes"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    stay_rows: StayRows | None = None


def build_patterns(
    instance: Instance,
    choices: Choices,
    cost: Float[Floats, " choices"],
    *,
    limits: Sequence[Limit] = (),
    exact: bool = False,
) -> PatternProgram:
    """Build the pattern program over some choices.

    Parameters
    ----------
    instance
        The round.
    choices
        The choices to decide among; every job has at least one.
    cost
        Cost of every choice, to be minimised; shape (choices,).
    limits
        Further rows: pairs of weights of the choices, shape (choices,), and the most they may sum
        to.
    exact
        Count the pieces of every distributed job by itself (exact under interference avoidance).

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.gpu_rounds import build_patterns, enumerate_choices
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> patterns = build_patterns(instance, choices, power_cost(choices.utility, -1.0))
    >>> patterns.program.num_columns >= len(choices)
    True
    """
    builder = ProgramBuilder()
    x = builder.add_columns("choice", len(choices), cost=cost, upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)  # (P2)
    builder.add_entries(jobs[choices.job], x, 1.0)
    free = free_nodes(instance, choices)
    offers, stay_rows = add_residents(builder, instance, free)
    slots = _Slots.start(builder, free, offers, choices, x)
    several = choices.of(Kind.SEVERAL_NODES)
    if several.size:
        _add_pieces(builder, instance, slots, choices, several, exact=exact)
    limit_rows = builder.add_rows("limit", len(limits), upper=[most for _, most in limits])
    for row, (weights, _) in zip(limit_rows, limits, strict=True):
        weighed = np.flatnonzero(weights)
        builder.add_entries(row, x[weighed], weights[weighed])
    return PatternProgram(
        builder.build(),
        choices,
        free,
        *offers,
        slots.dist,
        slots.cut,
        slots.piece,
        exact,
        slots.slot_rows,
        slots.piece_rows,
        stay_rows,
    )


@dataclass
class _Slots:
    """Rows that count free nodes and slots by size, while the program is being built."""

    most: int
    node_rows: Int[Indices, " sizes"]
    slot_rows: Int[Indices, " sizes"]
    piece_rows: Int[Indices, " sizes"]
    dist: dict[tuple[int, int], int] = field(default_factory=dict)
    cut: dict[tuple[int, int], int] = field(default_factory=dict)
    piece: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        builder: ProgramBuilder,
        free: FreeNodes,
        offers: Offers,
        choices: Choices,
        x: Int[Indices, " choices"],
    ) -> _Slots:
        """Add rows (P5) and (P6): the free nodes, the offers, the cuts, the demand on one node."""
        most = int(max(free.gpus.max(), choices.replicas[choices.of(Kind.ONE_NODE)].max(initial=1)))
        empty = ~free.resident
        open_count = np.bincount(free.gpus[empty & ~free.blocked], minlength=most + 1)
        all_count = np.bincount(free.gpus[empty], minlength=most + 1)
        node_rows = builder.add_rows("free_node", most + 1, upper=open_count)  # (P5)
        slot_rows = builder.add_rows("slot", most + 1, lower=-all_count.astype(float))  # (P6)
        t, _, size, distributable = offers
        builder.add_entries(node_rows[size[distributable]], t[distributable], -1.0)
        builder.add_entries(slot_rows[size], t, 1.0)
        slots = cls(most, node_rows, slot_rows, slot_rows)
        cuts = [(s, a) for s in range(2, most + 1) for a in range(1, s // 2 + 1)]
        columns = builder.add_columns(
            "cut", len(cuts), upper=float(free.gpus.sum()), label=lambda i: "{}_{}".format(*cuts[i])
        )
        for column, (s, a) in zip(columns.tolist(), cuts, strict=True):
            builder.add_entries(slot_rows[[s, a, s - a]], column, [-1.0, 1.0, 1.0])
            slots.cut[s, a] = column
        one = choices.of(Kind.ONE_NODE)
        builder.add_entries(slot_rows[choices.replicas[one]], x[one], -1.0)
        return slots


def _add_pieces(
    builder: ProgramBuilder,
    instance: Instance,
    slots: _Slots,
    choices: Choices,
    several: Indices,
    *,
    exact: bool,
) -> None:
    """Add the pieces that distributed jobs take and the nodes that these come from, (P7) and
    (P8).
    """
    most, num_nodes = slots.most, float(instance.cluster.num_nodes)
    piece_rows = slots.slot_rows
    if instance.rules.interference_avoidance:
        piece_rows = builder.add_rows("piece", most + 1, lower=0.0)  # (P7)
        slots.piece_rows = piece_rows
        _add_distributed(builder, slots, piece_rows, num_nodes)
    key = choices.job[several] if exact else choices.replicas[several]
    owners, owner_of = np.unique(key, return_inverse=True)

    def name_owner(i: int) -> str:
        return str(owners[i])

    gpu_rows = builder.add_rows("pieces_gpus", owners.size, lower=0.0, label=name_owner)  # (P8)
    few_rows = builder.add_rows("pieces_least", owners.size, lower=0.0, label=name_owner)
    many_rows = builder.add_rows("pieces_most", owners.size, upper=0.0, label=name_owner)
    builder.add_entries(gpu_rows[owner_of], several, -choices.replicas[several])
    builder.add_entries(few_rows[owner_of], several, -2.0)
    builder.add_entries(many_rows[owner_of], several, -instance.rules.max_nodes_per_job)
    largest = np.zeros(owners.size, dtype=np.int64)
    np.maximum.at(largest, owner_of, choices.replicas[several])
    sizes = np.minimum(most, largest - 1)
    owner = np.repeat(np.arange(owners.size), sizes)
    size = np.arange(1, owner.size + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = builder.add_columns(
        "pieces",
        owner.size,
        upper=float(instance.cluster.num_gpus),
        label=lambda i: f"{owners[owner[i]]}_{size[i]}",
    )
    builder.add_entries(piece_rows[size], columns, -1.0)
    builder.add_entries(gpu_rows[owner], columns, size)
    builder.add_entries(few_rows[owner], columns, 1.0)
    builder.add_entries(many_rows[owner], columns, 1.0)
    keys = zip(owners[owner].tolist(), size.tolist(), strict=True)
    slots.piece.update(zip(keys, columns.tolist(), strict=True))


def _add_distributed(
    builder: ProgramBuilder, slots: _Slots, piece_rows: Indices, num_nodes: float
) -> None:
    """Add columns ``E``: a free node gives one piece to a distributed job, the rest is a slot."""
    splits = [(r, q) for r in range(1, slots.most + 1) for q in range(1, r + 1)]
    columns = builder.add_columns(
        "distributed", len(splits), upper=num_nodes, label=lambda i: "{}_{}".format(*splits[i])
    )
    for column, (r, q) in zip(columns.tolist(), splits, strict=True):
        builder.add_entries(slots.node_rows[r], column, 1.0)
        builder.add_entries(slots.slot_rows[r], column, -1.0)
        if q < r:
            builder.add_entries(slots.slot_rows[r - q], column, 1.0)
        builder.add_entries(piece_rows[q], column, 1.0)
        slots.dist[r, q] = column
