"""Decision of a round on a tree to proven optimality, for every power of the mean."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.topology.tree_choices import topology_choices
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.models.topology.tree_wishes import TreeWishes
from goodalloc.solvers.interface.result import Evidence, Result, Status
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.topology.kueue_placement import ALGORITHMS, greedy_placement
from goodalloc.solvers.topology.tree_oracles import BY_NODE, NodeOracle, TreeOracle

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.topology.topology_round import TopologyRound

#: Share of the time limit in which the optimum without the tree is sought, to start from.
FLAT = 0.2


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
        bound. To pack what was found last may take a few tenths of the limit more.
    start
        An allocation to begin with, beside what runs now and greedy placements of the optimum
        without the tree.
    by_node
        Whether to decide by the node-indexed program, for few jobs and nodes; rounds in which
        interference is not avoided always are.

    Returns
    -------
    Result
        Allocation, fitness, bound and status; `Result.bound_source` names the stage that proved it
        (`goodalloc.solvers.topology.tree_oracles`), and is empty where time ended before any did.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound
    >>> from goodalloc.solvers.topology import solve_tree
    >>> job = Job("a", SpeedupTable((1.0, 1.9), (0.0, 1.8)))
    >>> instance = Instance(Cluster.uniform(nodes=3, gpus=1), (job,), Rules(restart_delay=0.0))
    >>> topology = Topology.regular(3, [(Level("rack"), 2)], slowdown=10.0)
    >>> result = solve_tree(TopologyRound(instance, topology))
    >>> result.allocation.placements(), str(result.status)
    ([((0, 1), (1, 1))], 'optimal')
    """
    watch = Watch(stop or Stop())
    by_node = by_node or not round_.instance.rules.interference_avoidance
    leveled, first = round_.leveled, _first(round_, start, watch.stop)
    choices = topology_choices(round_)
    kind = NodeOracle if by_node else TreeOracle
    oracle = kind(leveled, choices, watch, round_=round_)
    oracle.build_seconds = watch.seconds
    outcome = maximise_power_mean(
        oracle,
        leveled,
        choices.job,
        choices.utility,
        start=round_.graded(first),
        gap=watch.stop.gap,
    )
    stages = oracle.stages if isinstance(oracle, TreeOracle) else [BY_NODE]
    source = stages[-1] if stages else ""
    return tree_result(
        round_, "tree", outcome.allocation, outcome.bound, source=source, watch=watch
    )


def flat_optimum(
    round_: TopologyRound, stop: Stop | None = None, *, break_ties: bool = True
) -> Allocation | None:
    """Return the optimum of a round without its tree; None if none is found in time.

    Parameters
    ----------
    round_, stop, break_ties
        The round, limits, and whether the stated rule chooses among equally good allocations.
    """
    from goodalloc.solvers.exact.highs import solve_highs  # a long chain of imports

    return solve_highs(round_.instance, stop=stop, break_ties=break_ties).allocation


def _first(round_: TopologyRound, start: Allocation | None, stop: Stop) -> Allocation:
    """Return the best allocation at hand: given, running, what must stay, or placed greedily.

    The latter places the optimum of the round without its tree; where it meets the first bound,
    nothing else is solved. Where jobs may not be anywhere, or need several GPUs to run at all, an
    algorithm may leave some of them out, so that all algorithms are tried.
    """
    current = round_.instance.current
    candidates = [current.rows(np.flatnonzero(round_.instance.pinned)), current]
    if start is not None:
        candidates.append(start)
    seconds = None if stop.seconds is None else FLAT * stop.seconds
    wanted = flat_optimum(round_, replace(stop, seconds=seconds), break_ties=False)
    if wanted is not None:
        gangs = any(job.min_replicas > 1 for job in round_.instance.jobs)
        tried = ALGORITHMS if gangs or TreeWishes.of(round_).restricts else ALGORITHMS[:1]
        candidates += [wanted, *(greedy_placement(round_, wanted, name) for name in tried)]
    allowed = [one for one in candidates if not topology_violations(round_, one)]
    return max(allowed, key=lambda one: topology_fitness(round_, one))


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
