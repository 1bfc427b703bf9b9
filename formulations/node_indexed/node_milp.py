r"""The node-indexed mixed-integer linear program in Pyomo, written as in a paper.

Sets: jobs :math:`j \in J`, nodes :math:`v \in V`, and for every job its choices :math:`i \in A_j`:
stay idle, keep exactly what it holds, or run anew in one of its modes *m*, on *one node* or on
*several nodes*, with :math:`K_i` GPUs. :math:`S_j \subseteq A_j` are the choices on several nodes,
:math:`O_j` on one, :math:`A_{jm}` those of mode *m*.

Data: :math:`G_v` GPUs of node *v* and :math:`R_{vr}` of resource *r* beside them;
:math:`d_{jmr}` what a replica takes of it in mode *m*; :math:`h_{jv}` replicas of *j* on *v* now;
:math:`N_{max}` most nodes of a job; :math:`c_{ji}` the cost of the utility :math:`u_{ji}`
(`formulations/basics/power_mean_cost.py`).

Variables: :math:`x_{ji} \in \{0,1\}`, job *j* takes choice *i*; :math:`a_{jmv} \in \mathbb Z_+`,
replicas of *j* placed anew on *v* in mode *m* (none on nodes without that mode's type of GPU), and
:math:`a_{jv}`, their sum over *m*; :math:`z_{jv} \in \{0,1\}`, any of them there;
:math:`w_{jv} \ge 0`, those of a job on several nodes.

.. math::

    \min \sum_j \sum_{i \in A_j} c_{ji} x_{ji}                                                 (1)

    \sum_{i \in A_j} x_{ji} = 1                                         \quad \forall j        (2)

    \sum_v a_{jmv} = \sum_{i \in (O_j \cup S_j) \cap A_{jm}} K_i x_{ji}  \quad \forall j, m     (3)

    z_{jv} \le a_{jv} \le G_v z_{jv}                                    \quad \forall j, v     (4)

    \sum_{O_j} x_{ji} + 2 \sum_{S_j} x_{ji} \le \sum_v z_{jv}
        \le \sum_{O_j} x_{ji} + N_{max} \sum_{S_j} x_{ji}               \quad \forall j        (5)

    \sum_j (a_{jv} + h_{jv} x_{j,keep}) \le G_v                         \quad \forall v        (6)

    w_{jv} \ge z_{jv} + \sum_{S_j} x_{ji} - 1                           \quad \forall j, v     (7)

    \sum_j w_{jv} + \sum_{j \text{ on } v \text{ and others}} x_{j,keep} \le 1 \quad \forall v (8)

    \sum_j (\sum_m d_{jmr} a_{jmv} + d_{jr} h_{jv} x_{j,keep}) \le R_{vr} \quad \forall v, r     (9)

Where replicas share GPUs or need none, (6) gives way to (6a)-(6d) of `node_gpus.py`; where only the
worst or the best job counts, (1) gives way to (1) or (2) of `extreme_cost.py`.

(8) is interference avoidance, at most one distributed job a node; without that rule (7) and (8) are
left out. (9) is in units that make whole numbers of the amounts, where there are any: what fits is
then what the checker lets fit, whatever a solver's tolerance. Limits on the GPUs and nodes of a job
are in its choices; a pinned job has one choice, to keep. The program is *exact*: its solutions are
the feasible allocations, a job placed anew exactly where it was being worth no more than keeping.
For reading, and as a second road to the optimum: it knows nothing of `choices.py` and patterns.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.basics.program import require_finite
from goodalloc.formulations.mode_rounds.resource_units import whole_amounts
from goodalloc.formulations.node_indexed.node_extremes import add_extreme_cost
from goodalloc.formulations.node_indexed.node_gpus import add_shared_gpus
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import mode_utilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtyping import Bool, Float

    from goodalloc.formulations.basics.power_mean_cost import AtMost
    from goodalloc.formulations.node_indexed.node_extremes import Whose
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats


IDLE, KEEP, ONE_NODE, SEVERAL_NODES = "idle", "keep", "one_node", "several_nodes"


class NodeChoice(NamedTuple):
    """Choice of a job: its index, the kind of choice, the GPUs, the row of the mode."""

    job: int
    kind: str
    gpus: int
    mode: int


def node_choices(instance: Instance) -> dict[NodeChoice, float]:
    """Return every choice that the rules on single jobs allow, with its utility.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.node_indexed import node_choices
    >>> choices = node_choices(load_benchmark("tiny-cold"))
    >>> min(choices.values()) > 0
    True
    """
    table, rules = mode_utilities(instance), instance.rules
    running = instance.first_mode + instance.current.mode
    choices: dict[NodeChoice, float] = {}
    for j, job in enumerate(instance.jobs):
        in_range = job.min_replicas <= job.replicas <= job.max_replicas
        if job.placement and in_range and len(job.placement) <= rules.max_nodes_per_job:
            choices[NodeChoice(j, KEEP, job.replicas, int(running[j]))] = float(table.kept[j])
        if job.pinned:
            continue
        choices[NodeChoice(j, IDLE, 0, int(instance.first_mode[j]))] = rules.idle
        for mode in np.flatnonzero(instance.mode_job == j).tolist():
            nodes = sorted(instance.most_on_node[mode][instance.mode_nodes[mode]], reverse=True)
            several = len(nodes) > 1 and rules.max_nodes_per_job > 1
            on_one, on_several = nodes[0], sum(nodes[: rules.max_nodes_per_job])
            for gpus in range(max(job.min_replicas, 1), min(job.max_replicas, sum(nodes)) + 1):
                if gpus <= on_one:
                    one = NodeChoice(j, ONE_NODE, gpus, mode)
                    choices[one] = float(table.moved[mode, 0, gpus])
                if several and 2 <= gpus <= on_several:
                    more = NodeChoice(j, SEVERAL_NODES, gpus, mode)
                    choices[more] = float(table.moved[mode, 1, gpus])
    return choices


def build_node_milp(
    instance: Instance,
    *,
    cost: Callable[[Float[Floats, " choices"]], Float[Floats, " choices"]] | None = None,
    forbidden: Callable[[Float[Floats, " choices"]], Bool[Flags, " choices"]] | None = None,
    limits: Iterable[AtMost] = (),
    whose: Whose = "all",
) -> pyo.ConcreteModel:
    """Build the program (1)-(9) as a Pyomo model.

    Parameters
    ----------
    instance
        The round.
    cost
        Cost of every utility in an array; by default that of the rules' power.
    forbidden
        Function that marks the utilities that may not be chosen; by default none.
    limits
        Additional rows: at most `jobs` jobs with a utility strictly below `below`.
    whose
        Which jobs' cost is minimised: that of ``"all"``, of the ``"worst"`` or of the ``"best"``.

    Raises
    ------
    ValueError
        If no cost is given and the power is infinite.

    Notes
    -----
    Names of the model, for constraints of your own: sets ``jobs``, ``nodes``, ``modes`` and
    ``choices``; parameters ``cost`` and ``utility`` by choice; variables ``take`` by choice,
    ``replicas`` by mode and node, ``touches`` by job and node; objective ``total_cost``;
    constraints ``one_choice`` by job, ``resource_capacity`` by resource and node, ``limits`` by
    position in `limits`.

    Examples
    --------
    Two jobs that must never share a node:

    >>> import pyomo.environ as pyo
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations import build_node_milp
    >>> model = build_node_milp(load_benchmark("tiny-cold"))
    >>> apart = lambda model, node: model.touches[0, node] + model.touches[1, node] <= 1
    >>> model.apart = pyo.Constraint(model.nodes, rule=apart)
    >>> len(model.apart)
    2
    """
    model = pyo.ConcreteModel(name=instance.name)
    _add_data(model, instance, cost, forbidden)
    model.take = pyo.Var(model.choices, domain=pyo.Binary)
    model.replicas = pyo.Var(model.modes, model.nodes, domain=pyo.NonNegativeIntegers)
    model.touches = pyo.Var(model.jobs, model.nodes, domain=pyo.Binary)
    if whose == "all":
        cost_of_all = pyo.quicksum(model.cost[c] * model.take[c] for c in model.choices)
        model.total_cost = pyo.Objective(expr=cost_of_all)  # (1)
    else:
        add_extreme_cost(model, whose)
    _add_shape(model)
    if instance.shares_gpus:
        add_shared_gpus(model, instance, lambda job: _taken(model, job, KEEP))
    else:
        _add_capacity(model)
    _add_resources(model, instance)
    if instance.rules.interference_avoidance:
        _add_interference(model)
    _add_limits(model, tuple(limits))
    return model


def _add_data(
    model: Any,
    instance: Instance,
    cost: Callable[[Float[Floats, " choices"]], Float[Floats, " choices"]] | None,
    forbidden: Callable[[Float[Floats, " choices"]], Bool[Flags, " choices"]] | None,
) -> None:
    """Add sets and parameters."""
    utility = node_choices(instance)
    values = np.array(list(utility.values()))
    costs = power_cost(values, instance.rules.power) if cost is None else cost(values)
    require_finite("Program: a cost", costs)
    barred = np.zeros(values.shape, dtype=bool) if forbidden is None else forbidden(values)
    kept = [c for c, out in zip(utility, barred.tolist(), strict=True) if not out]
    costs_by_choice = dict(zip(utility, costs.tolist(), strict=True))
    gpus = instance.cluster.node_gpus.tolist()
    held = {(j, v): h for j, job in enumerate(instance.jobs) for v, h in job.placement}
    model.jobs = pyo.RangeSet(0, instance.num_jobs - 1)
    model.nodes = pyo.RangeSet(0, instance.cluster.num_nodes - 1)
    model.modes = pyo.RangeSet(0, len(instance.modes) - 1)
    model.choices = pyo.Set(initialize=kept, dimen=4)
    model.job_of = instance.mode_job.tolist()
    model.modes_of = {j: np.flatnonzero(instance.mode_job == j).tolist() for j in model.jobs}
    model.fits = instance.mode_nodes.tolist()
    model.utility = pyo.Param(model.choices, initialize={c: utility[c] for c in kept})
    model.cost = pyo.Param(model.choices, initialize={c: costs_by_choice[c] for c in kept})
    model.gpus = pyo.Param(model.nodes, initialize=dict(enumerate(gpus)))
    most = np.maximum.reduceat(instance.most_on_node, instance.first_mode, axis=0)
    model.most = {(j, v): int(most[j, v]) for j in model.jobs for v in model.nodes}
    model.held = pyo.Param(model.jobs, model.nodes, initialize=held, default=0)
    model.most_nodes = pyo.Param(initialize=instance.rules.max_nodes_per_job)
    model.by_job = {
        j: {kind: [] for kind in (IDLE, KEEP, ONE_NODE, SEVERAL_NODES)} for j in model.jobs
    }
    for choice in kept:
        model.by_job[choice.job][choice.kind].append(choice)


def _taken(model: Any, job: int, *kinds: str) -> Any:
    """Return the expression: a job takes a choice of these kinds."""
    return pyo.quicksum(model.take[c] for kind in kinds for c in model.by_job[job][kind])


def _placed(model: Any, job: int, node: int) -> Any:
    """Return the expression: replicas of a job that are placed anew on a node, in any mode."""
    return pyo.quicksum(model.replicas[m, node] for m in model.modes_of[job])


def _add_shape(model: Any) -> None:
    """Add the rows that tie a job's row of the allocation to its choice."""

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def one_choice(model: Any, j: int) -> Any:  # (2)
        return _taken(model, j, IDLE, KEEP, ONE_NODE, SEVERAL_NODES) == 1

    @model.Constraint(model.modes)  # type: ignore[untyped-decorator]
    def all_replicas(model: Any, m: int) -> Any:  # (3)
        job = model.by_job[model.job_of[m]]
        choices = [c for c in job[ONE_NODE] + job[SEVERAL_NODES] if c.mode == m]
        chosen = pyo.quicksum(c.gpus * model.take[c] for c in choices)
        return pyo.quicksum(model.replicas[m, v] for v in model.nodes) == chosen

    for m, fits in enumerate(model.fits):
        for v in model.nodes:
            if not fits[v]:
                model.replicas[m, v].fix(0)

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def touched_holds_some(model: Any, j: int, v: int) -> Any:  # (4), left
        return model.touches[j, v] <= _placed(model, j, v)

    @model.Constraint(model.jobs, model.nodes)  # type: ignore[untyped-decorator]
    def untouched_holds_none(model: Any, j: int, v: int) -> Any:  # (4), right
        return _placed(model, j, v) <= model.most[j, v] * model.touches[j, v]

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
    """Add the GPUs of every node."""

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def capacity(model: Any, v: int) -> Any:  # (6)
        placed = pyo.quicksum(model.replicas[m, v] for m in model.modes)
        kept = pyo.quicksum(model.held[j, v] * _taken(model, j, KEEP) for j in model.jobs)
        return placed + kept <= model.gpus[v]


def _add_resources(model: Any, instance: Instance) -> None:
    """Add the other resources of every node."""
    has = instance.cluster.node_resources
    demand, capacity = whole_amounts(instance.mode_resources, has)
    running = instance.first_mode + instance.current.mode

    @model.Constraint(range(capacity.shape[1]), model.nodes)  # type: ignore[untyped-decorator]
    def resource_capacity(model: Any, r: int, v: int) -> Any:  # (9)
        takes = [m for m in model.modes if demand[m, r] > 0]
        stays = [j for j in model.jobs if demand[running[j], r] * model.held[j, v] > 0]
        if not takes and not stays:
            return pyo.Constraint.Skip
        placed = pyo.quicksum(demand[m, r] * model.replicas[m, v] for m in takes)
        kept = pyo.quicksum(
            demand[running[j], r] * model.held[j, v] * _taken(model, j, KEEP) for j in stays
        )
        return placed + kept <= capacity[v, r]


def _add_limits(model: Any, rows: tuple[AtMost, ...]) -> None:
    """Add the additional rows, by their position."""

    @model.Constraint(range(len(rows)))  # type: ignore[untyped-decorator]
    def limits(model: Any, index: int) -> Any:
        worse = [c for c in model.choices if model.utility[c] < rows[index].below]
        if not worse:
            return pyo.Constraint.Skip
        return pyo.quicksum(model.take[c] for c in worse) <= rows[index].jobs


def _add_interference(model: Any) -> None:
    """Add the rows for at most one distributed job a node."""
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
    """Return the allocation that the variables' values describe.

    Examples
    --------
    >>> from pyomo.environ import SolverFactory
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.node_indexed import build_node_milp, decode
    >>> from goodalloc.models import fitness
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> model = build_node_milp(instance)
    >>> status = SolverFactory("appsi_highs").solve(model)
    >>> round(fitness(instance, decode(model, instance)) / solve(instance).fitness, 6)
    1.0
    """
    taken = [NodeChoice(*c) for c in model.choices if pyo.value(model.take[c]) > 0.5]
    matrix = np.zeros((instance.num_jobs, instance.cluster.num_nodes), dtype=np.int64)
    for m, v in model.replicas:
        matrix[model.job_of[m], v] += round(pyo.value(model.replicas[m, v]))
    modes = np.zeros(instance.num_jobs, dtype=np.int64)
    for choice in taken:
        modes[choice.job] = choice.mode - instance.first_mode[choice.job]
        if choice.kind == KEEP:
            matrix[choice.job] = [model.held[choice.job, v] for v in model.nodes]
    return Allocation.from_matrix(matrix, modes)
