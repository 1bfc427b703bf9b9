"""Solvers of rounds on trees to compare: parts of the exact road, and schedulers' placements.

Each takes a round and limits, as `goodalloc library run --solver` expects. The roads, each with one
part more than the one before: the node-indexed program; nested pattern counts with a count for
every domain; merged domains first, and then cores; and `solve_tree`, which also begins with the
optimum without the tree, placed greedily.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.topology.served_jobs import served_limits
from goodalloc.formulations.topology.tree_choices import topology_choices
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.power_mean.oracle import Reply
from goodalloc.solvers.topology.exact_tree import tree_result
from goodalloc.solvers.topology.flat_placement import place_flat_optimum
from goodalloc.solvers.topology.tree_oracles import NodeOracle, TreeOracle

if TYPE_CHECKING:
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.power_mean.program_oracle import Task

#: Estimate of the seconds in which Pyomo builds the node-indexed program, for each job and node.
PLACE_SECONDS = 2e-4


@dataclass
class EveryDomain(TreeOracle):
    """Oracle of nested pattern counts with a count for every domain, and no cores."""

    def answer(self, task: Task) -> Reply:
        """Decide a task with all choices."""
        served = served_limits(task.choices, self.instance.cluster.num_gpus)
        task = replace(task, limits=(*task.limits, *served))
        every = np.ones(len(task.choices), dtype=bool)
        allocation, bound = self._within(task, every)
        return Reply(allocation, bound / task.scale)


def solve_by_node(round_: TopologyRound, *, stop: Stop | None = None) -> Result:
    """Decide a round by the node-indexed program alone.

    A round whose program cannot be built in the time, by an estimate, gets no allocation.

    Parameters
    ----------
    round_, stop
        The round, and limits.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.topology.tree_roads import solve_by_node
    >>> str(solve_by_node(generate_on_tree(1, nodes=4, jobs=3)).status)
    'optimal'
    """
    places = round_.instance.num_jobs * round_.instance.cluster.num_nodes
    seconds = None if stop is None else stop.seconds
    if seconds is not None and PLACE_SECONDS * places > seconds:
        watch = Watch(stop or Stop())
        return tree_result(round_, "nodes", None, math.inf, source="", watch=watch)
    return _solve(round_, stop, NodeOracle, "nodes")


def solve_by_domain(round_: TopologyRound, *, stop: Stop | None = None) -> Result:
    """Decide a round by nested pattern counts, a count for every domain.

    Parameters
    ----------
    round_, stop
        The round, and limits.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.topology.tree_roads import solve_by_domain
    >>> str(solve_by_domain(generate_on_tree(1, nodes=4, jobs=3)).status)
    'optimal'
    """
    return _solve(round_, stop, EveryDomain, "domains")


def solve_merged(round_: TopologyRound, *, stop: Stop | None = None) -> Result:
    """Decide a round by merged domains and cores, beginning with nothing.

    Parameters
    ----------
    round_, stop
        The round, and limits.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.topology.tree_roads import solve_merged
    >>> str(solve_merged(generate_on_tree(1, nodes=4, jobs=3)).status)
    'optimal'
    """
    return _solve(round_, stop, TreeOracle, "merged")


def _solve(
    round_: TopologyRound, stop: Stop | None, kind: type[TreeOracle | NodeOracle], name: str
) -> Result:
    """Decide a round by an oracle, beginning with nothing."""
    watch = Watch(stop or Stop())
    leveled, choices = round_.leveled, topology_choices(round_)
    oracle = kind(leveled, choices, watch, round_=round_)
    outcome = maximise_power_mean(
        oracle, leveled, choices.job, choices.utility, start=None, gap=watch.stop.gap
    )
    return tree_result(round_, name, outcome.allocation, outcome.bound, source=name, watch=watch)


def place_best_fit(round_: TopologyRound, *, stop: Stop) -> Result:
    """Place the optimum without the tree by best fit; see `greedy_placement`."""
    return place_flat_optimum(round_, "best_fit", stop=stop)


def place_least_free(round_: TopologyRound, *, stop: Stop) -> Result:
    """Place the optimum without the tree in the fullest domains; see `greedy_placement`."""
    return place_flat_optimum(round_, "least_free", stop=stop)


def place_balanced(round_: TopologyRound, *, stop: Stop) -> Result:
    """Place the optimum without the tree evenly over few nodes; see `greedy_placement`."""
    return place_flat_optimum(round_, "balanced", stop=stop)
