r"""AITurbo's exchange: a unit of something from the job that misses it least to who gains most.

The slides of AITurbo (HPDC'21) show the marginal table of two jobs (`models/service_table.py`) and
take, of all recipients *i*, donors *k* and axes *r*, the exchange with the least

.. math:: V_i(c_i + e_r) + V_k(c_k - e_r)                                                      (1)

below :math:`V_i(c_i) + V_k(c_k)`. That this is repeated until no exchange lessens the total, and
that free capacity is a donor that misses nothing is a documented reading. Units of different jobs
differ (a server of one has more cores than one of another), so an exchange also has to fit in what
is left of the cluster. Of equally good exchanges the first axis is taken, then the recipient who
gains most, then the first job, free capacity after all jobs.

The total falls with every exchange, so the rule ends; where, is a local optimum: no single exchange
of one unit helps, though one of two might (`goodalloc.experiments.exchange_gap` measures how far
that is from the optimum).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from goodalloc.models.mode import RESOURCE_TOLERANCE
from goodalloc.models.service_table import Cell, Marginal, ServiceTable, marginal_table
from goodalloc.models.validation import require_count

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: An exchange counts if it lessens the total by more than this share.
LEAST_GAIN = 1e-12
#: Best recipients and donors that are paired first.
FIRST_PAIRS = 32

#: Who stands for free capacity: only who gives, or also who is given back what lessens nothing.
Free = Literal["donor", "both"]

#: Free capacity, in place of a job.
FREE = -1


@dataclass(frozen=True)
class Exchange:
    """A unit along an axis for a job, from another or from free capacity (`FREE`).

    Parameters
    ----------
    axis, recipient, donor
        What is moved, to whom and from whom.
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
    """Where the exchanges end.

    Parameters
    ----------
    cells
        The cell of every job.
    total
        Remaining service of all jobs together.
    exchanges
        All of them, in order.
    """

    cells: tuple[Cell, ...]
    total: float
    exchanges: tuple[Exchange, ...]


def exchange_units(
    tables: Sequence[ServiceTable], cells: Sequence[Cell], capacity: Floats, *,
    free: Free = "donor", most: int | None = None,
) -> Exchanged:  # fmt: skip
    """Exchange units until no exchange lessens the total remaining service.

    Parameters
    ----------
    tables
        Of every job.
    cells
        Where every job begins.
    capacity
        What there is of every resource, shape (resources,).
    free
        Whether free capacity only gives units, or also takes them where a job is better off without
        (what remains may be *service*, in which case a unit that is badly used costs more than it
        saves).
    most
        Most exchanges; None for any number.

    Raises
    ------
    ValueError
        If the cells do not fit in the cluster.
    """
    if most is not None:
        require_count("Exchange: most", most, minimum=0)
    where = [tuple(cell) for cell in cells]
    left = left_of(tables, where, capacity)
    marginal = marginal_table(tables, where)
    total = float(marginal.now.sum())
    done: list[Exchange] = []
    while most is None or len(done) < most:
        found = best_exchange(marginal, left, free=free, below=-LEAST_GAIN * abs(total))
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
            row = marginal_table([tables[job]], [further])
            for old, new in zip(marginal, row, strict=True):
                old[job] = new[0]
        total = float(marginal.now.sum())
        done.append(found)
    return Exchanged(tuple(where), total, tuple(done))


def best_exchange(
    marginal: Marginal, left: Floats, *, free: Free = "donor", below: float = np.inf
) -> Exchange | None:
    """The exchange (1) that leaves the least total, among those that fit; None where none does.

    Parameters
    ----------
    marginal
        What a unit more or less of everything does to every job.
    left
        What nobody has of every resource, shape (resources,).
    free
        As of `exchange_units`.
    below
        Only exchanges count that add less than this to the total.
    """
    before, best, chosen = float(marginal.now.sum()), below, None
    for axis in range(marginal.service.shape[-1]):
        recipients = _sides(marginal, 0, axis, with_free=free == "both")
        donors = _sides(marginal, 1, axis, with_free=True)
        pair = _best_pair(recipients, donors, left, best)
        if pair is not None and pair[0] < best:
            best = pair[0]
            chosen = Exchange(axis, pair[1], pair[2], before, before + best)
    return chosen


class _Sides(NamedTuple):
    """Who may take part in an exchange on one side, by what it costs, the least first.

    Attributes
    ----------
    job
        `FREE` for free capacity.
    cost, change
        What is added to the total, and to what is taken of every resource.
    """

    job: Indices
    cost: Floats
    change: Floats

    def first(self, number: int) -> "_Sides":
        """The best of them."""
        return _Sides(self.job[:number], self.cost[:number], self.change[:number])


def _sides(marginal: Marginal, sign: int, axis: int, *, with_free: bool) -> _Sides:
    cost = marginal.service[:, sign, axis] - marginal.now
    job, change = np.arange(cost.size), marginal.change[:, sign, axis]
    if with_free:
        job, cost = np.append(job, FREE), np.append(cost, 0.0)
        change = np.vstack([change, np.zeros(change.shape[1])])
    able = np.flatnonzero(np.isfinite(cost))
    order = able[np.argsort(cost[able], kind="stable")]
    return _Sides(job[order], cost[order], change[order])


def _best_pair(
    recipients: _Sides, donors: _Sides, left: Floats, below: float
) -> tuple[float, int, int] | None:
    """The least that a pair adds to the total, if below this, and the pair; None where none fits.

    Pairs of the best are tried first: with a pair that is no worse than any with somebody else
    could be, these need not be looked at.
    """
    width = FIRST_PAIRS
    while True:
        taker, giver = recipients.first(width), donors.first(width)
        total = taker.cost[:, None] + giver.cost
        fits = (taker.change[:, None] + giver.change <= left).all(axis=2)
        total = np.where(fits & (taker.job[:, None] != giver.job), total, np.inf)
        best = float(total.min(initial=np.inf))
        others = [
            one.cost[width] + other.cost[0]
            for one, other in ((recipients, donors), (donors, recipients))
            if one.cost.size > width and other.cost.size
        ]
        if min(best, below) <= min(others, default=np.inf):
            break
        width *= 4
    if not best < below:
        return None
    first, second = np.unravel_index(int(np.argmin(total)), total.shape)
    return best, int(taker.job[first]), int(giver.job[second])


def left_of(tables: Sequence[ServiceTable], cells: Sequence[Cell], capacity: Floats) -> Floats:
    """What nobody has of every resource.

    Raises
    ------
    ValueError
        If that is less than nothing.
    """
    taken = np.sum([table.demand[cell] for table, cell in zip(tables, cells, strict=True)], axis=0)
    left = np.asarray(capacity, dtype=float) * (1 + RESOURCE_TOLERANCE) + RESOURCE_TOLERANCE - taken
    if (left < 0).any():
        raise ValueError(
            f"The jobs take {taken.tolist()} of the resources; expected at most "
            f"{np.asarray(capacity).tolist()}."
        )
    return np.asarray(left)
