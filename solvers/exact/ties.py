"""Rule that decides between equally good allocations.

Exact solvers stop at whichever optimum they meet first, and over a day that alone moves results.
So among all allocations whose objective equals the optimum (to a relative 1e-10; at p = -inf whose
harmonic, at +inf whose arithmetic mean is then best) the one returned

1. keeps the placement of the most running jobs,
2. then uses the fewest GPUs,
3. then gives them to the jobs that come first: the least ``sum_j (j + 1) K_j``,
4. and sits on the nodes that `place` finds for these choices, a function of the choices alone.

Where more than two jobs could trade GPUs at equal sums in 3, any of the remaining may be returned.
Rounds with more than `MOST_CHOICES` choices (about 6,000 jobs) and those in which too many choices
may tie (more than `FEW_TIED` and than `MOST_TIED` a job: on a thousand GPUs, or at p = -10, where
all but the worst jobs cost the same to ten digits) keep the optimum that was found: the rule would
cost several times the solve. So do, so far, rounds of jobs with modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    AtMost,
    power_cost,
    settled_level,
    settled_rows,
)
from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.node_indexed.node_program import build_node_program
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import utilities
from goodalloc.solvers.columns.price_search import search_price
from goodalloc.solvers.exact.placement import MOST_NODE_COLUMNS, place
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.milp.price_and_core import decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool
    from numpy.typing import NDArray

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.interface.watch import Watch


#: Relative difference in the objective up to which two allocations count as equally good.
TIE = 1e-10
#: Most choices of all jobs, tying or not.
MOST_CHOICES = 50_000
#: Most choices a job that may tie …
MOST_TIED = 3
#: … or altogether, whichever is more.
FEW_TIED = 300
#: Jobs beyond which programs are avoided where a price says enough.
MANY = 400
#: Choices whose term (u / r)^p is beyond this are not distinguished.
LARGEST_TERM = 1e6
#: The cost row is scaled so that its tolerance is this much, well above the solver's own.
SLACK_IN_PROGRAM = 1e-6
#: Largest coefficient of the rule in a program; beyond it the order of the jobs is left out.
LARGEST_WEIGHT = 1e7


class TieRule(StrEnum):
    """What the rule came to."""

    APPLIED = "applied"
    MODES = "not applied: jobs have modes"
    MANY_CHOICES = "not applied: too many choices"
    MANY_TIED = "not applied: too many choices may tie"
    FAR_APART = "not applied: utilities are too far apart to be compared"
    UNDECIDED = "not applied: no preferred allocation was found in time"


class Preferred(NamedTuple):
    """Outcome of the rule.

    Attributes
    ----------
    allocation
        The preferred allocation, or the one that was given.
    rule
        Whether it is preferred, or why that was not decided.
    """

    allocation: Allocation
    rule: TieRule


@dataclass(frozen=True)
class Face:
    """Conditions under which an allocation is as good as a given one.

    Parameters
    ----------
    cost
        Cost of every choice, shape (choices,).
    most
        Largest sum of the costs of the taken choices.
    slack
        Part of `most` that is tolerance.
    limits
        Further rows.
    allowed
        Whether each choice is allowed, shape (choices,).
    """

    cost: Floats
    most: float
    slack: float
    limits: Sequence[Limit]
    allowed: NDArray[np.bool_]


def canonical(
    instance: Instance, allocation: Allocation, watch: Watch, *, leximin: bool = False
) -> Preferred:
    """Return, among the allocations as good as this optimum, the one that the rule prefers.

    Parameters
    ----------
    instance
        The round.
    allocation
        An optimal allocation.
    watch
        The clock; when it runs out the allocation is returned as it is.
    leximin
        Whether all ranks of utilities count, not only the least.
    """
    if not instance.plain:
        return Preferred(allocation, TieRule.MODES)
    if allocation == instance.current:  # rule 1 keeps all that run, and rule 2 then adds nothing
        return Preferred(allocation, TieRule.APPLIED)
    choices = enumerate_choices(instance)
    if len(choices) > MOST_CHOICES:
        return Preferred(allocation, TieRule.MANY_CHOICES)
    face = optimal_face(instance, choices, utilities(instance, allocation), leximin=leximin)
    if np.unique(choices.job[face.allowed]).size < instance.num_jobs:
        return Preferred(allocation, TieRule.FAR_APART)
    core = _tied(instance, choices, face, watch)
    if core is None:
        return Preferred(allocation, TieRule.UNDECIDED)
    taken = choices.where(core)
    if len(taken) > max(MOST_TIED * instance.num_jobs, FEW_TIED):
        return Preferred(allocation, TieRule.MANY_TIED)
    if len(taken) > instance.num_jobs:
        rows = [(weights[core], most) for weights, most in face.limits]
        scale = SLACK_IN_PROGRAM / face.slack
        rows.append((face.cost[core] * scale, face.most * scale))
        found = _preferred(instance, taken, rows, watch)
    elif len(taken) == instance.num_jobs:
        found = place(instance, taken, watch)
    else:
        found = None
    return _as_good(instance, found, allocation)


def _tied(
    instance: Instance, choices: Choices, face: Face, watch: Watch
) -> Bool[Flags, " choices"] | None:
    """Return the choices that an allocation as good may take; None without time to tell.

    Whatever costs more than the face allows beyond a bound is on no allocation of it (as in
    `milp/price_and_core.py`). One price of a GPU is tried first; where it leaves some job several
    choices the program's relaxation says more, at a cost that few jobs are worth.
    """
    if not face.limits:
        tied = _tied_by_price(instance, choices, face)
        if np.count_nonzero(tied) == instance.num_jobs or instance.num_jobs > MANY:
            return tied
    return _tied_by_program(instance, choices, face, watch)


def _tied_by_price(instance: Instance, choices: Choices, face: Face) -> Bool[Flags, " choices"]:
    """Return the choices that the best price of a GPU does not rule out."""
    cost = np.where(face.allowed, face.cost, np.inf)
    least = np.full((instance.num_jobs, int(choices.replicas.max()) + 1), np.inf)
    np.minimum.at(least, (choices.job, choices.replicas), cost)
    found = search_price(least, instance.cluster.num_gpus)
    priced = cost + found.price * choices.replicas
    first = np.searchsorted(choices.job, np.arange(instance.num_jobs))
    reduced = priced - np.minimum.reduceat(priced, first)[choices.job]
    return np.asarray(reduced <= max(face.most - found.bound, 0.0))


def _tied_by_program(
    instance: Instance, choices: Choices, face: Face, watch: Watch
) -> Bool[Flags, " choices"] | None:
    """Return the choices that the relaxation of the pattern program does not rule out."""
    kept = choices.where(face.allowed)
    limits = [(weights[face.allowed], most) for weights, most in face.limits]
    program = build_patterns(instance, kept, face.cost[face.allowed], limits=limits).program
    priced = np.ones(program.num_columns, dtype=bool)
    priced[: len(kept)] = kept.kind != Kind.SEVERAL_NODES
    relaxation = run_relaxation(program, priced, watch)
    if relaxation.duals is None:
        return None
    reduced = program.reduced_costs(relaxation.duals)[: len(kept)]
    tied = np.zeros(len(choices), dtype=bool)
    tied[face.allowed] = reduced <= max(face.most - relaxation.objective, 0.0)
    return tied


def optimal_face(
    instance: Instance, choices: Choices, reached: Floats, *, leximin: bool = False
) -> Face:
    """Return the conditions under which an allocation is as good as one with these utilities."""
    power = instance.rules.power
    rows: tuple[AtMost, ...] = ()
    allowed = np.ones(len(choices), dtype=bool)
    settled = 0.0
    if leximin:
        settled = float(reached.max())
    elif power == -math.inf:
        allowed, power = choices.utility >= reached.min(), -1.0
    elif power == math.inf:
        rows, power = (AtMost(reached.size - 1, float(reached.max())),), 1.0
    else:
        settled = settled_level(reached, power) or 0.0
    if settled > 0:
        rows = settled_rows(reached, settled)
        allowed &= choices.utility >= reached.min()
    others = reached[reached > settled]
    mean = float(power_mean(others, power)) if others.size else 1.0
    finite = power if math.isfinite(power) else -1.0
    free = choices.utility > settled
    room = math.log(LARGEST_TERM) / max(abs(finite), 1.0)
    near = np.clip(choices.utility, mean * math.exp(-room), mean * math.exp(room))
    cost = np.where(free, power_cost(near, finite, mean), 0.0)
    if finite < 0:  # one such choice outweighs everything: it is on no optimal face
        allowed &= ~free | (near == choices.utility)
    total = float(np.sum(power_cost(others, finite, mean))) if others.size else 0.0
    slack = TIE * max(others.size, 1)
    limits = [((choices.utility < row.below).astype(float), float(row.jobs)) for row in rows]
    return Face(cost, total + slack, slack, limits, allowed)


def preference(instance: Instance, choices: Choices) -> Floats:
    """Return the weights of the rule, to be minimised: moves, then GPUs, then order of jobs."""
    gpus, jobs = instance.cluster.num_gpus, instance.num_jobs
    runs = instance.current.job_replicas > 0
    moved = (runs[choices.job] & (choices.kind != Kind.KEEP)).astype(float)
    order = (choices.job + 1) * choices.replicas / (jobs * (gpus + 1.0))
    weights = moved * (gpus + 2.0) + choices.replicas
    unit = jobs * (gpus + 1.0)
    if unit * (gpus + 2.0) > LARGEST_WEIGHT:
        return np.asarray(weights)
    return np.asarray(np.rint((weights + order) * unit))


def _preferred(
    instance: Instance, choices: Choices, rows: Sequence[Limit], watch: Watch
) -> Allocation | None:
    """Return an allocation with the preferred choices within the rows, or None."""
    for exact in (False, True):
        patterns = build_patterns(
            instance, choices, preference(instance, choices), limits=rows, exact=exact
        )
        priced = np.ones(patterns.program.num_columns, dtype=bool)
        decision = decide(patterns.program, priced, watch, gap=0.5)
        if decision.values is None or decision.objective - decision.bound > 0.5:
            return None
        taken = choices.where(np.flatnonzero(decision.values[: len(choices)] > 0.5))
        placed = place(instance, taken, watch)
        if placed is not None:
            return placed
    if len(choices) * instance.cluster.num_nodes > MOST_NODE_COLUMNS:
        return None
    by_node = build_node_program(
        instance, choices, preference(instance, choices), limits=tuple(rows)
    )
    outcome = run_mixed_integer(by_node.program, watch, gap=0.5)
    if outcome.values is None:
        return None
    taken = choices.where(np.flatnonzero(outcome.values[: len(choices)] > 0.5))
    return place(instance, taken, watch)


def _as_good(instance: Instance, candidate: Allocation | None, allocation: Allocation) -> Preferred:
    """Return the candidate if it is as good as the allocation, else the allocation."""
    if candidate is None:
        return Preferred(allocation, TieRule.UNDECIDED)
    power = instance.rules.power
    mine = float(power_mean(utilities(instance, candidate), power))
    best = float(power_mean(utilities(instance, allocation), power))
    if mine < best * (1 - 2 * TIE):
        return Preferred(allocation, TieRule.UNDECIDED)
    return Preferred(candidate, TieRule.APPLIED)
