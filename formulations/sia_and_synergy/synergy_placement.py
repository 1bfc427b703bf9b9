r"""The second program of Synergy-OPT: chosen modes on servers, with little splitting.

Jobs *j* with :math:`g_j` GPUs and :math:`d_{jr}` of resource *r* beside each; node *v* has
:math:`F_v` GPUs and :math:`R_{vr}` free. With :math:`a_{jv}` replicas of *j* on *v*, :math:`z_{jv}`
one where there are any, :math:`s_j` one where they are on several nodes,

.. math::

    \min \sum_j \sum_v z_{jv}                                                                 (1)

    \sum_v a_{jv} = g_j, \qquad a_{jv} \le \min(g_j, F_v) z_{jv}          \quad \forall j, v   (2)

    \sum_j a_{jv} \le F_v, \qquad \sum_j d_{jr} a_{jv} \le R_{vr}         \quad \forall v, r   (3)

    \sum_v z_{jv} \le 1 + (N_{max} - 1) s_j                               \quad \forall j      (4)

    w_{jv} \ge z_{jv} + s_j - 1, \qquad \sum_j w_{jv} \le 1               \quad \forall v      (5)

The paper minimises the splitting of jobs with a *linear* program, fractions of a job on every node,
which its simulator has without an objective and re-fits greedily; here replicas are whole, so that
a solution is an allocation. (4) and (5), the most nodes of a job and interference avoidance, are
rules of ours that Synergy has not; (5) is left out where the instance does not ask for it. *Exact*:
its solutions are the placements of the chosen modes. Jobs of one GPU that take the same may stand
for one another, so they are counted, and not split: no *z* is needed for them.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Flags, Floats, Indices


class Room(NamedTuple):
    """Free capacity.

    Parameters
    ----------
    gpus, amounts
        GPUs, shape (nodes,), and other resources, shape (nodes, resources).
    closed
        Whether a node holds a distributed job already and must not be touched by another; (nodes,).
    """

    gpus: Int[Indices, " nodes"]
    amounts: Float[Floats, "nodes resources"]
    closed: Bool[Flags, " nodes"]


class Items(NamedTuple):
    """Jobs to be placed: kinds of jobs, of one job each if it has several GPUs.

    Parameters
    ----------
    jobs
        The jobs of every kind.
    gpus
        GPUs of each of these jobs, shape (kinds,).
    taken
        Demand of a replica, shape (kinds, resources).
    allowed
        Nodes that may hold it, shape (kinds, nodes).
    """

    jobs: tuple[tuple[int, ...], ...]
    gpus: Int[Indices, " kinds"]
    taken: Float[Floats, "kinds resources"]
    allowed: Bool[Flags, "kinds nodes"]


class PlacementProgram(NamedTuple):
    """The program, and the columns of the replicas of a kind on a node.

    Parameters
    ----------
    program
        The program.
    kind, node, column
        Kind, node and index of every column of replicas, each of shape (entries,).
    """

    program: Program
    kind: Int[Indices, " entries"]
    node: Int[Indices, " entries"]
    column: Int[Indices, " entries"]


def group_items(
    jobs: Int[Indices, " placed"],
    gpus: Int[Indices, " placed"],
    taken: Float[Floats, "placed resources"],
    allowed: Bool[Flags, "placed nodes"],
) -> Items:
    """Merge jobs of one GPU with equal demands.

    Parameters
    ----------
    jobs
        The jobs, shape (placed,).
    gpus, taken, allowed
        As of `Items`, a row for every one of these jobs.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import group_items
    >>> items = group_items(
    ...     jobs=np.array([0, 1, 2]),
    ...     gpus=np.array([1, 1, 2]),
    ...     taken=np.array([[2.0], [2.0], [2.0]]),
    ...     allowed=np.ones((3, 2), dtype=bool),
    ... )
    >>> len(items.gpus)  # two jobs of one GPU are alike
    2
    """
    kinds: dict[tuple[object, ...], list[int]] = {}
    for index in range(jobs.size):
        alone = index if gpus[index] > 1 else -1
        key = (alone, taken[index].tobytes(), allowed[index].tobytes())
        kinds.setdefault(key, []).append(index)
    first = np.array([members[0] for members in kinds.values()], dtype=np.int64)
    names = tuple(tuple(jobs[members].tolist()) for members in kinds.values())
    return Items(names, gpus[first], taken[first], allowed[first])


def placement_columns(items: Items, room: Room, *, exclusive: bool) -> int:
    """Return the number of columns of `build_placement_program` without building it.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import Room, group_items, placement_columns
    >>> allowed = np.ones((1, 2), dtype=bool)
    >>> items = group_items(np.array([0]), np.array([1]), np.array([[2.0]]), allowed)
    >>> room = Room(np.array([4, 4]), np.array([[8.0], [8.0]]), np.zeros(2, dtype=bool))
    >>> placement_columns(items, room, exclusive=False)
    2
    """
    kind = np.nonzero(items.allowed & (room.gpus > 0))[0]
    wide = int(np.count_nonzero(items.gpus[kind] > 1))
    return int(kind.size) + (wide * (1 + exclusive) + len(items.jobs) if wide else 0)


def build_placement_program(
    items: Items, room: Room, most_nodes: int, *, exclusive: bool
) -> PlacementProgram:
    """Build program (1)-(5).

    Parameters
    ----------
    items, room
        Jobs to be placed, and the free capacity.
    most_nodes
        Most nodes of a job.
    exclusive
        Whether at most one distributed job may touch a node.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import Room, group_items
    >>> from goodalloc.formulations.sia_and_synergy import build_placement_program
    >>> allowed = np.ones((1, 2), dtype=bool)
    >>> items = group_items(np.array([0]), np.array([1]), np.array([[2.0]]), allowed)
    >>> room = Room(np.array([4, 4]), np.array([[8.0], [8.0]]), np.zeros(2, dtype=bool))
    >>> build_placement_program(items, room, 16, exclusive=False).program.num_columns
    2
    """
    builder = ProgramBuilder()
    total = np.array([len(jobs) for jobs in items.jobs]) * items.gpus
    kind, node = np.nonzero(items.allowed & (room.gpus > 0))
    most = np.minimum(total[kind], room.gpus[node])
    column = builder.add_columns(
        "replicas", kind.size, upper=most, label=lambda i: f"{kind[i]}_{node[i]}"
    )
    rows = builder.add_rows("placed", len(items.jobs), lower=total, upper=total)  # (2)
    builder.add_entries(rows[kind], column, 1.0)
    rows = builder.add_rows("gpus", room.gpus.size, upper=room.gpus)  # (3)
    builder.add_entries(rows[node], column, 1.0)
    scale = np.where(room.amounts > 0, room.amounts, 1.0)
    for resource in range(room.amounts.shape[1]):
        free = np.maximum(room.amounts[:, resource], 0.0) / scale[:, resource]
        rows = builder.add_rows(f"resource_{resource}", free.size, upper=free)
        used = items.taken[kind, resource] / scale[node, resource]
        builder.add_entries(rows[node], column, used)
    wide = np.flatnonzero(items.gpus[kind] > 1)
    if wide.size:
        _add_splitting(
            builder,
            items,
            room,
            (kind[wide], node[wide], column[wide], most[wide]),
            most_nodes,
            exclusive=exclusive,
        )
    return PlacementProgram(builder.build(), kind, node, column)


def _add_splitting(
    builder: ProgramBuilder,
    items: Items,
    room: Room,
    entries: tuple[Indices, Indices, Indices, Indices],
    most_nodes: int,
    *,
    exclusive: bool,
) -> None:
    """Add (1), the right of (2), (4) and (5), for jobs of several GPUs."""
    kind, node, column, most = entries
    touched = builder.add_columns("touched", kind.size, cost=1.0, upper=1.0)
    rows = builder.add_rows("untouched", kind.size, upper=0.0)  # (2), right
    builder.add_entries(rows, column, 1.0)
    builder.add_entries(rows, touched, -most.astype(float))
    several = builder.add_columns("several", len(items.jobs), upper=1.0)
    rows = builder.add_rows("nodes", len(items.jobs), upper=1.0)  # (4)
    builder.add_entries(rows[kind], touched, 1.0)
    builder.add_entries(rows, several, 1.0 - most_nodes)
    if not exclusive:
        return
    shares = builder.add_columns("distributed", kind.size, upper=1.0)
    rows = builder.add_rows("distributed", kind.size, upper=1.0)  # (5), left
    for columns, value in ((touched, 1.0), (several[kind], 1.0), (shares, -1.0)):
        builder.add_entries(rows, columns, value)
    rows = builder.add_rows("interference", room.gpus.size, upper=np.where(room.closed, 0.0, 1.0))
    builder.add_entries(rows[node], shares, 1.0)


def decode_placement(
    items: Items, program: PlacementProgram, solution: Float[Floats, " columns"]
) -> dict[int, Placement]:
    """Return the placement of every job; jobs of a kind take its nodes in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import Room, group_items
    >>> from goodalloc.formulations.sia_and_synergy import build_placement_program, decode_placement
    >>> from goodalloc.solvers.interface import Stop, Watch
    >>> from goodalloc.solvers.milp import run_mixed_integer
    >>> allowed = np.ones((1, 2), dtype=bool)
    >>> items = group_items(np.array([0]), np.array([2]), np.array([[2.0]]), allowed)
    >>> room = Room(np.array([1, 4]), np.array([[8.0], [8.0]]), np.zeros(2, dtype=bool))
    >>> built = build_placement_program(items, room, 16, exclusive=False)
    >>> outcome = run_mixed_integer(built.program, Watch(Stop()), gap=1e-9)
    >>> decode_placement(items, built, outcome.values)  # job 0: two GPUs of node 1
    {0: ((1, 2),)}
    """
    found: dict[int, Placement] = {}
    replicas = np.rint(solution[program.column]).astype(np.int64)
    for index, jobs in enumerate(items.jobs):
        mine = np.flatnonzero((program.kind == index) & (replicas > 0))
        pairs = [(int(program.node[at]), int(replicas[at])) for at in mine]
        if items.gpus[index] > 1:
            found[jobs[0]] = tuple(pairs)
            continue
        nodes = [node for node, count in pairs for _ in range(count)]
        found |= {job: ((node, 1),) for job, node in zip(jobs, nodes, strict=True)}
    return found
