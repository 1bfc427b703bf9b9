"""Jobs without a place, and room without a job, once most of a round of modes is placed.

A job without a place takes the choice of least cost and price that fits on some node; or a job on a
node changes its mode so that both fit, where that is less. At last, jobs take what is left beside
them where that helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.mode_columns.node_filling import NOWHERE

if TYPE_CHECKING:
    from goodalloc.models.columns.utilities_by_mode import ModeColumnUtilities
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.mode_columns.node_filling import NodeFilling
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses

#: Nodes on which an exchange is tried for a job, those with most room.
MOST_NODES = 64

#: Jobs that were to get nothing to which free GPUs are offered.
MOST_IDLE = 256


class _Ways(NamedTuple):
    """Ways of jobs to run on one node: job, mode, replicas, cost, price, and units."""

    job: Indices
    mode: Indices
    replicas: Indices
    cost: Floats
    price: Floats
    units: Indices


class _Exchange(NamedTuple):
    """Way of a job without a place, its node, and the new way of another job there."""

    way: int
    node: int
    other: int
    mode: int
    replicas: int


@dataclass(frozen=True)
class Leftovers:
    """What is left of a round.

    Parameters
    ----------
    utilities
        Utilities of the round.
    classes
        Costs of the choices of all jobs.
    prices
        Prices of the pools.
    filling
        The placements, which change.
    """

    utilities: ModeColumnUtilities
    classes: PricedClasses
    prices: Floats
    filling: NodeFilling

    def place(self) -> None:
        """Place the jobs that have no place yet, then some that were to get nothing.

        Those that find no place get nothing.
        """
        filling = self.filling
        waiting = filling.unplaced
        filling.replicas[waiting] = 0
        for job in waiting.tolist():
            self._place(job)
        idle = np.flatnonzero(filling.replicas == 0)
        for job in idle[: min(int(filling.free[:, 0].sum()), MOST_IDLE)].tolist():
            self._place(job)

    def _place(self, job: int) -> None:
        """Give a job the best place that is better than none, alone or by an exchange.

        What makes that worth while are costs; of several ways prices decide, too, so that others
        find a place as well.
        """
        filling, ways = self.filling, self._ways(np.array([job]))
        nodes = filling.fullest(ways.mode, ways.replicas)
        may = (nodes != NOWHERE) & (ways.cost < self._idle_cost)
        totals = np.where(may, ways.cost + ways.price, np.inf)
        exchange = self._exchange(ways, float(totals.min(initial=np.inf)))
        if exchange is not None:
            self._change(exchange.other, exchange.mode, exchange.replicas)
            way, node = exchange.way, exchange.node
        elif may.any():
            way = int(np.argmin(totals))
            node = int(nodes[way])
        else:
            return
        filling.mode[job], filling.replicas[job] = ways.mode[way], ways.replicas[way]
        filling.put(np.array([job]), np.array([node]))

    @property
    def _idle_cost(self) -> float:
        """Cost of a job that holds nothing."""
        idle = np.array([self.utilities.columns.rules.idle])
        return float(self.classes.cost_of_utility(idle)[0])

    def _exchange(self, ways: _Ways, limit: float) -> _Exchange | None:
        """Return the best exchange of which cost and price are below a limit, if there is one."""
        filling = self.filling
        room = (filling.free / filling.units.size).sum(axis=1)
        nodes = np.argsort(-room, kind="stable")[:MOST_NODES]
        others = np.flatnonzero(np.isin(filling.where, nodes))
        new = self._ways(others)
        if not ways.job.size or not new.job.size:
            return None
        at, node = np.searchsorted(others, new.job), filling.where[new.job]
        costs = new.cost - self._present_cost(others)[at]
        prices = new.price - self._present_price(others)[at]
        own = filling.taken(others)
        room = filling.free[node] + own[at] - new.units
        here = filling.units.node_type[node]
        least = limit - ROUNDING * (1.0 + abs(limit)) if np.isfinite(limit) else limit
        found = None
        for way, units in enumerate(ways.units):
            fits = (room >= units).all(axis=1) & (filling.units.mode_type[new.mode] == here)
            fits &= here == filling.units.mode_type[ways.mode[way]]
            cost = costs + ways.cost[way]
            fits &= cost < self._idle_cost
            total = np.where(fits, cost + prices + ways.price[way], np.inf)
            first = int(np.argmin(total))
            if total[first] < least:
                least = float(total[first])
                columns = (node, new.job, new.mode, new.replicas)
                found = _Exchange(way, *(int(column[first]) for column in columns))
        return found

    def use(self) -> None:
        """Let jobs of one node take what is free beside them, the greatest gain of a node first."""
        filling = self.filling
        jobs = np.flatnonzero(filling.where != NOWHERE)
        jobs = jobs[(filling.free[filling.where[jobs]] > 0).any(axis=1)]
        while jobs.size:
            ways, now = self._ways(jobs), self._present_cost(jobs)
            own = filling.taken(jobs)
            at, node = np.searchsorted(jobs, ways.job), filling.where[ways.job]
            fits = (filling.free[node] + own[at] >= ways.units).all(axis=1)
            fits &= filling.units.mode_type[ways.mode] == filling.units.node_type[node]
            gain = now[at] - ways.cost
            useful = np.flatnonzero(fits & (gain > ROUNDING * (1.0 + np.abs(now[at]))))
            order = useful[np.argsort(-gain[useful], kind="stable")]
            changed, first = np.unique(node[order], return_index=True)
            for way in order[first].tolist():
                self._change(int(ways.job[way]), int(ways.mode[way]), int(ways.replicas[way]))
            jobs = jobs[np.isin(filling.where[jobs], changed)]

    def _change(self, job: int, mode: int, replicas: int) -> None:
        """Let a job run otherwise on its node."""
        filling, one = self.filling, np.array([job])
        node = filling.where[one]
        filling.free[node] += filling.taken(one)
        filling.mode[job], filling.replicas[job] = mode, replicas
        filling.put(one, node)

    def _ways(self, jobs: Indices) -> _Ways:
        """Return the ways to run on one node that some jobs have."""
        choices = self.classes.choices
        own = choices.job_class[jobs]
        length = choices.choices_of[own] - 1  # without the one to hold nothing
        row = np.repeat(np.arange(jobs.size), length)
        position = np.arange(row.size) - np.repeat(np.cumsum(length) - length, length) + 1
        mode, several, replicas = choices.decode(choices.code[choices.kind[own[row]], position])
        one = several == 0
        row, position, mode, replicas = row[one], position[one], mode[one], replicas[one]
        own = own[row]
        cost = self.classes.cost_of(own, position)
        price = self.classes.demand_of(own, position) @ self.prices
        taken = self.filling.units.taken(mode, replicas)
        return _Ways(jobs[row], mode, replicas, cost, price, taken)

    def _present_price(self, jobs: Indices) -> Floats:
        """Return the prices of what jobs of one node take now."""
        filling, choices = self.filling, self.classes.choices
        code = choices.code_of(filling.mode[jobs], filling.replicas[jobs])
        return np.asarray(choices.demand[code] @ self.prices)

    def _present_cost(self, jobs: Indices) -> Floats:
        """Return the costs of jobs of one node as they are placed now."""
        filling, utilities = self.filling, self.utilities
        columns, current = utilities.columns, utilities.columns.current
        mode, replicas = filling.mode[jobs], filling.replicas[jobs]
        speedup = utilities.speedup[columns.kind[jobs], mode, 0, replicas]
        anew = utilities.factor[jobs] * speedup + columns.rules.floor
        stays = filling.units.node_now[jobs] == filling.where[jobs]
        stays &= current.job_nodes[jobs] == 1
        stays &= (current.mode[jobs] == mode) & (current.job_replicas[jobs] == replicas)
        utility = np.where(stays, utilities.kept[jobs], np.maximum(anew, columns.least_utility))
        return self.classes.cost_of_utility(utility)
