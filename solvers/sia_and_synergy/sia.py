"""Solver of Sia: the program over types and shapes, exactly, then decoupled placement.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    cost_gap,
    fitness_from_cost,
    largest_ratio,
    power_cost,
    safe_reference,
)
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.formulations.mode_rounds.mode_choices import within_share
from goodalloc.formulations.sia_and_synergy.sia import (
    enumerate_configurations,
    is_relaxation,
    published_cost,
    type_capacity,
)
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import fitness
from goodalloc.models.support.tolerances import LEAST_GAP, SMALLEST_DIVISOR
from goodalloc.models.support.validation import require_choice, require_count
from goodalloc.solvers.interface.result import Answer, Incumbent
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.exchange_core import decide_configurations
from goodalloc.solvers.milp.price_and_core import Decision
from goodalloc.solvers.sia_and_synergy.decoupled_placement import place_by_type

if TYPE_CHECKING:
    from goodalloc.formulations.sia_and_synergy.sia import Configurations
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats

Shapes = Literal["sia", "any"]

#: Costs are scaled so that the gap to close is this much, well above the solver's tolerances …
GAP_IN_PROGRAM = 1e-5
#: … unless that makes the largest cost larger than this.
LARGEST_COST = 1e9
#: Share of the gap that the program may leave, since its scale only nearly fits, …
OF_GAP = 0.4
#: … and the deduction from its bound for rounding.
SLACK = 0.02
#: Share of the step between rounded objectives that still separates two of them.
OF_STEP = 0.99
#: The mean's term as a share of the reference's: from here on the scale fits, …
ON_SCALE = 0.5
#: … and no scale begins with a smaller one, …
OFF_SCALE = 1e-2
#: … and the most scales that are tried.
MOST_SCALES = 4


def solve_sia(
    instance: Instance,
    *,
    stop: Stop | None = None,
    shapes: Shapes = "sia",
    decimals: int | None = 2,
) -> Answer:
    """Decide a round as Sia does: its program exactly, then its placement.

    The objective is that of the instance's rules (``Rules`` preset ``sia`` for Sia's); at infinite
    powers as for p = -1 or 1. Sia knows GPUs only: in its shapes a replica gets no more than its
    GPU's share of cores and other resources, so that these never keep it from a node. Jobs that fit
    nowhere after the decision stay idle.

    Parameters
    ----------
    instance
        The round; jobs have a mode for every type of GPU that they can use, or none and run on any
        one type.
    stop
        Limits; when time runs out the running jobs go on.
    shapes
        ``"sia"``: powers of two on one node and whole nodes; ``"any"``: every number of GPUs, with
        whatever cores and other resources.
    decimals
        Digits to which the powers in the objective are rounded, no larger than 3000: 2 in the
        artifact. None leaves them unrounded; with shapes ``"any"`` the program then proves a bound
        wherever it is a relaxation.

    Raises
    ------
    ValueError
        If `shapes` is neither ``"sia"`` nor ``"any"``, or `decimals` is not an integer from 0 to
        12.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SIA, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import solve_sia
    >>> good, poor = SpeedupTable((1.0, 1.8), (1.0, 1.5)), SpeedupTable((1.0, 1.2), (1.0, 1.1))
    >>> jobs = (Job("good", good, age=3600.0), Job("poor", poor, age=3600.0))
    >>> solve_sia(Instance(Cluster.uniform(1, 3), jobs, SIA)).allocation.placements()
    [((0, 2),), ((0, 1),)]
    """
    require_choice("Solver 'sia': shapes", shapes, get_args(Shapes))
    if decimals is not None:
        require_count("Solver 'sia': decimals", decimals, minimum=0, maximum=12)
    stop = stop or Stop()
    watch = Watch(stop)
    found = enumerate_configurations(instance, whole_nodes=shapes == "sia")
    if shapes == "sia":
        placed = (found.kind == Kind.ONE_NODE) | (found.kind == Kind.SEVERAL_NODES)
        found = found.where(~placed | within_share(instance)[found.mode])
    build_seconds = watch.seconds
    if decimals is None:
        decision, _, bound = decide_unrounded(instance, found, watch)
    else:
        (decision, *_), bound = decide_published(instance, found, watch, decimals), math.inf
    taken = found.kind == Kind.KEEP
    taken |= (found.kind == Kind.IDLE) & ~np.isin(found.job, found.job[taken])
    if decision.values is not None:
        taken = decision.values > 0.5
    chosen = found.where(taken)
    allocation = place_by_type(instance, chosen)
    value = fitness(instance, allocation)
    if not is_relaxation(instance, whole_nodes=shapes == "sia"):
        bound = math.inf
    idle = int(np.count_nonzero((chosen.replicas > 0) & (allocation.job_replicas == 0)))
    return Answer(
        allocation=allocation,
        bound=bound,
        bound_source="Sia's program",
        proven=proves(bound, value, stop.gap),
        limit=watch.limit,
        history=(Incumbent(watch.seconds, decision.nodes, value, bound),),
        iterations=decision.nodes,
        build_seconds=build_seconds,
        message=f"{idle} of the jobs that were to run found no nodes" if idle else "",
    )


def _decide(
    instance: Instance, found: Configurations, cost: Floats, gap: float, watch: Watch
) -> Decision:
    """Minimise the cost, exact to an absolute gap unless time runs out or Ctrl-C is pressed."""
    scale = max(GAP_IN_PROGRAM / gap, 1.0)
    scale = min(scale, LARGEST_COST / max(float(np.abs(cost).max()), SMALLEST_DIVISOR))
    capacity = type_capacity(instance)
    try:
        decision = decide_configurations(
            found.job, cost * scale, found.demand, capacity, watch, gap=gap * scale
        )
    except KeyboardInterrupt:
        watch.interrupted = True
        return Decision(None, math.inf, -math.inf)
    objective, bound = decision.objective / scale, decision.bound / scale
    return Decision(decision.values, objective, bound, decision.nodes, decision.core)


def decide_published(
    instance: Instance, found: Configurations, watch: Watch, decimals: int = 2
) -> tuple[Decision, float, float]:
    """Minimise the rounded cost, in units in which a solver can take any positive power.

    In these units powers of utilities below 1 are not lost by the rounding either.

    Returns
    -------
    tuple
        The decision, the gap below which it is optimal, and infinity: no bound on the fitness.

    Examples
    --------
    >>> from goodalloc.formulations.sia_and_synergy import enumerate_configurations
    >>> from goodalloc.models import Cluster, Instance, Job, SIA, SpeedupTable
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.sia_and_synergy import decide_published
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), SIA)
    >>> found = enumerate_configurations(instance)
    >>> decision, _, _ = decide_published(instance, found, Watch(Stop()))
    >>> found.replicas[decision.values > 0.5].tolist()
    [2]
    """
    power = _finite(instance.rules.power)
    greatest, reference = float(found.utility.max()), 1.0
    if power > 0:
        reference = safe_reference(min(reference, greatest), 0.0, greatest, power)
    cost = published_cost(found.utility, power, decimals, reference)
    gap = OF_STEP * 10.0**-decimals / (abs(power) or 1.0)
    return _decide(instance, found, cost, gap, watch), gap, math.inf


def decide_unrounded(
    instance: Instance, found: Configurations, watch: Watch
) -> tuple[Decision, float, float]:
    """Minimise the cost unrounded, with differences beyond a solver's precision capped.

    At a great power only utilities near the reference are distinguished, so the program is decided
    again at the mean that was reached while that is far from the reference.

    Returns
    -------
    tuple
        The decision, the gap below which it is optimal, and the bound on the fitness that follows
        from its bound, infinity at infinite powers.

    Examples
    --------
    >>> from goodalloc.formulations.sia_and_synergy import enumerate_configurations
    >>> from goodalloc.models import Cluster, Instance, Job, SIA, SpeedupTable
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.sia_and_synergy import decide_unrounded
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), SIA)
    >>> found = enumerate_configurations(instance)
    >>> decision, _, _ = decide_unrounded(instance, found, Watch(Stop()))
    >>> found.replicas[decision.values > 0.5].tolist()
    [2]
    """
    power = _finite(instance.rules.power)
    best, best_gap, best_mean, bound = Decision(None, math.inf, -math.inf), 0.0, -math.inf, math.inf
    reference = _first_reference(instance, found, power)
    for _ in range(MOST_SCALES):
        decision, gap, proven = _decide_at(instance, found, watch, power, reference)
        bound = min(bound, proven)
        if decision.values is None:
            break
        reached = found.utility[decision.values > 0.5]
        mean = float(power_mean(reached, power))
        if mean > best_mean:
            best, best_gap, best_mean = decision, gap, mean
        if _on_scale(reached, mean, reference, power):
            break
        reference = mean
    return best, best_gap, bound if power == instance.rules.power else math.inf


def _first_reference(instance: Instance, found: Configurations, power: float) -> float:
    """Return a bound on the fitness, or a closer reference by the best job alone."""
    reference = float(np.median(found.utility))
    if power == instance.rules.power:
        reference = knapsack_bound(instance)
    if power >= 1:
        alone = float(found.utility.max()) / largest_ratio(power, instance.num_jobs)
        reference = min(reference, alone * largest_ratio(power, 1.0 / OFF_SCALE))
    return reference


def _decide_at(
    instance: Instance, found: Configurations, watch: Watch, power: float, reference: float
) -> tuple[Decision, float, float]:
    """Decide as `decide_unrounded` does, at one reference utility."""
    utility = found.utility
    if power > 0:
        reference = safe_reference(reference, 0.0, float(utility.max()), power)
    elif power < 0:
        utility = np.maximum(utility, reference / largest_ratio(power))
    cost = power_cost(utility, power, reference)
    gap = OF_GAP * cost_gap(max(watch.stop.gap, LEAST_GAP), instance.num_jobs, power)
    decision = _decide(instance, found, cost, gap, watch)
    lowest = decision.bound - SLACK * gap
    return decision, gap, fitness_from_cost(lowest, instance.num_jobs, power, reference)


def _on_scale(reached: Floats, mean: float, reference: float, power: float) -> bool:
    """Return whether the program at this reference separates what was reached from better."""
    if power > 0:
        return bool(mean >= reference / largest_ratio(power, 1.0 / ON_SCALE))
    return bool(reached.min() >= reference / largest_ratio(power))


def _finite(power: float) -> float:
    """Return the power itself, 1 or -1 in place of infinity."""
    return power if math.isfinite(power) else math.copysign(1.0, power)
