"""Certificates of rounds on trees for tests: documents, and random prices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.files.allocation import allocation_to_dict
from goodalloc.formulations.certificates.certificate import Certificate, Leaf
from goodalloc.formulations.certificates.domain_values import DomainPrices
from goodalloc.formulations.certificates.prices import WeightedValues
from goodalloc.formulations.certificates.tree_prices import TreePrices
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.solvers.certificates.certificate_search import fitting_measure
from goodalloc.solvers.certificates.resolved_tree import resolved_to_dict
from goodalloc.solvers.certificates.tree_certificate_file import tree_certificate_to_dict

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.tree_prices import TreePriceBound
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats
    from goodalloc.models.topology.topology_round import TopologyRound

Document = dict[str, Any]


def tree_documents(
    round_: TopologyRound, allocation: Allocation, certificate: Certificate
) -> tuple[Document, Document, Document]:
    """Return the three files as the checker reads them."""
    found = (
        resolved_to_dict(round_),
        allocation_to_dict(allocation, round_.instance),
        tree_certificate_to_dict(certificate),
    )
    one, two, three = (json.loads(json.dumps(document)) for document in found)
    return one, two, three


def random_tree_prices(bounds: TreePriceBound, random: np.random.Generator) -> TreePrices:
    """Prices of every kind, some of them there and all of them nonsense."""
    instance, gpus = bounds.instance, int(bounds.instance.cluster.node_gpus.max())

    def some(size: int) -> Floats:
        there = random.random(size + 1) < 0.5
        there[0] = False
        return np.where(there, random.exponential(size=size + 1), 0.0)

    units = np.arange(1, gpus + 1)[:, None]
    value = node_value(
        units, some(gpus)[1:], bounds.grid.shape, extra=units, extra_worth=some(gpus)[1:]
    )
    entries, levels = instance.current.job.size, len(bounds.levels)
    limits = bounds.open_uplinks
    nested: tuple[DomainPrices, ...] = ()
    if bounds.held is not None:
        nested = tuple(
            DomainPrices(
                some(gpus),
                tuple(some(5) for _ in range(bounds.held.highest)),
                float(random.exponential() * (random.random() < 0.5)),
                random.exponential(size=entries) * (random.random(entries) < 0.7),
            )
            for _ in range(random.integers(0, 3))
        )
    return TreePrices(
        values=(WeightedValues(1.0, (value,) * len(instance.cluster.groups)),)
        * int(random.integers(0, 2)),
        stays=random.normal(size=entries) if random.random() < 0.5 else None,
        domains=tuple(some(3) * (random.random() < 0.5) for _ in range(levels)),
        uplinks=tuple(0.0 if limit is None else float(random.exponential()) for limit in limits),
        nested=nested,
    )


def certificate_of_prices(
    bounds: TreePriceBound, prices: TreePrices, known: float, bound: float
) -> Certificate:
    """Return a certificate of one leaf."""
    utility = bounds.choices.utility
    power, jobs = bounds.instance.rules.power, bounds.instance.num_jobs
    return Certificate(
        bounds, Leaf(fitting_measure(utility, power, jobs, known), prices), known, bound
    )
