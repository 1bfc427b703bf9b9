"""Quality of a decision on a tree: its fitness, a bound, and the jobs that starve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.solvers.interface.bounds import NO_BOUND, Bound, least_bound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.topology.exact_tree import solve_tree
from goodalloc.solvers.topology.tree_policy import GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.policies.policy import Decision


class TreeQuality(NamedTuple):
    """Fitness of a decision on a tree beside the best.

    Attributes
    ----------
    fitness, bound
        Fitness, and the least bound that it does not refute.
    starved, served_fitness
        Parts of the fitness (`goodalloc.models.round.starved_jobs`); the latter is None if all jobs
        starve.
    best_starved, best_served_fitness
        The same of the best answer known; None where the bound of the policy is taken over.
    """

    fitness: float
    bound: Bound
    starved: int
    served_fitness: float | None
    best_starved: int | None
    best_served_fitness: float | None


def tree_quality(
    round_: TopologyRound, held: Sequence[Placement], decision: Decision, seconds: float | None
) -> TreeQuality:
    """Return the quality of a decision, to its own bound or to that of the round decided anew.

    Parameters
    ----------
    round_, held
        The round, and what each of its jobs is to hold.
    decision
        The decision, with a bound that its policy proved for the round, if any.
    seconds
        Time limit of a proof where that bound does not stand; None for none.
    """
    allocation = Allocation.from_placements(held, round_.instance.cluster.num_nodes)
    value = topology_fitness(round_, allocation)
    parts = starvation_of(round_.leveled, round_.graded(allocation))
    told = NO_BOUND
    if decision.bound is not None:
        told = Bound(decision.bound, decision.bound_source, decision.evidence)
    best: tuple[int | None, float | None] = None, None
    bound = least_bound([told], value)
    if bound is NO_BOUND:
        proof = solve_tree(round_, stop=Stop(seconds=seconds, gap=GAP), start=allocation)
        bound = least_bound([Bound.of(proof)], value)
        best = proof.starved, _known(proof.served_fitness)
    return TreeQuality(value, bound, parts.starved, _known(parts.served), *best)


def _known(value: float) -> float | None:
    """Return a part of the fitness, None in place of NaN."""
    return None if math.isnan(value) else value
