"""Certificates of rounds on trees: prices, by cases where one set is not enough."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.tree_prices import (
    TreePriceBound,
    TreePrices,
    build_tree_relaxation,
)
from goodalloc.solvers.certificates.certificate_search import MOST_LEAVES, search_certificate
from goodalloc.solvers.certificates.choice_relaxation import PRESENT, ChoiceRelaxation
from goodalloc.solvers.certificates.domain_packing import DomainPacking
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.formulations.certificates.domain_values import DomainPrices
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.formulations.certificates.tree_prices import TreeRelaxation
    from goodalloc.models.support.array_types import Floats
    from goodalloc.models.topology.topology_round import TopologyRound


def certify_tree(
    round_: TopologyRound,
    fitness: float,
    stop: Stop | None = None,
    *,
    most_leaves: int = MOST_LEAVES,
) -> Certificate:
    """Return the strongest certificate of a round on a tree that is found within limits.

    Parameters
    ----------
    round_
        The round; interference is avoided.
    fitness
        Fitness of a feasible allocation, above 0.
    stop
        Limits; its gap is the one to prove.
    most_leaves
        Most cases.

    Raises
    ------
    ValueError
        If interference is not avoided.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.certificates import certify_tree
    >>> from goodalloc.solvers.topology import solve_tree
    >>> round_ = generate_on_tree(1, nodes=16, load=0.5)
    >>> result = solve_tree(round_)
    >>> certify_tree(round_, result.fitness).bound <= result.fitness * (1 + 1e-9)
    True
    """
    bounds, watch = TreePriceBound.of(round_), Watch(stop or Stop())
    return search_certificate(
        bounds,
        fitness,
        watch,
        most_leaves=most_leaves,
        relaxation=lambda: _ChoicesOnTree(bounds, watch),
    )


@dataclass
class _ChoicesOnTree(ChoiceRelaxation):
    """Relaxation of a round on a tree, with cuts of what its domains do not hold together."""

    _relaxed: TreeRelaxation = field(init=False)
    _packing: DomainPacking | None = field(init=False, default=None)
    _nested: list[DomainPrices] = field(init=False, default_factory=list)

    @property
    def _tree(self) -> TreePriceBound:
        assert isinstance(self.bounds, TreePriceBound)
        return self.bounds

    def build(self) -> Program:
        """Return the relaxation by nodes, domains and uplinks."""
        self._relaxed = build_tree_relaxation(self._tree)
        if self._tree.held is not None:
            self._packing = DomainPacking(self._tree.held, self.watch)
        return self._relaxed.program

    def prices(self, duals: Floats) -> TreePrices:
        """Return the prices that the duals of the rows stand for."""
        return self._relaxed.prices(self._tree, duals)

    def tighten(self, weight: Floats) -> bool:
        """Add a cut of what domains hold; see `ChoiceRelaxation.tighten`."""
        if self._packing is None:
            return False
        found = self._packing.find(np.where(weight > PRESENT, weight, 0.0))
        if found is None:
            return False
        self.add_cut(found.cut)
        self._nested.append(found.prices)
        return True

    def extended(self, prices: Prices, weights: Floats) -> Prices:
        """Return prices with those of the cuts; see `ChoiceRelaxation.extended`."""
        assert isinstance(prices, TreePrices)
        pairs = zip(self._nested, weights.tolist(), strict=True)
        return replace(prices, nested=tuple(one.times(weight) for one, weight in pairs if weight))
