"""Best prices of pools, those of the worth of nodes among them.

Where the choices at the best prices do not pack, the prices of the packing program make further
pools (`node_worth.py`), and the search goes on from where it was. That takes several rounds, each
of which prices all jobs many times; a sample of the jobs finds nearly all of these pools as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.mode_columns.node_worth import with_node_worth
from goodalloc.solvers.mode_columns.pool_prices import PoolPrices, search_pool_prices
from goodalloc.solvers.mode_columns.seat_program import Room, Wanted, relaxed_packing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses
    from goodalloc.solvers.modes.pattern_master import Packed

#: Cost of a job by which the best prices may fall short, and those of a sample.
PRICE_GAP, SAMPLE_GAP = 1e-5, 3e-5

#: Classes of the sample.
SAMPLE = 2_000

#: Rounds of further pools with the sample, and with all jobs.
SAMPLE_ROUNDS, ROUNDS = 12, 2

#: Least share by which further pools must lower the bound for more to be tried.
WORTH_WHILE = 3e-6

#: Share of the jobs that may stay unpacked.
UNPACKED = 1e-5


class PricedPools(NamedTuple):
    """Best prices, those of the worth of nodes among them.

    Attributes
    ----------
    classes
        The classes of jobs, with all pools that have a price.
    best
        The best prices.
    worths
        Type of GPU and value function of a node of every further pool, in the order of the prices.
    """

    classes: PricedClasses
    best: PoolPrices
    worths: tuple[tuple[int, NodeValue], ...]


def best_pool_prices(classes: PricedClasses, units: NodeUnits, watch: Watch) -> PricedPools:
    """Return the best prices, and the classes with all pools that have one.

    Parameters
    ----------
    classes
        The classes of all jobs.
    units
        Units of the round.
    watch
        The clock of the solve.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns, three_types
    >>> from goodalloc.models.columns import mode_column_utilities
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.mode_columns import (
    ...     NodeUnits,
    ...     PricedClasses,
    ...     best_pool_prices,
    ...     pooled_choices,
    ...     search_pool_prices,
    ... )
    >>> columns = generate_mode_columns(0, 128, three_types(2))
    >>> choices = pooled_choices(mode_column_utilities(columns))
    >>> classes = PricedClasses(choices, -1.0, 0.05, choices.count.astype(float))
    >>> found = best_pool_prices(classes, NodeUnits(columns), Watch(Stop()))
    >>> found.best.response.bound > search_pool_prices(classes, tolerance=1e-3).response.bound
    True
    """
    search = PoolSearch(units, watch, float(classes.count.sum()), classes.choices.demand.shape[1])
    if classes.choices.num_classes > 2 * SAMPLE:
        search.run(classes.sample(SAMPLE, 0), SAMPLE_GAP, SAMPLE_ROUNDS)
        return search.run(classes, PRICE_GAP, ROUNDS)
    return search.run(classes, PRICE_GAP, SAMPLE_ROUNDS)


@dataclass
class PoolSearch:
    """Prices and further pools found so far.

    Parameters
    ----------
    units, watch
        As of `best_pool_prices`.
    jobs
        Number of jobs.
    pooled
        Number of pools without further ones.
    worths
        Type of GPU and value function of a node of every further pool.
    known
        The best prices; None before any are known.
    """

    units: NodeUnits
    watch: Watch
    jobs: float
    pooled: int
    worths: list[tuple[int, NodeValue]] = field(default_factory=list)
    known: Floats | None = None

    @property
    def prices(self) -> Floats:
        """The best prices so far, 0 before any are known."""
        return np.zeros(self.pooled) if self.known is None else self.known

    def run(
        self,
        plain: PricedClasses,
        gap: float,
        rounds: int,
        room: Room | None = None,
        planes: Sequence[Int[Indices, " classes"]] = (),
    ) -> PricedPools:
        """Search on with some classes.

        Parameters
        ----------
        plain
            The classes, without further pools.
        gap
            Cost of a job by which the bound may fall short of the best one.
        rounds
            Times that further pools are sought.
        room
            What nodes have left; all that they have if None.
        planes
            Choices of all classes, each of shape (classes,), at prices near the best ones.
        """
        classes = with_node_worth(plain, self.units, self.worths, room)
        if not classes.choices.num_classes:  # nobody chooses
            response = classes.respond(self.prices)
            known = PoolPrices(self.prices, response, 0, (), [(response.choice, 1.0)])
            return PricedPools(classes, known, tuple(self.worths))
        found = search_pool_prices(classes, gap * self.jobs, self.known, planes=planes)
        for _ in range(rounds if self.units.grid.exact else 0):
            packed = _packed(classes, found, self.units, room, self.watch)
            if packed.unpacked <= UNPACKED * self.jobs:
                break
            further = found.prices[self.pooled :]
            priced = zip(self.worths, further, strict=True)
            self.worths = [worth for worth, price in priced if price > 0.0]
            self.worths += packed.values.items()
            self.known = np.append(found.prices[: self.pooled], further[further > 0.0])
            before = found.response.bound
            classes = with_node_worth(plain, self.units, self.worths, room)
            tolerance, planes = gap * self.jobs, found.planes
            found = search_pool_prices(classes, tolerance, self.known, planes=planes)
            if found.response.bound - before < WORTH_WHILE * self.jobs:
                break
        self.known = found.prices
        return PricedPools(classes, found, tuple(self.worths))


def _packed(
    classes: PricedClasses, found: PoolPrices, units: NodeUnits, room: Room | None, watch: Watch
) -> Packed:
    """Return the relaxed packing of what jobs take at the best prices into what nodes have left."""
    number = np.zeros(len(classes.choices.demand))
    for choice, share in found.mixture:
        number += share * classes.jobs_by_code(choice)
    code = np.flatnonzero(number)
    mode, several, replicas = classes.choices.decode(code)
    some = replicas > 0
    wanted = Wanted(mode[some], replicas[some], several[some] > 0, number[code[some]])
    empty = Room(units.capacity, np.zeros(len(units.capacity), dtype=bool))
    return relaxed_packing(units, wanted, room or empty, watch)[0]
