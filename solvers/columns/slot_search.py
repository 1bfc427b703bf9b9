"""Best prices of slots, and the allocation that they choose.

Where one price of a GPU leaves a gap, running jobs often stand in the way of those that need
several free GPUs of one node. Prices of slots (`formulations/gpu_rounds/slot_prices.py`) see that,
and tell which jobs stay and which make room. Samples of the nodes come first: their prices are near
those of all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.formulations.gpu_rounds.slot_prices import SlotCosts, SlotPrices
from goodalloc.solvers.columns.column_choices import LARGEST_TERM, chunks
from goodalloc.solvers.milp import boxstep

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.formulations.gpu_rounds.slot_prices import SlotResponse
    from goodalloc.models.columns.utilities_by_kind import ColumnUtilities
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.columns.best_responses import BestResponses
    from goodalloc.solvers.columns.round_utilities import RoundUtilities
    from goodalloc.solvers.columns.whole_numbers import Wanted
    from goodalloc.solvers.milp import Highest

#: Least share of the jobs placed anew on one node that must have chosen a size for it to be priced.
ASKED = 0.02

#: Jobs of the first sample, and the factor by which samples grow.
FIRST_SAMPLE, GROWTH = 10_000, 8

#: Relative gap to which the best prices are searched, at least, and its share of the present gap.
PRICE_GAP, PRICE_SHARE = 2e-8, 3e-3

#: Width of the first box, relative to the prices; after a sample.
FIRST_BOX, NEXT_BOX = 2e-2, 1e-3

#: First relative change of all prices by which jobs that are indifferent choose otherwise, the
#: factor by which it grows until they do, and changes at most.
CHANGE, CHANGE_GROWTH, CHANGES = 1e-6, 8.0, 12


class PricedSlots(NamedTuple):
    """Bound by prices of slots, and what they choose.

    Attributes
    ----------
    bound
        Upper bound on the objective of every allocation.
    slots
        The prices, in costs.
    replicas
        GPUs that every job is to have, shape (jobs,).
    allocation
        What was placed of them.
    """

    bound: float
    slots: SlotPrices
    replicas: Int[Indices, " jobs"]
    allocation: Allocation


def search_slots(
    utilities: ColumnUtilities, wanted: Wanted, improvement: BestResponses, gap: float
) -> PricedSlots:
    """Return the best prices of slots, and the best allocation that they choose.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.
    wanted
        What one price of a GPU prescribes.
    improvement
        Best responses of the round, which place what was chosen.
    gap
        Relative gap that one price of a GPU leaves; prices are searched to a part of it.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from goodalloc.data.rounds import generate_columns
    >>> from goodalloc.models import Rules
    >>> from goodalloc.models.columns import column_utilities
    >>> from goodalloc.solvers.columns import BestResponses, search_slots, wanted_replicas
    >>> drawn = generate_columns(seed=0, jobs=1000, nodes=250, state="settled")
    >>> utilities = column_utilities(replace(drawn, rules=Rules(power=1.0)))
    >>> wanted = wanted_replicas(utilities)
    >>> found = search_slots(utilities, wanted, BestResponses(utilities), gap=1e-5)
    >>> found.bound < wanted.bound * (1 - 1e-5)
    True
    """
    columns = utilities.columns
    jobs, rules = columns.num_jobs, columns.rules
    costs, price = slot_costs(utilities, wanted.reference), wanted.price or 0.0
    costs = _asked(costs, costs.respond(np.array([price])))
    sizes = costs.sizes.astype(np.float64)
    least = max(price, jobs / columns.cluster.num_gpus) * sizes  # of the order of prices
    prices, box, sample = price * sizes, FIRST_BOX * least, FIRST_SAMPLE
    while sample < jobs / 2:
        prices = _best(costs.sample(sample / jobs, seed=0), prices, box, gap).prices
        box, sample = NEXT_BOX * np.maximum(prices, least), sample * GROWTH
    best = _best(costs, prices, box, gap)
    bound = fitness_from_cost(best.response.bound, jobs, rules.power, wanted.reference)
    bound *= 1.0 + 1e-15 * (8.0 + 8.0 * abs(math.log(bound)))
    placed = []
    for one in _nearly_all_gpus(costs, best):
        packed = improvement.packed(one.replicas, one.stays, one.spread)
        placed.append((one.replicas, improvement.improved(packed)))
    replicas, allocation = max(placed, key=lambda one: utilities.fitness(one[1]))
    return PricedSlots(bound, SlotPrices(costs.sizes, best.prices), replicas, allocation)


def slot_costs(utilities: RoundUtilities, reference: float) -> SlotCosts:
    """Return the costs of the choices of all jobs of a round, with a price of single GPUs alone.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.
    reference
        Utility whose cost is 0; tightest near the best mean.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns
    >>> from goodalloc.models.columns import column_utilities
    >>> from goodalloc.solvers.columns import slot_costs
    >>> utilities = column_utilities(generate_columns(seed=0, jobs=40, nodes=10, gpus_per_node=4))
    >>> slot_costs(utilities, 0.1).one.shape
    (40, 5)
    """
    columns, power = utilities.columns, utilities.columns.rules.power
    current, nodes = columns.current, np.sort(columns.cluster.node_gpus)[::-1]
    largest, span = int(nodes[0]), min(columns.rules.max_nodes_per_job, nodes.size)
    lowest = reference * math.exp(math.log(LARGEST_TERM) / power) if power < 0 else 0.0

    def costed(utility: Floats) -> Floats:
        return power_cost(np.maximum(utility, lowest), power, reference)

    replicas = np.arange(utilities.width)
    several = (replicas >= 2) & (replicas <= nodes[:span].sum()) & (span >= 2)
    cost = np.full((2, columns.num_jobs, utilities.width), np.inf)
    for part in chunks(columns.num_jobs):
        moved, allowed = utilities.moved(part), replicas <= columns.max_replicas[part, None]
        for way, may in enumerate((allowed & (replicas <= largest), allowed & several)):
            cost[way, part][may] = costed(moved[:, way][may])
    one = np.full((columns.num_jobs, largest + 1), np.inf)
    one[:, : min(largest + 1, utilities.width)] = cost[0, :, : largest + 1]
    held = current.job_replicas
    may_keep = (held > 0) & (held <= columns.max_replicas)
    may_keep &= current.job_nodes <= columns.rules.max_nodes_per_job
    kept = np.full(columns.num_jobs, np.inf)
    kept[may_keep] = costed(utilities.kept[may_keep])
    nodes, sizes = columns.cluster.node_gpus, np.ones(1, dtype=np.int64)
    return SlotCosts.of(one, cost[1], kept, current, nodes, sizes)


def _nearly_all_gpus(costs: SlotCosts, best: Highest[SlotResponse]) -> list[SlotResponse]:
    """Return what is chosen at two prices near the best, for at most all GPUs and for more.

    At the best prices many jobs are indifferent, so that they may leave some GPUs unused.
    """
    gpus = int(costs.node_gpus.sum())
    first = int(best.response.replicas.sum()) > gpus
    found, near, far = {first: best.response}, 0.0, CHANGE if first else -CHANGE
    for _ in range(CHANGES):
        change = 0.5 * (near + far) if len(found) == 2 else far
        response = costs.respond(best.prices * (1.0 + change))
        asked = int(response.replicas.sum())
        found[asked > gpus] = response
        if asked == gpus:
            break
        if (asked > gpus) != first:
            far = change
        elif len(found) == 2:
            near = change
        else:
            near, far = change, CHANGE_GROWTH * change
    return list(found.values())


def _asked(costs: SlotCosts, response: SlotResponse) -> SlotCosts:
    """Return the costs with a price of every size that some share of those that move ask for."""
    anew = ~response.stays & ~response.spread & (response.replicas > 0)
    count = np.bincount(response.replicas[anew], minlength=2)
    count[1] = max(int(count.sum()), 1)
    return replace(costs, sizes=np.flatnonzero(count >= ASKED * count[1]))


def _best(costs: SlotCosts, prices: Floats, box: Floats, gap: float) -> Highest[SlotResponse]:
    """Return the best prices, from some prices and a box around them on."""
    tolerance = max(PRICE_GAP, PRICE_SHARE * gap) * len(costs.one)
    gpus = max(float(costs.node_gpus.sum()), 1.0)  # a sample of few nodes may have none
    return boxstep(costs.respond, prices, box, tolerance, unit=gpus)
