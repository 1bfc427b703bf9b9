r"""The node-indexed mixed-integer linear program, as it would stand in a paper, in Pyomo.

Sets: jobs :math:`j \in J`, nodes :math:`v \in V`, and for every job its choices :math:`i \in A_j`:
stay idle, keep exactly what it holds, or run anew on *one node* or on *several nodes* with
:math:`K_i` GPUs. :math:`S_j \subseteq A_j` are the choices on several nodes, :math:`O_j` on one.

Data: :math:`G_v` GPUs of node *v*; :math:`h_{jv}` replicas of *j* on *v* now; :math:`N_{max}` most
nodes of a job; :math:`c_{ji}` the cost of the utility :math:`u_{ji}`
(`formulations/power_cost.py`).

Variables: :math:`x_{ji} \in \{0,1\}`, job *j* takes choice *i*; :math:`a_{jv} \in \mathbb Z_+`,
replicas of *j* placed anew on *v*; :math:`z_{jv} \in \{0,1\}`, any of them there;
:math:`w_{jv} \ge 0`, those of a job on several nodes.

.. math::

    \min \sum_j \sum_{i \in A_j} c_{ji} x_{ji}                                                 (1)

    \sum_{i \in A_j} x_{ji} = 1                                         \quad \forall j        (2)

    \sum_v a_{jv} = \sum_{i \in O_j \cup S_j} K_i x_{ji}                \quad \forall j        (3)

    z_{jv} \le a_{jv} \le G_v z_{jv}                                    \quad \forall j, v     (4)

    \sum_{O_j} x_{ji} + 2 \sum_{S_j} x_{ji} \le \sum_v z_{jv}
        \le \sum_{O_j} x_{ji} + N_{max} \sum_{S_j} x_{ji}               \quad \forall j        (5)

    \sum_j (a_{jv} + h_{jv} x_{j,keep}) \le G_v                         \quad \forall v        (6)

    w_{jv} \ge z_{jv} + \sum_{S_j} x_{ji} - 1                           \quad \forall j, v     (7)

    \sum_j w_{jv} + \sum_{j \text{ on } v \text{ and others}} x_{j,keep} \le 1 \quad \forall v (8)

(8) is interference avoidance, at most one distributed job a node; without that rule (7) and (8) are
left out. Limits on the GPUs and nodes of a job are in its choices; a pinned job has one choice, to
keep. The program is *exact*: its solutions are the feasible allocations, a job placed anew exactly
where it was being worth no more than keeping. Written for reading and as a second road to the
optimum, it shares nothing with `choices.py` and the pattern program.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from goodalloc.formulations.power_cost import AtMost, power_cost
from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.models.objective import utility_table

Floats = NDArray[np.float64]

IDLE, KEEP, ONE_NODE, SEVERAL_NODES = "idle", "keep", "one_node", "several_nodes"


class NodeChoice(NamedTuple):
    """What a job may do: its index, the kind of choice, the GPUs."""

    job: int
    kind: str
    gpus: int


def node_choices(instance: Instance) -> dict[NodeChoice, float]:
    """Every choice of every job that the rules on single jobs allow, with its utility."""
    table, rules = utility_table(instance), instance.rules
    nodes = sorted(instance.cluster.node_gpus.tolist(), reverse=True)
    on_one, on_several = nodes[0], sum(nodes[: rules.max_nodes_per_job])
    several = len(nodes) > 1 and rules.max_nodes_per_job > 1
    choices: dict[NodeChoice, float] = {}
    for j, job in enumerate(instance.jobs):
        in_range = job.min_replicas <= job.replicas <= job.max_replicas
        if job.placement and in_range and len(job.placement) <= rules.max_nodes_per_job:
            choices[NodeChoice(j, KEEP, job.replicas)] = float(table.kept[j])
        if job.pinned:
            continue
        choices[NodeChoice(j, IDLE, 0)] = rules.floor
        for gpus in range(max(job.min_replicas, 1), min(job.max_replicas, sum(nodes)) + 1):
            if gpus <= on_one:
                choices[NodeChoice(j, ONE_NODE, gpus)] = float(table.moved[j, 0, gpus])
            if several and 2 <= gpus <= on_several:
                choices[NodeChoice(j, SEVERAL_NODES, gpus)] = float(table.moved[j, 1, gpus])
    return choices


def build_node_milp(
    instance: Instance,
    *,
    cost: Callable[[Floats], Floats] | None = None,
    forbidden: Callable[[Floats], NDArray[np.bool_]] | None = None,
    limits: Iterable[AtMost] = (),
) -> pyo.ConcreteModel:
    """Build the program (1)-(8).

    Parameters
    ----------
    instance
        The round.
    cost
        Cost of every utility in an array; by default that of the rules' power.
    forbidden
        Which utilities in an array may not be chosen; by default none.
    limits
        Additional rows: at most `jobs` jobs with a utility strictly below `below`.

    Raises
    ------
    ValueError
        If no cost is given and the power is infinite.
    """
    model = pyo.ConcreteModel(name=instance.name)
    _add_data(model, instance, cost, forbidden)
    model.take = pyo.Var(model.choices, domain=pyo.Binary)
    model.replicas = pyo.Var(model.jobs, model.nodes, domain=pyo.NonNegativeIntegers)
    model.touches = pyo.Var(model.jobs, model.nodes, domain=pyo.Binary)
    model.total_cost = pyo.Objective(  # (1)
        expr=pyo.quicksum(model.cost[c] * model.take[c] for c in model.choices)
    )
    _add_shape(model)
    _add_capacity(model)
    if instance.rules.interference_avoidance:
        _add_interference(model)
    model.limits = pyo.ConstraintList()
    for row in limits:
        worse = [c for c in model.choices if model.utility[c] < row.below]
        if worse:
            model.limits.add(pyo.quicksum(model.take[c] for c in worse) <= row.jobs)
    return model


def _add_data(
    model: Any,
    instance: Instance,
    cost: Callable[[Floats], Floats] | None,
    forbidden: Callable[[Floats], NDArray[np.bool_]] | None,
) -> None:
    """Sets and parameters."""
    utility = node_choices(instance)
    values = np.array(list(utility.values()))
    costs = power_cost(values, instance.rules.power) if cost is None else cost(values)
    barred = np.zeros(values.shape, dtype=bool) if forbidden is None else forbidden(values)
    kept = [c for c, out in zip(utility, barred.tolist(), strict=True) if not out]
    costs_by_choice = dict(zip(utility, costs.tolist(), strict=True))
    gpus = instance.cluster.node_gpus.tolist()
    held = {(j, v): h for j, job in enumerate(instance.jobs) for v, h in job.placement}
    model.jobs = pyo.RangeSet(0, instance.num_jobs - 1)
    model.nodes = pyo.RangeSet(0, instance.cluster.num_nodes - 1)
    model.choices = pyo.Set(initialize=kept, dimen=3)
    model.utility = pyo.Param(model.choices, initialize={c: utility[c] for c in kept})
    model.cost = pyo.Param(model.choices, initialize={c: costs_by_choice[c] for c in kept})
    model.gpus = pyo.Param(model.nodes, initialize=dict(enumerate(gpus)))
    model.held = pyo.Param(model.jobs, model.nodes, initialize=held, default=0)
    model.most_nodes = pyo.Param(initialize=instance.rules.max_nodes_per_job)
    model.by_job = {
        j: {kind: [] for kind in (IDLE, KEEP, ONE_NODE, SEVERAL_NODES)} for j in model.jobs
    }
    for choice in kept:
        model.by_job[choice.job][choice.kind].append(choice)


def _taken(model: Any, job: int, *kinds: str) -> Any:
    """Whether a job takes a choice of these kinds, as an expression."""
    return pyo.quicksum(model.take[c] for kind in kinds for c in model.by_job[job][kind])


def _add_shape(model: Any) -> None:
    """What a choice demands of its job's row."""

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def one_choice(model: Any, j: int) -> Any:  # (2)
        return _taken(model, j, IDLE, KEEP, ONE_NODE, SEVERAL_NODES) == 1

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def all_replicas(model: Any, j: int) -> Any:  # (3)
        choices = model.by_job[j][ONE_NODE] + model.by_job[j][SEVERAL_NODES]
        chosen = pyo.quicksum(c.gpus * model.take[c] for c in choices)
        return pyo.quicksum(model.replicas[j, v] for v in model.nodes) == chosen

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def touched_holds_some(model: Any, j: int, v: int) -> Any:  # (4), left
        return model.touches[j, v] <= model.replicas[j, v]

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def untouched_holds_none(model: Any, j: int, v: int) -> Any:  # (4), right
        return model.replicas[j, v] <= model.gpus[v] * model.touches[j, v]

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def enough_nodes(model: Any, j: int) -> Any:  # (5), left
        nodes = pyo.quicksum(model.touches[j, v] for v in model.nodes)
        return _taken(model, j, ONE_NODE) + 2 * _taken(model, j, SEVERAL_NODES) <= nodes

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def not_too_many_nodes(model: Any, j: int) -> Any:  # (5), right
        nodes = pyo.quicksum(model.touches[j, v] for v in model.nodes)
        most = model.most_nodes * _taken(model, j, SEVERAL_NODES)
        return nodes <= _taken(model, j, ONE_NODE) + most


def _add_capacity(model: Any) -> None:
    """The GPUs of a node."""

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def capacity(model: Any, v: int) -> Any:  # (6)
        placed = pyo.quicksum(model.replicas[j, v] for j in model.jobs)
        kept = pyo.quicksum(model.held[j, v] * _taken(model, j, KEEP) for j in model.jobs)
        return placed + kept <= model.gpus[v]


def _add_interference(model: Any) -> None:
    """At most one distributed job a node."""
    model.distributed = pyo.Var(model.jobs, model.nodes, domain=pyo.NonNegativeReals)

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def marks_distributed(model: Any, j: int, v: int) -> Any:  # (7)
        both = model.touches[j, v] + _taken(model, j, SEVERAL_NODES)
        return model.distributed[j, v] >= both - 1

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def interference(model: Any, v: int) -> Any:  # (8)
        stays = [
            _taken(model, j, KEEP)
            for j in model.jobs
            if model.held[j, v] > 0 and sum(model.held[j, n] > 0 for n in model.nodes) > 1
        ]
        placed = pyo.quicksum(model.distributed[j, v] for j in model.jobs)
        return placed + pyo.quicksum(stays) <= 1


def decode(model: Any, instance: Instance) -> Allocation:
    """The allocation that the variables' values describe."""
    keeps = {c[0] for c in model.choices if c[1] == KEEP and pyo.value(model.take[c]) > 0.5}
    matrix = np.zeros((instance.num_jobs, instance.cluster.num_nodes), dtype=np.int64)
    for j, v in model.replicas:
        held = model.held[j, v] if j in keeps else pyo.value(model.replicas[j, v])
        matrix[j, v] = round(held)
    return Allocation.from_matrix(matrix)
