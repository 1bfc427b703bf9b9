r"""The multiple-choice knapsack: an upper bound on the fitness that ignores the nodes.

Keep one choice per job and the GPUs of the whole cluster; drop where the GPUs are:

.. math::

    \min_x \sum_j \sum_K c_{jK} x_{jK}
    \quad \text{s.t.} \quad \sum_K x_{jK} = 1 \;\; \forall j, \qquad
    \sum_j \sum_K K x_{jK} \le G, \qquad x \in \{0, 1\},                                  (1)

where :math:`c_{jK}` is the cost (`formulations/basics/power_mean_cost.py`) of the best utility of
job *j* on *K* GPUs, on one node, on several, or kept as they are. This is a *relaxation*: every
allocation gives a feasible *x*. Its linear relaxation needs a single price :math:`\lambda` on a
GPU,

.. math::

    D(\lambda) = \sum_j \min_K (c_{jK} + \lambda K) - \lambda G, \qquad \lambda \ge 0,    (2)

and every :math:`D(\lambda)` is a bound, so that rounding in the search for the best price cannot
spoil it; rounding in (2) itself is subtracted. The minimum and the maximum (p = -inf, inf) need no
price: the integer program is solved as it stands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.dynamic_program import least_totals
from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Relative error of a sum of costs: some hundred roundings of float64.
ROUNDING = 1e-13

#: Largest scaled term (u / r)^p; worse choices are counted as no worse than this.
_LARGEST_TERM = 1e200

#: Where replicas share GPUs these are counted in such parts, rounded down.
PARTS = 20


class Knapsack(NamedTuple):
    """The knapsack of an instance.

    Parameters
    ----------
    utility
        Best utility of every job on *K* GPUs, shape (jobs, most GPUs + 1); -inf where not allowed.
    gpus
        GPUs of the cluster; both count in 1/`PARTS` of a GPU where replicas share GPUs.
    power
        The power *p*.
    """

    utility: Float[Floats, "jobs gpus"]
    gpus: int
    power: float


class Priced(NamedTuple):
    """Best responses to a price: the dual (2) less its rounding, their total cost, their GPUs."""

    price: float
    bound: float
    cost: float
    replicas: Int[Indices, " jobs"]


def best_utilities(instance: Instance) -> Float[Floats, "jobs gpus"]:
    """Return the best utility of every job on *K* GPUs of any nodes: shape (jobs, most GPUs + 1).

    Minus infinity where the rules allow no such choice, or where it does not fit beside the fewest
    GPUs that the other jobs must have. Where replicas share GPUs, *K* counts 1/`PARTS` of a GPU.
    """
    if instance.shares_gpus:
        return _affordable(_shared_utilities(instance), PARTS * instance.cluster.num_gpus)
    table = mode_utilities(instance)
    moved = np.maximum.reduceat(table.moved, instance.first_mode, axis=0)
    rules, nodes = instance.rules, np.sort(instance.cluster.node_gpus)[::-1]
    replicas = np.arange(moved.shape[-1])
    within = (replicas >= instance.min_replicas[:, None]) & (
        replicas <= instance.max_replicas[:, None]
    )
    within &= ~instance.pinned[:, None]
    span = min(rules.max_nodes_per_job, nodes.size)
    several = (replicas >= 2) & (replicas <= nodes[:span].sum()) & (span >= 2)
    one = np.where(within & (replicas <= nodes[0]), moved[:, 0], -np.inf)
    best = np.maximum(one, np.where(within & several, moved[:, 1], -np.inf))
    best[~instance.pinned, 0] = rules.idle
    current = instance.current
    held = current.job_replicas
    may_keep = (held >= instance.min_replicas) & (held <= instance.max_replicas)
    keep = np.flatnonzero(may_keep & (current.job_nodes <= rules.max_nodes_per_job))
    best[keep, held[keep]] = np.maximum(best[keep, held[keep]], table.kept[keep])
    return _affordable(best, instance.cluster.num_gpus)


def _affordable(best: Float[Floats, "jobs gpus"], gpus: int) -> Float[Floats, "jobs gpus"]:
    """Return utilities with minus infinity where the fewest GPUs of the other jobs do not fit
    beside.
    """
    fewest = np.argmax(np.isfinite(best), axis=1)
    room = gpus - fewest.sum() + fewest
    return np.where(np.arange(best.shape[1]) <= room[:, None], best, -np.inf)


def _shared_utilities(instance: Instance) -> Float[Floats, "jobs parts"]:
    """Return the best utility of every job on *K* parts of a GPU, rounded down: shape (jobs, parts
    + 1).
    """
    table, rules, job = mode_utilities(instance), instance.rules, instance.mode_job
    replicas = np.arange(table.moved.shape[-1])
    parts = np.floor(instance.mode_share[:, None] * replicas * PARTS + WHOLE_TOLERANCE).astype(
        np.int64
    )
    span = min(rules.max_nodes_per_job, instance.cluster.num_nodes)
    nodes = [min(group.nodes, span) for group in instance.cluster.groups]
    most = np.sort(np.repeat(instance.most_in_group, nodes, axis=1), axis=1)[:, ::-1]
    on_several = most[:, :span].sum(axis=1) if span > 1 else np.zeros(len(job))
    within = (replicas >= instance.min_replicas[job, None]) & ~instance.pinned[job, None]
    within &= replicas <= instance.max_replicas[job, None]
    one = np.where(within & (replicas <= most[:, :1]), table.moved[:, 0], -np.inf)
    several = within & (replicas >= 2) & (replicas <= on_several[:, None])
    value = np.maximum(one, np.where(several, table.moved[:, 1], -np.inf))
    best = np.full((instance.num_jobs, int(parts.max()) + 1), -np.inf)
    np.maximum.at(best, (np.broadcast_to(job[:, None], parts.shape), parts), value)
    free = ~instance.pinned
    best[free, 0] = np.maximum(best[free, 0], rules.idle)
    current = instance.current
    held = np.minimum(current.job_replicas, replicas.size - 1)
    may_keep = (current.job_replicas >= instance.min_replicas) & (
        current.job_replicas <= instance.max_replicas
    )
    keep = np.flatnonzero(may_keep & (current.job_nodes <= rules.max_nodes_per_job))
    running = (instance.first_mode + current.mode)[keep]
    np.maximum.at(best, (keep, parts[running, held[keep]]), table.kept[keep])
    return best


def build_knapsack(instance: Instance) -> Knapsack:
    """Build the knapsack of an instance.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import build_knapsack
    >>> instance = load_benchmark("tiny-cold")
    >>> build_knapsack(instance).utility.shape[0] == instance.num_jobs
    True
    """
    gpus = instance.cluster.num_gpus * (PARTS if instance.shares_gpus else 1)
    return Knapsack(best_utilities(instance), gpus, instance.rules.power)


def knapsack_bound(instance: Instance, *, exact: bool = False) -> float:
    """Return an upper bound on the fitness of every allocation of an instance.

    Parameters
    ----------
    instance
        The round; any power.
    exact
        Solve the integer program (1) by dynamic programming, in time jobs × GPUs × choices, rather
        than its linear relaxation. The bound is the tighter of the two.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import knapsack_bound
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> knapsack_bound(instance) >= solve(instance).fitness
    True
    """
    knapsack = build_knapsack(instance)
    if knapsack.power == -math.inf:
        return _least_bound(knapsack)
    if knapsack.power == math.inf:
        return _greatest_bound(knapsack)
    reference = first_reference(knapsack)
    bound = _price_bound(knapsack, reference)
    bound = min(bound, _price_bound(knapsack, bound))
    if exact:
        bound = min(bound, _exact_bound(knapsack, bound))
    return bound * (1.0 + 1e-15 * (8.0 + 8.0 * abs(math.log(bound))))


def _price_bound(knapsack: Knapsack, reference: float) -> float:
    """Return a bound on the fitness by the best price; tightest if the reference is near the
    bound.
    """
    total = best_price(knapsack_costs(knapsack, reference), knapsack.gpus).bound
    return fitness_from_cost(total, len(knapsack.utility), knapsack.power, reference)


def _exact_bound(knapsack: Knapsack, reference: float) -> float:
    """Return a bound on the fitness by dynamic programming."""
    total = _integer_minimum(knapsack_costs(knapsack, reference), knapsack.gpus)
    return fitness_from_cost(total, len(knapsack.utility), knapsack.power, reference)


def first_reference(knapsack: Knapsack) -> float:
    """Return a utility near the best mean.

    The best least and the best greatest utility of (1) enclose its best mean:
    ``least <= mean <= least n^(-1/p)`` for p < 0, ``greatest n^(-1/p) <= mean <= greatest`` for
    p > 0.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import build_knapsack, first_reference
    >>> first_reference(build_knapsack(load_benchmark("tiny-cold"))) > 0
    True
    """
    if knapsack.power < 0:
        return _least_bound(knapsack)
    if knapsack.power > 0:
        return _greatest_bound(knapsack)
    return float(power_mean(knapsack.utility.max(axis=1), 0.0))


def knapsack_costs(knapsack: Knapsack, reference: float) -> Float[Floats, "jobs gpus"]:
    """Return the cost of every (job, K); infinite where not allowed, capped where it decides
    nothing.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import build_knapsack, knapsack_costs
    >>> knapsack = build_knapsack(load_benchmark("tiny-cold"))
    >>> cost = knapsack_costs(knapsack, reference=1.0)
    >>> (cost[:, 0] >= cost.min(axis=1)).all().item()  # more GPUs cost no more than none
    True
    """
    utility, power = knapsack.utility, knapsack.power
    lowest, highest = 0.0, math.inf
    if power < 0:
        lowest = reference * math.exp(math.log(_LARGEST_TERM) / power)
    elif power > 0:
        highest = _greatest_bound(knapsack)
    allowed = np.isfinite(utility) & (utility <= highest)
    clipped = np.maximum(np.where(allowed, utility, reference), lowest)
    return np.where(allowed, power_cost(clipped, power, reference), np.inf)


def best_price(cost: Float[Floats, "jobs gpus"], gpus: int, most_steps: int = 200) -> Priced:
    """Maximise the dual (2), concave in the price.

    The price is kept between one at which the jobs want too much and one at which they do not. It
    is taken alternately where the two tangents cross, which ends at the optimum, and in the middle
    of the logarithms, which copes with costs that span many powers of ten.

    Parameters
    ----------
    cost
        Shape (jobs, most GPUs + 1).
    gpus
        GPUs to share out.
    most_steps
        Steps at most; the bound is valid after any number.

    Returns
    -------
    Priced
        The best bound found, with GPUs that fit into the cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.gpu_rounds import best_price
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])  # of 0, 1 and 2 GPUs
    >>> round(best_price(cost, gpus=3).bound, 6)
    -8.0
    """
    low = respond(cost, gpus, 0.0)
    if low.replicas.sum() <= gpus:
        return low
    finite = np.where(np.isfinite(cost), cost, -np.inf).max(axis=1)
    high = respond(cost, gpus, 2.0 * float((finite - cost.min(axis=1)).max()))
    best = max(low.bound, high.bound)
    for step in range(most_steps):
        price = _next_price(low, high, crossing=step % 2 == 0)
        if not low.price < price < high.price:
            break
        tried = respond(cost, gpus, price)
        ceiling = high.cost + (int(high.replicas.sum()) - gpus) * price
        best = max(best, tried.bound)
        if tried.replicas.sum() > gpus:
            low = tried
        else:
            high = tried
        if step % 2 == 0 and ceiling - best <= ROUNDING * abs(ceiling):
            break
    return high._replace(bound=best)


def _next_price(low: Priced, high: Priced, *, crossing: bool) -> float:
    """Return a price between two: where their tangents to the dual cross, or the geometric
    middle.
    """
    if not crossing and low.price > 0:
        return math.sqrt(low.price) * math.sqrt(high.price)
    return (high.cost - low.cost) / int(low.replicas.sum() - high.replicas.sum())


def respond(cost: Float[Floats, "jobs gpus"], gpus: int, price: float) -> Priced:
    """Return the dual (2) at a price; ties go to fewer GPUs.

    The minimising *K* are whole numbers, so ``sum(c) + price * (sum(K) - G)`` cancels nothing. What
    rounding may have hidden, in choosing *K* or in adding, is taken off.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.gpu_rounds import respond
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])  # of 0, 1 and 2 GPUs
    >>> round(respond(cost, gpus=3, price=1.5).bound, 6)
    -8.0
    """
    replicas = np.argmin(cost + price * np.arange(cost.shape[1]), axis=1)
    chosen = cost[np.arange(cost.shape[0]), replicas]
    total, used = float(chosen.sum()), int(replicas.sum())
    size = float(np.abs(chosen).sum()) + price * used
    return Priced(price, total + price * (used - gpus) - ROUNDING * size, total, replicas)


def _integer_minimum(cost: Float[Floats, "jobs gpus"], gpus: int) -> float:
    """Return the least total cost of (1), by dynamic programming over the jobs, less its
    rounding.
    """
    least = float(least_totals(cost, gpus)[-1, -1])
    return least - ROUNDING * max(abs(least), float(np.abs(cost.min(axis=1)).sum()))


def _least_bound(knapsack: Knapsack) -> float:
    """Return the highest level that all jobs reach with the GPUs of the cluster (p = -inf), by
    bisection.
    """
    attainable = np.maximum.accumulate(knapsack.utility, axis=1)
    cap = attainable[:, -1].min()
    levels = np.unique(attainable[attainable <= cap])
    low, high = 0, levels.size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if np.argmax(attainable >= levels[middle], axis=1).sum() <= knapsack.gpus:
            low = middle
        else:
            high = middle - 1
    return float(levels[low])


def _greatest_bound(knapsack: Knapsack) -> float:
    """Return the best single choice that fits beside what the other jobs must have (p = inf)."""
    return float(knapsack.utility.max())
