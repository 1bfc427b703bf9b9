r"""The node-indexed program of a round on a tree, in Pyomo: one page, to be read.

Job *j* takes one choice *i* of :math:`A_j`: nothing, what it holds, or :math:`K_i` GPUs on one node
(level 0) or on several that a domain of level :math:`l_i` holds. It has :math:`y_{jv}` GPUs on node
*v* and touches it or not, :math:`z_{jv}`; :math:`g_{jld}` says that it lies in domain *d* of level
*l*, and :math:`e_{jd}` that it shares the uplink of *d*.

.. math::

    \min \sum_j \sum_{i \in A_j} c_i x_i \quad \text{s.t.} \quad
    & \sum_{i \in A_j} x_i = 1  && \forall j   (1) \\
    & \textstyle\sum_v y_{jv} = \sum_i K_i x_i, \quad
      z_{jv} \le y_{jv} \le G_v z_{jv}  && \forall j, v (2) \\
    & x_{j,one} + 2 x_{j,several} \le \textstyle\sum_v z_{jv}
      \le x_{j,one} + N_{max} x_{j,several}  && \forall j   (3) \\
    & \textstyle\sum_d g_{jld} = \sum_{i : l_i = l} x_i, \quad
      z_{jv} \le x_{j,one} + \sum_l g_{j,l,d(v,l)}  && \forall j, v (4) \\
    & \textstyle\sum_j (y_{jv} + h_{jv} k_j) \le G_v  && \forall v   (5) \\
    & \textstyle\sum_j (w_{jv} + k_j [h_{jv} > 0, h_j \text{ on several}]) \le 1, \quad
      w_{jv} \ge z_{jv} + x_{j,several} - 1  && \forall v   (6) \\
    & e_{jd} \ge z_{jv} - x_{j,one} - \textstyle\sum_{d' \subseteq d} g_{jl'd'}, \quad
      \sum_j (e_{jd} + k_j [h_j \text{ crosses } d]) \le U_d  && \forall d   (7)

with the choice :math:`k_j` to keep the :math:`h_{jv}` GPUs that the job holds, (6) where
interference is avoided and (7) for domains whose uplink is limited. The choices are by default
those of `topology_choices` without pruning. *Exact*.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo.environ as pyo

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.tree_choices import level_of_choices, topology_choices
from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.models.support.array_types import Floats
    from goodalloc.models.topology.topology_round import TopologyRound


def build_tree_milp(
    round_: TopologyRound,
    choices: Choices | None = None,
    cost: Floats | None = None,
    limits: Sequence[Limit] = (),
) -> pyo.ConcreteModel:
    """Build the program (1)-(7) as a Pyomo model.

    Parameters
    ----------
    round_
        The round.
    choices
        Choices of its jobs; all of them if None.
    cost
        Cost of every choice; that of the rules' power if None.
    limits
        Further rows: pairs of weights of the choices and the most that they may sum to.

    Raises
    ------
    ValueError
        If no cost is given and the power is infinite.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.topology import build_tree_milp
    >>> from goodalloc.models.topology import Topology, TopologyRound
    >>> round_ = TopologyRound(load_benchmark("tiny-cold"), Topology((), ()))
    >>> len(build_tree_milp(round_).node_capacity)
    2
    """
    choices = topology_choices(round_, prune=False) if choices is None else choices
    power = round_.instance.rules.power
    costs = power_cost(choices.utility, power) if cost is None else cost
    model = pyo.ConcreteModel(name=round_.instance.name)
    _add_sets(model, round_, level_of_choices(round_, choices).tolist(), choices.job.tolist())
    model.kind, model.gpus_of = choices.kind.tolist(), choices.replicas.tolist()
    model.take = pyo.Var(model.choices, domain=pyo.Binary)
    model.gpus = pyo.Var(model.jobs, model.nodes, domain=pyo.NonNegativeIntegers)
    model.touches = pyo.Var(model.jobs, model.nodes, domain=pyo.Binary)
    model.inside = pyo.Var(model.jobs, model.domains, domain=pyo.Binary)
    model.total_cost = pyo.Objective(
        expr=pyo.quicksum(float(costs[i]) * model.take[i] for i in model.choices)
    )
    _add_shapes(model, round_)
    _add_levels(model, round_)
    _add_nodes(model, round_)
    _add_uplinks(model, round_)

    @model.Constraint(range(len(limits)))  # type: ignore[untyped-decorator]
    def further(model: Any, index: int) -> Any:
        weights, most = limits[index]
        weighed = np.flatnonzero(weights).tolist()
        if not weighed:
            return pyo.Constraint.Skip
        return pyo.quicksum(float(weights[i]) * model.take[i] for i in weighed) <= most

    return model


def _add_sets(model: Any, round_: TopologyRound, levels: list[int], jobs: list[int]) -> None:
    """Add the sets: jobs, nodes, choices, and the domains of every level above the node."""
    instance = round_.instance
    model.jobs = pyo.RangeSet(0, instance.num_jobs - 1)
    model.nodes = pyo.RangeSet(0, instance.cluster.num_nodes - 1)
    model.choices = pyo.RangeSet(0, len(jobs) - 1)
    model.levels = range(1, round_.domain.shape[0])
    model.domain = round_.domain.tolist()
    pairs = [(place, d) for place in model.levels for d in range(max(model.domain[place]) + 1)]
    model.domains = pyo.Set(initialize=pairs, dimen=2)
    model.level, model.choices_of = levels, [[] for _ in model.jobs]
    for index, job in enumerate(jobs):
        model.choices_of[job].append(index)


def _taken(model: Any, job: int, *kinds: Kind, level: int | None = None) -> Any:
    """Return the expression: a job takes a choice of these kinds, of one level if given."""
    return pyo.quicksum(
        model.take[i]
        for i in model.choices_of[job]
        if model.kind[i] in kinds and level in (None, model.level[i])
    )


def _add_shapes(model: Any, round_: TopologyRound) -> None:
    """Add the rows that tie a job's GPUs and nodes to its choice."""
    most = round_.instance.rules.max_nodes_per_job
    has = round_.instance.cluster.node_gpus.tolist()

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def one_choice(model: Any, j: int) -> Any:  # (1)
        return pyo.quicksum(model.take[i] for i in model.choices_of[j]) == 1

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def all_gpus(model: Any, j: int) -> Any:  # (2), left
        new = [i for i in model.choices_of[j] if model.kind[i] >= Kind.ONE_NODE]
        wanted = pyo.quicksum(model.gpus_of[i] * model.take[i] for i in new)
        return pyo.quicksum(model.gpus[j, v] for v in model.nodes) == wanted

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def touched_holds_some(model: Any, j: int, v: int) -> Any:  # (2), middle
        return model.touches[j, v] <= model.gpus[j, v]

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def untouched_holds_none(model: Any, j: int, v: int) -> Any:  # (2), right
        return model.gpus[j, v] <= has[v] * model.touches[j, v]

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def enough_nodes(model: Any, j: int) -> Any:  # (3), left
        least = _taken(model, j, Kind.ONE_NODE) + 2 * _taken(model, j, Kind.SEVERAL_NODES)
        return least <= pyo.quicksum(model.touches[j, v] for v in model.nodes)

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def not_too_many_nodes(model: Any, j: int) -> Any:  # (3), right
        greatest = _taken(model, j, Kind.ONE_NODE) + most * _taken(model, j, Kind.SEVERAL_NODES)
        return pyo.quicksum(model.touches[j, v] for v in model.nodes) <= greatest


def _add_levels(model: Any, round_: TopologyRound) -> None:
    """Add the rows that keep a job within one domain of its level."""

    @model.Constraint(model.jobs, model.levels)  # type: ignore[untyped-decorator]
    def one_domain(model: Any, j: int, place: int) -> Any:  # (4), left
        domains = [key for key in model.domains if key[0] == place]
        chosen = _taken(model, j, Kind.SEVERAL_NODES, level=place)
        return pyo.quicksum(model.inside[j, key] for key in domains) == chosen

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def inside_its_domain(model: Any, j: int, v: int) -> Any:  # (4), right
        holding = [model.inside[j, place, model.domain[place][v]] for place in model.levels]
        return model.touches[j, v] <= _taken(model, j, Kind.ONE_NODE) + pyo.quicksum(holding)


def _add_nodes(model: Any, round_: TopologyRound) -> None:
    """Add the GPUs of every node, and at most one distributed job on each."""
    has = round_.instance.cluster.node_gpus.tolist()
    held = round_.instance.current.matrix()
    spread = np.count_nonzero(held, axis=1) > 1

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def node_capacity(model: Any, v: int) -> Any:  # (5)
        kept = pyo.quicksum(int(held[j, v]) * _taken(model, j, Kind.KEEP) for j in model.jobs)
        return pyo.quicksum(model.gpus[j, v] for j in model.jobs) + kept <= has[v]

    if not round_.instance.rules.interference_avoidance:
        return
    model.distributed = pyo.Var(model.jobs, model.nodes, domain=pyo.NonNegativeReals)

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def marks_distributed(model: Any, j: int, v: int) -> Any:  # (6), right
        both = model.touches[j, v] + _taken(model, j, Kind.SEVERAL_NODES)
        return model.distributed[j, v] >= both - 1

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def interference(model: Any, v: int) -> Any:  # (6), left
        staying = [_taken(model, j, Kind.KEEP) for j in model.jobs if spread[j] and held[j, v] > 0]
        placed = pyo.quicksum(model.distributed[j, v] for j in model.jobs)
        return placed + pyo.quicksum(staying) <= 1


def _add_uplinks(model: Any, round_: TopologyRound) -> None:
    """Add the most jobs that share the uplink of every domain of a limited level."""
    limits = round_.topology.limited_levels
    limited = [key for key in model.domains if key[0] in limits]
    model.crosses = pyo.Var(model.jobs, limited, domain=pyo.Binary)
    staying: dict[tuple[int, int], list[int]] = {key: [] for key in limited}
    for place in limits:
        for j, d in zip(*round_.crossings(round_.instance.current, place), strict=True):
            staying[place, int(d)].append(int(j))

    @model.Constraint(model.jobs, limited, model.nodes)  # type: ignore[untyped-decorator]
    def crosses_unless_inside(model: Any, j: int, place: int, d: int, v: int) -> Any:  # (7), left
        if model.domain[place][v] != d:
            return pyo.Constraint.Skip
        lower = range(1, place + 1)
        below = {(low, model.domain[low][u]) for low in lower for u in _nodes_of(model, place, d)}
        inside = pyo.quicksum(model.inside[j, key] for key in sorted(below))
        alone = _taken(model, j, Kind.ONE_NODE)
        return model.crosses[j, place, d] >= model.touches[j, v] - inside - alone

    @model.Constraint(limited)  # type: ignore[untyped-decorator]
    def uplink(model: Any, place: int, d: int) -> Any:  # (7), right
        kept = pyo.quicksum(_taken(model, j, Kind.KEEP) for j in staying[place, d])
        new = pyo.quicksum(model.crosses[j, place, d] for j in model.jobs)
        return new + kept <= limits[place]


def _nodes_of(model: Any, place: int, domain: int) -> list[int]:
    """Return the nodes of a domain."""
    return [v for v in model.nodes if model.domain[place][v] == domain]


def decode_tree(model: Any, round_: TopologyRound) -> Allocation:
    """Return the allocation that the variables' values describe.

    Parameters
    ----------
    model, round_
        A model of `build_tree_milp` that a solver has filled, and its round.
    """
    matrix = np.zeros((round_.instance.num_jobs, round_.instance.cluster.num_nodes), dtype=np.int64)
    for j, v in model.gpus:
        matrix[j, v] = round(pyo.value(model.gpus[j, v]))
    for j in model.jobs:
        if pyo.value(_taken(model, j, Kind.KEEP)) > 0.5:
            matrix[j] = round_.instance.current.matrix()[j]
    return Allocation.from_matrix(matrix)
