r"""Exchange of AITurbo: a unit goes from the job that misses it least to the one that gains most.

The slides of AITurbo show the marginal table of two jobs
(`models/parameter_servers/tabulated_service.py`) and take, of all recipients *i*, donors *k* and
axes *r*, the exchange with the least

.. math:: V_i(c_i + e_r) + V_k(c_k - e_r)                                                      (1)

below :math:`V_i(c_i) + V_k(c_k)`. Its repetition until no exchange lessens the total, and free
capacity as a donor without loss, are a documented reading. Units of different jobs differ (a server
of one has more cores than one of another), so an exchange also has to fit in the free capacity of
the cluster. Of equally good exchanges the first axis is taken, then the recipient that gains most,
then the first job, free capacity after all jobs.

The total falls with every exchange, so the rule ends, in a local optimum: no single exchange of one
unit helps, though one of two might (`goodalloc.experiments.studies.parameter_servers.exchange_gap`
measures how far that is from the optimum).

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import product
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from goodalloc.models.parameter_servers.tabulated_service import check_tables, marginal_table
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE, ROUNDING
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats


#: Amount of every resource.
Amounts = tuple[float, ...]

#: Role of free capacity: it only gives units, or also takes back those that do not help.
Free = Literal["donor", "both"]

#: Index of free capacity, in place of a job.
FREE = -1


@dataclass(frozen=True)
class Exchange:
    """Transfer of a unit along an axis to a job, from another or from free capacity (`FREE`).

    Parameters
    ----------
    axis, recipient, donor
        Axis of the unit, and the jobs that receive and give it.
    before, after
        Remaining service of all jobs together.
    """

    axis: int
    recipient: int
    donor: int
    before: float
    after: float


@dataclass(frozen=True)
class Exchanged:
    """Outcome of the exchanges.

    Parameters
    ----------
    cells
        The cell of every job.
    total
        Remaining service of all jobs together.
    exchanges
        The exchanges, in order.
    """

    cells: tuple[Cell, ...]
    total: float
    exchanges: tuple[Exchange, ...]


def exchange_units(
    tables: Sequence[ServiceTable],
    cells: Sequence[Cell],
    capacity: Floats,
    *,
    free: Free = "donor",
    most: int | None = None,
) -> Exchanged:
    """Exchange units until no exchange lessens the total remaining service.

    Parameters
    ----------
    tables
        Table of every job.
    cells
        Cell at which every job begins.
    capacity
        Amount of every resource, shape (resources,).
    free
        Whether free capacity only gives units, or also takes them where a job is better off without
        (what remains may be *service*, in which case a unit that is badly used costs more than it
        saves).
    most
        Most exchanges; None for any number.

    Raises
    ------
    ValueError
        If the cells do not fit in the cluster, a job cannot be in its cell, `free` is not one of
        its choices, or `most` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> from goodalloc.solvers.parameter_servers import exchange_units
    >>> gpus = np.array([[1.0], [2.0], [3.0]])
    >>> quick = ServiceTable("quick", np.array([9.0, 3.0, 1.0]), gpus)  # on 1, 2 or 3 GPUs
    >>> slow = ServiceTable("slow", np.array([9.0, 8.0, 7.0]), gpus)
    >>> found = exchange_units([quick, slow], [(0,), (1,)], np.array([3.0]))
    >>> found.cells, found.total  # a GPU moves from the slow job to the quick one
    (((1,), (0,)), 12.0)
    """
    require_choice("Exchange: free", free, get_args(Free))
    if most is not None:
        require_count("Exchange: most", most, minimum=0)
    where = [tuple(cell) for cell in cells]
    left = left_of(tables, where, capacity)
    offers = Offers(tables, where, free=free)
    done: list[Exchange] = []
    while most is None or len(done) < most:
        found = best_exchange(offers, left, below=-ROUNDING * abs(offers.total))
        if found is None:
            break
        for job, units in ((found.recipient, 1), (found.donor, -1)):
            if job == FREE:
                continue
            further = tables[job].after(where[job], found.axis, units)
            if further is None:
                raise AssertionError("an exchange led out of a table")
            left = left - (tables[job].demand[further] - tables[job].demand[where[job]])
            where[job] = further
            offers.put(job, tables[job], further)
        done.append(found)
    return Exchanged(tuple(where), offers.total, tuple(done))


class Offer(NamedTuple):
    """Offer of a job to take a unit along an axis, or to give one; the lesser is the better.

    Attributes
    ----------
    cost
        Its change of the total.
    free, job
        Whether it is free capacity, and the job, or `FREE`.
    """

    cost: float
    free: bool
    job: int


#: Offer of free capacity, which neither gains nor loses by a unit.
FREE_UNIT = Offer(0.0, free=True, job=FREE)

#: Offers by the change in the amounts taken, the best first.
Side = dict[Amounts, list[Offer]]


class Offers:
    """Recipients and donors along every axis.

    Whether two of them fit in the free capacity depends only on their changes of the amounts taken,
    in which few jobs differ. Of equal ones the first two suffice to find the best pair: the second
    where the first is on both sides.

    Parameters
    ----------
    tables, cells
        Table of every job, and its cell.
    free
        As of `exchange_units`.

    Attributes
    ----------
    sides
        Recipients and donors along every axis.
    """

    def __init__(
        self, tables: Sequence[ServiceTable], cells: Sequence[Cell], *, free: Free = "donor"
    ) -> None:
        self.sides: list[tuple[Side, Side]] = [({}, {}) for _ in tables[0].service.shape]
        self._now = np.zeros(len(tables))
        self._made: list[list[tuple[Side, Amounts, Offer]]] = [[] for _ in tables]
        nothing: Amounts = (0.0,) * tables[0].demand.shape[-1]
        for recipients, donors in self.sides:
            donors[nothing] = [FREE_UNIT]
            if free == "both":
                recipients[nothing] = [FREE_UNIT]
        for job, (table, cell) in enumerate(zip(tables, cells, strict=True)):
            self.put(job, table, cell)

    @property
    def total(self) -> float:
        """Remaining service of all jobs together."""
        return float(self._now.sum())

    def put(self, job: int, table: ServiceTable, cell: Cell) -> None:
        """Replace the offers of a job by those at its new cell."""
        for side, change, offer in self._made[job]:
            ranked = side[change]
            del ranked[bisect_left(ranked, offer)]
            if not ranked:
                del side[change]
        now, service, changes = marginal_table([table], [cell])
        self._now[job] = now[0]
        costs = (service[0] - now[0]).tolist()
        self._made[job] = [
            (side, tuple(changes[0, sign, axis].tolist()), Offer(costs[sign][axis], False, job))
            for axis, pair in enumerate(self.sides)
            for sign, side in enumerate(pair)
            if isfinite(costs[sign][axis])
        ]
        for side, change, offer in self._made[job]:
            insort(side.setdefault(change, []), offer)


def best_exchange(offers: Offers, left: Floats, *, below: float = np.inf) -> Exchange | None:
    """Return the exchange (1) of the least total among those that fit; None without one.

    Parameters
    ----------
    offers
        Offers of all jobs.
    left
        Free amount of every resource, shape (resources,).
    below
        Limit on the change of the total; an exchange has to be below it.
    """
    room: Amounts = tuple(left.tolist())
    best = nothing = (below, -1, FREE_UNIT, FREE_UNIT)
    for axis, sides in enumerate(offers.sides):
        recipients, donors = (sorted(side.items(), key=itemgetter(1)) for side in sides)
        for more, takers in recipients:
            for less, givers in donors:
                if takers[0].cost + givers[0].cost > best[0]:
                    break
                if any(a + b > most for a, b, most in zip(more, less, room, strict=True)):
                    continue
                for taker, giver in product(takers[:2], givers[:2]):
                    if taker.job != giver.job:
                        best = min(best, (taker.cost + giver.cost, axis, taker, giver))
    if best is nothing:
        return None
    cost, axis, taker, giver = best
    return Exchange(axis, taker.job, giver.job, offers.total, offers.total + cost)


def left_of(tables: Sequence[ServiceTable], cells: Sequence[Cell], capacity: Floats) -> Floats:
    """Return the free amount of every resource.

    Raises
    ------
    ValueError
        If the jobs take more than there is, the numbers of jobs and cells differ, or a job cannot
        be in its cell.
    """
    check_tables(tables, capacity)
    if len(cells) != len(tables):
        raise ValueError(
            f"There are {len(tables)} jobs and {len(cells)} cells; expected a cell for every job."
        )
    for table, cell in zip(tables, cells, strict=True):
        inside = len(cell) == table.service.ndim and all(
            0 <= index < size for index, size in zip(cell, table.service.shape, strict=True)
        )
        if not inside or not np.isfinite(table.service[cell]):
            raise ValueError(
                f"Job '{table.name}' is in the cell {tuple(cell)}; expected one where it can be, "
                f"as {table.least}."
            )
    taken = np.sum([table.demand[cell] for table, cell in zip(tables, cells, strict=True)], axis=0)
    left = np.asarray(capacity, dtype=float) * (1 + RESOURCE_TOLERANCE) + RESOURCE_TOLERANCE - taken
    if (left < 0).any():
        raise ValueError(
            f"The jobs take {taken.tolist()} of the resources; expected at most "
            f"{np.asarray(capacity).tolist()}."
        )
    return np.asarray(left)
