r"""Packing of a batch of pods, one-node jobs, for the greatest utility.

Equal jobs are a kind *t* of :math:`N_t`, equal nodes a class *c* of :math:`M_c` with :math:`G_c`
GPUs each and :math:`R_{cr}` of resource *r*. A kind has options *o*: how many replicas
:math:`k_o`, each with the part :math:`s_o` of a GPU, all with :math:`d_{or}` of the resources, and
:math:`g_o`, by how much the utility is above that of idling. A *filling* *f* is a largest set of
parts that one GPU carries, :math:`n_{fs}` of size *s*. What one node can hold, :math:`x_o` pods by
option, is

.. math::

    \sum_o d_{or} x_o \le R_{cr} \;\; \forall r, \qquad
    \sum_{s_o = 1} k_o x_o + \sum_f z_f \le G_c, \qquad
    \sum_{s_o = s} k_o x_o \le \sum_f n_{fs} z_f \;\; \forall s < 1                          (1)

with whole *x*, *z*: *exact* for one node. The most that a node is worth at prices of the options is
(1) with the prices as the objective: `node_program`.

**By classes** (`class_program`). (1) once for a whole class, its right-hand sides times
:math:`M_c`, no option more often than its nodes hold it one by one, and
:math:`\sum_{o \in t, c} x_{oc} \le N_t`. It forgets which of its nodes a
pod is on: a *relaxation*, but *exact* with a class for every node (`by_node`).

**By patterns** (`pattern_program`), after Gilmore and Gomory. A pattern *q* of class *c* is a
solution of (1), :math:`\lambda_q` the nodes that have it and :math:`y_o` the pods by option:

.. math::

    \max \sum_o g_o y_o \quad \text{s.t.} \quad \sum_{o \in t} y_o \le N_t, \qquad
    y_o \le \sum_q x_{qo} \lambda_q, \qquad \sum_{q \in c} \lambda_q \le M_c.                (2)

With some of the patterns and whole :math:`\lambda` it is a *restriction*. With all of them and real
:math:`\lambda` a relaxation, at least as tight as that by classes, whose value is bounded at any
prices :math:`\pi_o \ge 0` of the middle rows, with :math:`v_c(\pi)` the optimum of (1), by

.. math::

    \sum_t N_t \max(0, \max_{o \in t} (g_o - \pi_o)) + \sum_c M_c v_c(\pi).                  (3)

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
    Descent", ATC 2023. https://www.usenix.org/conference/atc23/presentation/weng
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.pods.demand import pod_options
from goodalloc.formulations.pods.gpu_fillings import fillings
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.pods.demand import Demand
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


class NodeClass(NamedTuple):
    """Equal nodes: their indices, GPUs, type of GPU, and resources of shape (resources,)."""

    nodes: tuple[int, ...]
    gpus: int
    gpu_type: str
    resources: tuple[float, ...]


class Pattern(NamedTuple):
    """Contents of a node of a class: pairs of an option and a number of pods."""

    node_class: int
    pods: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PodPacking:
    """A batch of pods and the nodes for them.

    Parameters
    ----------
    kinds
        The jobs of every kind.
    options
        Demand of every option.
    kind, gain
        Whose option it is and what it adds to the utility: shape (options,).
    classes
        The nodes.
    most
        How many pods of an option one node of a class holds by itself: shape (options, classes).
    """

    kinds: tuple[tuple[int, ...], ...]
    options: tuple[Demand, ...]
    kind: Int[Indices, " options"]
    gain: Float[Floats, " options"]
    classes: tuple[NodeClass, ...]
    most: Int[Indices, "options classes"]

    @property
    def counts(self) -> Int[Indices, " kinds"]:
        """Jobs of every kind, shape (kinds,)."""
        return np.array([len(jobs) for jobs in self.kinds], dtype=np.int64)


def build_packing(instance: Instance) -> PodPacking:
    """Group the jobs and the nodes of an instance.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import build_packing
    >>> instance = pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods")
    >>> packing = build_packing(instance)
    >>> type(packing).__name__
    'PodPacking'
    """
    by_options: dict[tuple[tuple[Demand, float], ...], list[int]] = {}
    for job, ways in enumerate(pod_options(instance)):
        by_options.setdefault(ways, []).append(job)
    capacity, types = instance.cluster.node_resources.tolist(), instance.cluster.node_types
    by_content: dict[tuple[int, str, tuple[float, ...]], list[int]] = {}
    for node, gpus in enumerate(instance.cluster.node_gpus.tolist()):
        by_content.setdefault((gpus, types[node], tuple(capacity[node])), []).append(node)
    classes = tuple(
        NodeClass(tuple(nodes), gpus, kind, amounts)
        for (gpus, kind, amounts), nodes in by_content.items()
    )
    kinds = tuple(tuple(jobs) for jobs in by_options.values())
    options = [(t, *way) for t, ways in enumerate(by_options) for way in ways]
    most = [[min(_most(way, one), len(kinds[t])) for one in classes] for t, way, _ in options]
    return PodPacking(
        kinds,
        tuple(demand for _, demand, _ in options),
        np.array([t for t, _, _ in options], dtype=np.int64),
        np.array([gain for _, _, gain in options]),
        classes,
        np.array(most, dtype=np.int64).reshape(len(options), len(classes)),
    )


def _most(demand: Demand, one: NodeClass) -> int:
    """Return how many pods of one demand a node of a class holds."""
    if not ("" in demand.gpu_types or one.gpu_type in demand.gpu_types):
        return 0
    tolerant = 1 + RESOURCE_TOLERANCE
    limits = [
        int(has * tolerant / takes)
        for has, takes in zip(one.resources, demand.takes, strict=True)
        if takes > 0
    ]
    if demand.share > 0:
        limits.append(one.gpus * int(tolerant / demand.share) // demand.replicas)
    return min(limits)


def by_node(packing: PodPacking) -> PodPacking:
    """Return the packing with every node a class of its own: the program by classes is then
    *exact*.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import build_packing, by_node
    >>> packing = build_packing(pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods"))
    >>> len(by_node(packing).classes)
    8
    """
    lengths = [len(one.nodes) for one in packing.classes]
    nodes = tuple(one._replace(nodes=(node,)) for one in packing.classes for node in one.nodes)
    return replace(packing, classes=nodes, most=np.repeat(packing.most, lengths, axis=1))


def class_program(packing: PodPacking) -> Program:
    """Return the program by classes, minimised: a relaxation; its first columns are (option,
    class).

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import build_packing, class_program
    >>> packing = build_packing(pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods"))
    >>> class_program(packing).num_columns >= len(packing.options)
    False
    """
    builder = ProgramBuilder()
    option, where = np.nonzero(packing.most)
    nodes = np.array([len(one.nodes) for one in packing.classes])
    counts = packing.counts
    most = np.minimum(packing.most[option, where] * nodes[where], counts[packing.kind[option]])
    placed = builder.add_columns("placed", option.size, cost=-packing.gain[option], upper=most)
    kinds = builder.add_rows("kind", counts.size, upper=counts)
    builder.add_entries(kinds[packing.kind[option]], placed, 1.0)
    for index in range(len(packing.classes)):
        mine = where == index
        if mine.any():
            _add_room(builder, packing, index, option[mine], placed[mine], int(nodes[index]))
    return builder.build()


def node_program(
    packing: PodPacking, node_class: int, prices: Float[Floats, " options"]
) -> tuple[Program, Int[Indices, " paying"]]:
    """Return program (1) for one node at prices of the options, minimised, and the options that
    pay.

    The first columns are the pods of these options. Without any the program is empty of columns.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> import numpy as np
    >>> from goodalloc.formulations.pods import build_packing, node_program
    >>> packing = build_packing(pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods"))
    >>> program, paying = node_program(packing, 0, prices=np.ones(len(packing.options)))
    >>> program.num_columns >= paying.size
    True
    """
    builder = ProgramBuilder()
    paying = np.flatnonzero((prices > 0) & (packing.most[:, node_class] > 0))
    columns = builder.add_columns(
        "pods", paying.size, cost=-prices[paying], upper=packing.most[paying, node_class]
    )
    _add_room(builder, packing, node_class, paying, columns, 1)
    return builder.build(), paying


def _add_room(
    builder: ProgramBuilder,
    packing: PodPacking,
    node_class: int,
    option: Indices,
    columns: Indices,
    nodes: int,
) -> None:
    """Add rows (1) of `number` nodes of a class, relative to one node's capacity."""
    one = packing.classes[node_class]
    demands = [packing.options[index] for index in option.tolist()]
    for resource, has in enumerate(one.resources):
        takes = np.array([demand.takes[resource] for demand in demands])
        if has > 0 and takes.any():
            row = builder.add_rows("resource", 1, upper=float(nodes))
            builder.add_entries(row, columns, takes / has)
    parts = Counter[float]()
    for demand, index in zip(demands, option.tolist(), strict=True):
        if 0 < demand.share < 1:
            parts[demand.share] += int(packing.counts[packing.kind[index]]) * demand.replicas
    sizes = tuple(sorted(parts, reverse=True))
    listed = fillings(sizes, tuple(parts[size] for size in sizes))
    whole = builder.add_rows("gpus", 1, upper=float(one.gpus * nodes))
    gpus = [d.replicas if d.share == 1 or listed is None else 0 for d in demands]
    shares = [d.share if listed is None else 1.0 for d in demands]
    builder.add_entries(whole, columns, np.array(gpus) * np.array(shares))
    if not listed:
        return
    carried = builder.add_columns("filling", len(listed), upper=float(one.gpus * nodes))
    builder.add_entries(whole, carried, 1.0)
    rows = builder.add_rows("parts", len(sizes), upper=0.0)
    number = {size: row for size, row in zip(sizes, rows.tolist(), strict=True)}
    for demand, column in zip(demands, columns.tolist(), strict=True):
        if demand.share in number:
            builder.add_entries(number[demand.share], column, demand.replicas)
    table = np.array(listed)
    at, size = np.nonzero(table)
    builder.add_entries(rows[size], carried[at], -table[at, size])


class PatternProgram(NamedTuple):
    """Program (2), minimised; its first columns are the pods by option, the others the patterns.

    Attributes
    ----------
    program
        The program.
    supply
        Its middle rows, one an option.
    """

    program: Program
    supply: Int[Indices, " options"]


def pattern_program(packing: PodPacking, patterns: Sequence[Pattern]) -> PatternProgram:
    """Return program (2) with these patterns.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import build_packing, pattern_program
    >>> packing = build_packing(pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods"))
    >>> pattern_program(packing, patterns=()).program.num_columns >= 0
    True
    """
    builder = ProgramBuilder()
    counts, classes = packing.counts, packing.classes
    pods = builder.add_columns(
        "pods", packing.gain.size, cost=-packing.gain, upper=counts[packing.kind]
    )
    nodes = np.array([len(classes[pattern.node_class].nodes) for pattern in patterns])
    used = builder.add_columns("nodes", len(patterns), upper=nodes)
    kinds = builder.add_rows("kind", counts.size, upper=counts)
    supply = builder.add_rows("option", pods.size, upper=0.0)
    rows = builder.add_rows("class", len(classes), upper=[len(one.nodes) for one in classes])
    builder.add_entries(kinds[packing.kind], pods, 1.0)
    builder.add_entries(supply, pods, 1.0)
    of_class = np.array([pattern.node_class for pattern in patterns], dtype=np.int64)
    builder.add_entries(rows[of_class], used, 1.0)
    entries = [(o, q, -n) for q, pattern in enumerate(patterns) for o, n in pattern.pods]
    if entries:
        option, at, number = np.array(entries).T
        builder.add_entries(supply[option], used[at], number)
    return PatternProgram(builder.build(), supply)


def price_bound(
    packing: PodPacking, prices: Float[Floats, " options"], worth: Float[Floats, " classes"]
) -> float:
    """Return bound (3) at prices of the options.

    Parameters
    ----------
    packing
        The batch.
    prices
        At least 0, shape (options,).
    worth
        At least what the best pattern of every class is worth at the prices, shape (classes,).

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> import numpy as np
    >>> from goodalloc.formulations.pods import build_packing, price_bound
    >>> packing = build_packing(pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods"))
    >>> free, nothing = np.zeros(len(packing.options)), np.zeros(len(packing.classes))
    >>> price_bound(packing, free, nothing) > 0  # all pods at once
    True
    """
    gains = np.zeros(len(packing.kinds))
    np.maximum.at(gains, packing.kind, packing.gain - prices)
    nodes = np.array([len(one.nodes) for one in packing.classes])
    return float(packing.counts @ gains + nodes @ np.maximum(worth, 0.0))


def dual_bound(program: Program, duals: Float[Floats, " rows"]) -> float:
    """Return a bound on a minimisation with bounded columns and upper bounds on rows, from any
    prices of its rows.

    ``min c x >= sum_i y_i b_i + sum_j u_j min(0, c_j - (A' y)_j)`` for ``y <= 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder
    >>> from goodalloc.formulations.pods import dual_bound
    >>> builder = ProgramBuilder()
    >>> x = builder.add_columns("x", 2, cost=[-2.0, -1.0], upper=1.0)
    >>> builder.add_entries(builder.add_rows("room", 1, upper=1.0)[[0, 0]], x, 1.0)
    >>> dual_bound(builder.build(), np.array([-2.0]))  # one unit is worth 2 at most
    -2.0
    """
    prices = np.minimum(duals, 0.0)
    reduced = program.reduced_costs(prices)
    return float(prices @ program.row_upper + program.upper @ np.minimum(reduced, 0.0))
