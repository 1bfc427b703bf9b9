"""Certificates from the relaxations that a search has solved, by their prices alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.formulations.certificates.certificate import Leaf, Measure, certify
from goodalloc.formulations.certificates.prices import Prices
from goodalloc.solvers.interface.stop import proves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.formulations.certificates.price_bound import PriceBound


def as_good(bound: float, other: float, known: float, gap: float) -> bool:
    """Return whether `bound` says as much of a fitness as `other`, to a relative gap.

    Examples
    --------
    >>> from goodalloc.solvers.certificates import as_good
    >>> as_good(1.1, 1.0, known=0.9, gap=0.0), as_good(1.1, 1.0, known=1.099, gap=0.01)
    (False, True)
    """
    return bound <= other or proves(bound, known, gap)


def strongest(
    proofs: Sequence[Leaf], bounds: PriceBound, known: float, gap: float
) -> Certificate | None:
    """Return the certificate with the least bound; None where there is no proof.

    Parameters
    ----------
    proofs
        Proofs in the order in which they were found, judged from the last one; those that measure
        another power are left out.
    bounds
        Price bounds of the round.
    known
        Fitness of a feasible allocation, 0 without any.
    gap
        Relative gap; a bound that proves the fitness to it is enough.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.certificates import strongest
    >>> from goodalloc.solvers.certificates.certificate_search import bounds_of
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> bounds = bounds_of(Instance(Cluster.uniform(1, 2), (job,), Rules(restart_delay=0.0)))
    >>> strongest([], bounds, known=0.5, gap=1e-9) is None  # no relaxation was solved
    True
    """
    power = bounds.instance.rules.power
    usable = [proof for proof in proofs if proof.measure.power == power]
    if math.isinf(power):  # the level that needs no prices, then the others from the least one on
        cap = bounds.greatest if power > 0 else bounds.least
        usable = [Leaf(Measure(power, cap), Prices()), *usable]
        usable.sort(key=lambda proof: -proof.measure.mark)
    best: Certificate | None = None
    for proof in reversed(usable):
        found = certify(bounds, proof, known)
        if best is None or found.bound < best.bound:
            best = found
        if proves(best.bound, known, gap):
            break
    return best
