"""Decision of a round on a tree to proven optimality, for every power of the mean."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.topology.topology_choices import topology_choices
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.solvers.interface.result import Evidence, Result, Status
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.topology.tree_oracles import BY_NODE, NodeOracle, TreeOracle

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.topology.topology_round import TopologyRound


def solve_tree(
    round_: TopologyRound,
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    by_node: bool = False,
) -> Result:
    """Decide a round on a tree to proven optimality.

    Parameters
    ----------
    round_
        The round.
    stop
        Limits; at the time limit or at Ctrl-C the best allocation so far is returned, with its
        bound.
    start
        An allocation to fall back on, if the rules allow it; what runs now, or what may not be
        moved, if None.
    by_node
        Whether to decide by the node-indexed program, for few jobs and nodes; rounds in which
        interference is not avoided always are.

    Returns
    -------
    Result
        Allocation, fitness, bound and status; `Result.bound_source` names the stage that proved it
        (`goodalloc.solvers.topology.tree_oracles`).

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound
    >>> from goodalloc.solvers.topology import solve_tree
    >>> job = Job("a", SpeedupTable((1.0, 1.9), (0.0, 1.8)))
    >>> instance = Instance(Cluster.uniform(nodes=4, gpus=1), (job,), Rules(restart_delay=0.0))
    >>> topology = Topology.regular(4, [(Level("rack"), 2)], slowdown=10.0)
    >>> result = solve_tree(TopologyRound(instance, topology))
    >>> result.allocation.placements(), str(result.status)
    ([((0, 1), (1, 1))], 'optimal')
    """
    watch = Watch(stop or Stop())
    by_node = by_node or not round_.instance.rules.interference_avoidance
    leveled = round_.leveled
    choices = topology_choices(round_)
    kind = NodeOracle if by_node else TreeOracle
    oracle = kind(leveled, choices, watch, round_=round_)
    oracle.build_seconds = watch.seconds
    outcome = maximise_power_mean(
        oracle,
        leveled,
        choices.job,
        choices.utility,
        start=round_.graded(_first(round_, start)),
        gap=watch.stop.gap,
    )
    stages = oracle.stages if isinstance(oracle, TreeOracle) else [BY_NODE]
    source = stages[-1] if stages else "start"
    return tree_result(
        round_, "tree", outcome.allocation, outcome.bound, source=source, watch=watch
    )


def _first(round_: TopologyRound, start: Allocation | None) -> Allocation:
    """Return an allocation that the rules allow: the given one, what runs, or what must stay."""
    current = round_.instance.current
    for candidate in (start, current):
        if candidate is not None and not topology_violations(round_, candidate):
            return candidate
    return current.rows(np.flatnonzero(round_.instance.pinned))


def tree_result(
    round_: TopologyRound,
    solver: str,
    allocation: Allocation | None,
    bound: float,
    *,
    source: str,
    watch: Watch,
) -> Result:
    """Return a result on a tree: checked, with its fitness recomputed.

    Parameters
    ----------
    round_, solver
        The round, and the name of the solver.
    allocation, bound, source
        The allocation, and a bound that `source` proves.
    watch
        Clock of the solve.
    """
    seconds = watch.seconds
    plain = None if allocation is None else replace(allocation, modes=None)
    feasible = plain is not None and not topology_violations(round_, plain)
    value, starved, served = math.nan, None, math.nan
    if feasible and plain is not None:
        value = topology_fitness(round_, plain)
        parts = starvation_of(round_.leveled, round_.graded(plain))
        starved, served = parts.starved, parts.served
    status = Status.UNKNOWN if plain is None else Status.INFEASIBLE
    if feasible:
        status = Status.OPTIMAL if proves(bound, value, watch.stop.gap) else Status.FEASIBLE
    return Result(
        solver=solver,
        instance=round_.instance.name,
        allocation=plain if feasible else None,
        fitness=value,
        bound=bound,
        bound_source=source,
        evidence=Evidence.SOLVER if math.isfinite(bound) else Evidence.NONE,
        status=status,
        limit=None if status == Status.OPTIMAL else watch.limit,
        solve_seconds=seconds,
        check_seconds=watch.seconds - seconds,
        starved=starved,
        served_fitness=served,
    )
