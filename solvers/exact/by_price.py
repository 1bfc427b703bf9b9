"""Proof of optimality by the cheapest bound: that of one price of a GPU.

The cluster counts as one pool of GPUs, which bounds every allocation from above. The numbers of
GPUs near that bound are made whole and placed; where the allocation reaches the bound, no program
needs to be solved. How often that is so, and what it saves, `make bench BENCH=round` tells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import settled_level
from goodalloc.formulations.certificates.certificate import Leaf, Measure
from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.certificates.prices import Prices
from goodalloc.formulations.gpu_rounds.choices import enumerate_choices
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.support.tolerances import DEFAULT_GAP
from goodalloc.solvers.certificates.proofs import strongest
from goodalloc.solvers.columns.placing import place_replicas
from goodalloc.solvers.columns.round_utilities import TabulatedUtilities
from goodalloc.solvers.columns.whole_numbers import (
    AT_LEVEL,
    GREATEST_POWER,
    wanted_of_others,
    wanted_of_served,
    wanted_replicas,
)
from goodalloc.solvers.exact.ties import MANY
from goodalloc.solvers.interface.stop import proves

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.columns.whole_numbers import Wanted

#: Relative gap up to which an allocation is *the* optimum, well below the differences that the
#: rule between equally good ones ignores (`ties.TIE`).
SHARP = 1e-11


class PricedDecision(NamedTuple):
    """Allocation by a price.

    Attributes
    ----------
    allocation
        The allocation, which the rules allow.
    fitness, bound
        Its objective, and a bound on that of every allocation.
    sharp
        Whether it is the optimum to `SHARP`, at p = -inf also by the harmonic mean.
    wanted
        The numbers of GPUs, with their price.
    """

    allocation: Allocation
    fitness: float
    bound: float
    sharp: bool
    wanted: Wanted

    def proves(self, gap: float) -> bool:
        """Return whether the bound settles the round: sharply, or to a gap that is asked for."""
        asked = gap > DEFAULT_GAP and proves(self.bound, self.fitness, gap)
        return self.sharp or asked


def decide_by_price(instance: Instance) -> PricedDecision | None:
    """Return an allocation by the best price of a GPU.

    Parameters
    ----------
    instance
        The round.

    Returns
    -------
    PricedDecision or None
        None where the road does not lead: jobs with modes, with a fewest number of GPUs or that may
        not move; a power beyond `GREATEST_POWER`; or no allocation found.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.solvers.exact.by_price import decide_by_price
    >>> found = decide_by_price(generate(seed=0, jobs=100, nodes=16, gpus_per_node=4))
    >>> found.sharp, 0.0 <= found.bound - found.fitness <= 1e-11
    (True, True)
    """
    power = instance.rules.power
    if not instance.plain or power > GREATEST_POWER:
        return None
    if instance.pinned.any() or (instance.min_replicas > 1).any():
        return None
    utilities = TabulatedUtilities(instance)
    wanted = wanted_replicas(utilities)
    allocation = place_replicas(utilities, wanted.replicas)
    if violations(instance, allocation):
        return None
    reached = utilities.of(allocation)
    value = float(power_mean(reached, power))
    if math.isfinite(power):
        sharp = proves(wanted.bound, value, SHARP)
        settled = settled_level(reached, power)
        if sharp and settled is not None and instance.num_jobs <= MANY:
            sharp = False  # the programs decide the others, too, and few jobs are quick
        elif sharp and settled is not None:
            allocation, sharp = _others_improved(utilities, allocation, settled)
            value = float(power_mean(utilities.of(allocation), power))
    else:
        mean = float(power_mean(reached, AT_LEVEL))
        sharp = value >= wanted.bound and proves(wanted.mean_bound, mean, SHARP)
    return PricedDecision(allocation, value, max(wanted.bound, value), sharp, wanted)


def _others_improved(
    utilities: TabulatedUtilities, allocation: Allocation, settled: float
) -> tuple[Allocation, bool]:
    """Return an allocation that is better for the jobs that settled ones outweigh.

    These are then decided by a price of their own, where the settled ones hold nothing, or all that
    helps them; whether they are decided to `SHARP` is returned, too.
    """
    instance, reached = utilities.columns, utilities.of(allocation)
    others, power = reached > settled, instance.rules.power
    served = int(others.sum())
    mean = float(power_mean(reached[others], power))
    greatest = utilities.best(slice(0, instance.num_jobs)).max(axis=1)
    if (reached >= greatest)[~others].all():
        above = math.nextafter(settled, math.inf)
        wanted = wanted_of_others(utilities, ~others, above, mean)
    elif not allocation.job_replicas[~others].any():
        wanted = wanted_of_served(utilities, served, mean)
    else:
        return allocation, False
    found = place_replicas(utilities, wanted.replicas)
    improved = utilities.of(found)
    others = improved > settled
    if violations(instance, found) or int(others.sum()) != served:
        return allocation, proves(wanted.bound, mean, SHARP)
    better = float(power_mean(improved[others], power))
    if better > mean:
        allocation, mean = found, better
    return allocation, proves(wanted.bound, mean, SHARP)


def price_certificate(
    instance: Instance, decision: PricedDecision, gap: float
) -> Certificate | None:
    """Return a certificate of the bound by the price alone; None where that proves less.

    Parameters
    ----------
    instance, decision
        The round, and its decision by price.
    gap
        Relative gap that the certificate is to prove.
    """
    bounds = PriceBound(instance, enumerate_choices(instance), resource_grid(instance))
    leaf = _leaf(bounds, decision)
    found = strongest([leaf], bounds, decision.fitness, gap)
    if found is None or not proves(found.bound, decision.fitness, gap):
        return None
    return found


def _leaf(bounds: PriceBound, decision: PricedDecision) -> Leaf:
    """Return the proof by the price of a GPU, or by the GPUs beyond a level (p = -inf)."""
    power, price = bounds.instance.rules.power, decision.wanted.price
    if price is None:
        # A job above the level saves a cost of 1. The fewest GPUs of all above it do not fit, so
        # that a price at which none of them saves anything proves that some job stays below.
        price = 1.0 / bounds.instance.cluster.num_gpus
    groups = int(bounds.instance.cluster.node_group.max()) + 1
    resources = np.zeros((groups, bounds.linear_units.size))
    resources[:, 0] = price  # GPUs come first
    return Leaf(Measure(power, decision.wanted.reference), Prices(resources=resources))
