r"""Allocations of rounds of modes repaired where they lose most against the bound.

At the prices of the bound, (1) of `node_stays.py`, what an allocation costs more than the bound is
a sum of losses, none below 0: of a job, what its cost and payment are above the least; of a node,
what its contents are worth less than the best ones. (Where units are not exact the bound is none,
and losses are guesses.) The nodes that lose most are emptied, with as many others, and all their
jobs are placed anew, as in the whole round; what is no better is undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.mode_columns.leftovers import Leftovers
from goodalloc.solvers.mode_columns.node_filling import NodeFilling
from goodalloc.solvers.mode_columns.node_stays import NodeWorth
from goodalloc.solvers.mode_columns.node_worth import unit_prices, with_node_worth
from goodalloc.solvers.mode_columns.stay_search import StayRound
from goodalloc.solvers.mode_columns.whole_jobs import taken_choices, whole_jobs
from goodalloc.solvers.mode_columns.worth_search import PoolSearch

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.columns.utilities_by_mode import ModeColumnUtilities
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses
    from goodalloc.solvers.mode_columns.stay_search import ProvenCost, Settled

#: Share of the losses that the nodes have that are emptied, as far as they are not too many: a
#: share of all nodes, and a number.
COVERED, OF_NODES, MOST_NODES = 0.97, 0.2, 500

#: Nodes that lose at least in a repair, as far as there are as many.
LEAST_NODES = 4

#: Repairs at most, and those in a row that fail.
MOST_REPAIRS, FAILURES = 12, 4

#: Mean loss of the jobs below which nothing is repaired, and loss of a job without GPUs below which
#: it is not placed anew.
ENOUGH, SMALL_LOSS = 5e-5, 1e-5

#: Times that what stays is thought over in a repair, and cost of a job by which prices may fall
#: short there: they prove nothing.
STAY_ROUNDS, PRICE_GAP = 3, 2e-4


class Losses(NamedTuple):
    """What an allocation costs more than the bound: by node and by job."""

    node: Float[Floats, " nodes"]
    job: Float[Floats, " jobs"]


@dataclass(frozen=True)
class Repairs:
    """Repairs of allocations of a round.

    Parameters
    ----------
    utilities
        Utilities of the round.
    classes
        Classes of all jobs, without further pools.
    units
        Units of the round.
    proven
        The bound.
    watch
        The clock of the solve.
    """

    utilities: ModeColumnUtilities
    classes: PricedClasses
    units: NodeUnits
    proven: ProvenCost
    watch: Watch

    def placed(self, settled: Settled) -> NodeFilling:
        """Return placements of all jobs, those that move where the others leave room."""
        filling, movers, pools, _ = settled
        classes, prices = pools.classes, pools.best.prices
        if movers.size:
            taken = taken_choices(classes, pools.best, self.watch)
            positions, choices = whole_jobs(classes, taken, prices), classes.choices
            own = choices.job_class
            mode, several, replicas = choices.decode(choices.code[choices.kind[own], positions])
            filling.mode[movers], filling.replicas[movers] = mode, replicas
            worth = np.zeros(choices.columns.num_jobs)
            worth[movers] = classes.demand_of(own, positions) @ prices
            some, apart = replicas > 0, several > 0
            filling.fill(movers[some & ~apart], movers[some & apart], worth, self.watch)
        every = with_node_worth(self.classes, self.units, pools.worths)
        leftovers = Leftovers(self.utilities, every, prices, filling)
        leftovers.place()
        leftovers.use()
        return filling

    def repaired(self, filling: NodeFilling) -> NodeFilling:
        """Return placements that are no worse."""
        value = self.utilities.fitness(filling.allocation())
        random, failed = np.random.default_rng(0), 0
        for _ in range(MOST_REPAIRS):
            losses = self.losses(filling)
            lost = losses.node.sum() + losses.job.sum()
            if failed == FAILURES or lost <= ENOUGH * losses.job.size:
                break
            jobs = self._jobs(filling, losses, failed, random)
            trial = filling.copy()
            trial.remove(jobs)
            part = StayRound(self.classes.of_jobs(jobs), jobs, trial)
            known = list(self.proven.worths), self.proven.prices
            pooled = self.classes.choices.demand.shape[1]
            search = PoolSearch(self.units, self.watch, float(jobs.size), pooled, *known)
            trial = self.placed(part.settled(search, STAY_ROUNDS, PRICE_GAP))
            reached = self.utilities.fitness(trial.allocation())
            failed = 0 if reached > value else failed + 1
            if reached > value:
                filling, value = trial, reached
        return filling

    def _jobs(
        self, filling: NodeFilling, losses: Losses, failed: int, random: np.random.Generator
    ) -> Int[Indices, " some"]:
        """Return the jobs to be placed anew: those on nodes that lose, and on as many others.

        After repairs that failed these are fewer nodes.
        """
        job, node, *_ = filling.pieces
        pieces = np.bincount(job, minlength=losses.job.size)
        loss = losses.node.copy()
        np.add.at(loss, node, losses.job[job] / pieces[job])
        order = np.argsort(-loss, kind="stable")
        total = np.cumsum(loss[order])
        number = 1 + int(np.searchsorted(total, COVERED * total.max()))
        number = min(number, 1 + int(OF_NODES * order.size), MOST_NODES)
        number = max(number >> failed, min(number, LEAST_NODES))
        chosen = np.zeros(loss.size, dtype=bool)
        chosen[order[:number]] = True
        chosen[random.permutation(order[number:])[:number]] = True
        some = np.zeros(losses.job.size, dtype=bool)
        some[job[chosen[node]]] = True
        some[(pieces == 0) & (losses.job > SMALL_LOSS)] = True
        return np.flatnonzero(some)

    @cached_property
    def _best(self) -> tuple[Floats, Floats]:
        """Least cost and price of every job but to stay on its one node, and greatest value of
        every node.
        """
        everyone = np.arange(self.classes.choices.columns.num_jobs)
        nothing = NodeFilling(self.units, np.zeros_like(everyone), np.zeros_like(everyone))
        best = StayRound(self.classes, everyone, nothing).best(
            self.proven.prices, self.proven.worths
        )
        return best.least, best.value

    def losses(self, filling: NodeFilling) -> Losses:
        """Return the losses of placements."""
        least, value = self._best
        units, columns = self.units, self.classes.choices.columns
        pooled = self.classes.choices.demand.shape[1]
        worth = NodeWorth(units, self.proven.worths, self.proven.prices[pooled:])
        price, alone = unit_prices(units, self.proven.prices[:pooled])
        job, node, replicas, apart = filling.pieces
        taken = units.taken(filling.mode[job], replicas)
        linear = (taken * price[units.node_type[node]]).sum(axis=1)
        linear += np.where(apart, alone[units.node_type[node]], 0.0)
        allocation = filling.allocation()
        stays = allocation.unchanged(columns.current) & (allocation.job_nodes == 1)
        cost = self.classes.cost_of_utility(self.utilities.of(allocation))
        pays = np.where(stays[job], 0.0, worth.of_pieces(node, taken, apart))
        paid = np.bincount(job, pays + linear, minlength=least.size)
        lost = np.where(stays, 0.0, cost + paid - least)
        gain = np.where(stays, least - cost - paid, 0.0)
        full = (units.capacity * price[units.node_type]).sum(axis=1) + alone[units.node_type]
        yields = np.bincount(node, pays + linear + gain[job], minlength=value.size)
        return Losses(value + full - yields, lost)
