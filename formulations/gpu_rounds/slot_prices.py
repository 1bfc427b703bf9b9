r"""Prices of slots: a bound that knows which running jobs fill which node.

A *slot* of size *s* is *s* GPUs of one node. Some sizes, 1 among them, have a price
:math:`\mu_s \ge 0`. A piece of *k* GPUs of a node costs :math:`\pi_k(\mu)`, the prices of the slots
into which it is cut, each the largest that fits; and *f* GPUs of a node yield at most

.. math::

    \omega_f(\mu) = \max \{ \textstyle\sum_i \mu_{s_i} : \sum_i s_i \le f \}.              (1)

A job that is placed anew pays for its pieces. A job that stays on its one node pays nothing, but
leaves less of the node to others:

.. math::

    a_j(\mu) &= \min \{ c_j(0),\ c^1_j(k) + \pi_k(\mu),\ c^2_j(k) + \sigma_k(\mu),\
        c^{stay}_j + \textstyle\sum_i \pi_{k_i}(\mu) \}, \\
    \sigma_k(\mu) &= \min \{ \textstyle\sum_i \pi_{k_i}(\mu) : \sum_i k_i = k,
        \text{ at least two pieces} \},                                                    (2)

where the last choice of :math:`a_j` is to stay on several nodes, with :math:`k_i` GPUs of each. The
jobs :math:`R_v` that may stay on node *v* of :math:`G_v` GPUs hold :math:`g_j` of them, so that

.. math::

    D(\mu) = \sum_j a_j(\mu) - \sum_v \max_{T \subseteq R_v,\ g(T) \le G_v} \Big(
        \sum_{j \in T} (a_j(\mu) - c^{stay}_j) + \omega_{G_v - g(T)}(\mu) \Big)            (3)

is a lower bound on the total cost of every allocation, by weak duality: those that stay on node *v*
are some *T*, and the slots of the others on *v* fit into the rest of it. *D* is concave. At a price
of size 1 alone it is the bound of one price of a GPU (`knapsack.py`). It is higher where jobs need
several free GPUs of one node and running jobs would have to move for them. The rule against
interference and the most nodes of a job are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags, Floats, Indices

#: Jobs whose choices are priced at a time, few enough for the caches to help.
CHUNK = 16_384

#: What rounding may hide of the sums of (3), relative to the sizes of their terms.
ROUNDING = 2e-14


class SlotPrices(NamedTuple):
    """Sizes of slots, the first of them 1, and the price of each in costs; shapes (sizes,)."""

    sizes: Int[Indices, " sizes"]
    prices: Float[Floats, " sizes"]

    def pairs(self) -> list[tuple[int, float]]:
        """Return every size with its price."""
        return list(zip(self.sizes.tolist(), self.prices.tolist(), strict=True))


class SlotResponse(NamedTuple):
    """What jobs and nodes choose at some prices.

    Attributes
    ----------
    bound
        (3), less what rounding may hide.
    intercept, slope
        Plane above the bound: at any prices it is at most ``intercept + slope @ prices``.
    replicas
        GPUs that every job chooses, shape (jobs,).
    stays
        Jobs that choose to stay where they are, shape (jobs,).
    spread
        Jobs that choose several nodes anew, shape (jobs,).
    """

    bound: float
    intercept: float
    slope: Float[Floats, " sizes"]
    replicas: Int[Indices, " jobs"]
    stays: Bool[Flags, " jobs"]
    spread: Bool[Flags, " jobs"]


class _Near(NamedTuple):
    """Jobs that may stay on one node, in the order of their nodes; all of one shape."""

    job: Indices
    node: Indices
    gpus: Indices
    cost: Floats


class _Far(NamedTuple):
    """Jobs that may stay on several nodes, and how many pieces of 0, 1, … GPUs they hold there."""

    job: Indices
    gpus: Indices
    cost: Floats
    pieces: Floats


@dataclass(frozen=True, eq=False)
class SlotCosts:
    """Costs of the choices of all jobs, and the sizes of slots that have a price.

    Examples
    --------
    Two jobs run on a node each, of 2 GPUs, and a third needs both GPUs of one node. To move a job
    costs 1, and no GPU is scarce, but the third job cannot have its node without that:

    >>> import numpy as np
    >>> from goodalloc.formulations.gpu_rounds import SlotCosts
    >>> from goodalloc.models import Allocation
    >>> one = np.array([[9.0, 1.0, 1.0], [9.0, 1.0, 1.0], [9.0, 9.0, 0.0]])
    >>> now = Allocation.from_placements([((0, 1),), ((1, 1),), ()], num_nodes=2)
    >>> kept = np.array([0.0, 0.0, np.inf])
    >>> nodes, sizes = np.array([2, 2]), np.array([1, 2])
    >>> costs = SlotCosts.of(one, np.full((3, 3), np.inf), kept, now, nodes, sizes)
    >>> [abs(round(costs.respond(np.array([0.0, price])).bound, 9)) for price in (0.0, 0.5, 1.0)]
    [0.0, 0.5, 1.0]
    """

    one: Float[Floats, "jobs node_gpus+1"]
    several: Float[Floats, "jobs gpus"]
    near: _Near
    far: _Far
    node_gpus: Int[Indices, " nodes"]
    sizes: Int[Indices, " sizes"]

    @classmethod
    def of(
        cls,
        one: Float[Floats, "jobs node_gpus+1"],
        several: Float[Floats, "jobs gpus"],
        kept: Float[Floats, " jobs"],
        current: Allocation,
        node_gpus: Int[Indices, " nodes"],
        sizes: Int[Indices, " sizes"],
    ) -> SlotCosts:
        """Return the costs of a round.

        Parameters
        ----------
        one
            Cost of every job on *k* GPUs of one node placed anew, up to the most that a node has;
            of holding nothing at 0. Infinite where not allowed, as all costs.
        several
            Cost of every job on *k* GPUs of several nodes placed anew.
        kept
            Cost of every job where it is, infinite if it is nowhere.
        current
            The present placements.
        node_gpus
            GPUs of every node.
        sizes
            Sizes of slots that have a price, the first of them 1.
        """
        may = np.isfinite(kept) & (current.job_nodes > 0)
        first = np.searchsorted(current.job, np.arange(current.num_jobs))
        job = np.flatnonzero(may & (current.job_nodes == 1))
        node = current.node[first[job]]
        order = np.argsort(node, kind="stable")
        job, node = job[order], node[order]
        near = _Near(job, node, current.job_replicas[job], kept[job])
        job = np.flatnonzero(may & (current.job_nodes > 1))
        pieces = np.zeros((current.num_jobs, one.shape[1]))
        np.add.at(pieces, (current.job, current.replicas), 1.0)
        far = _Far(job, current.job_replicas[job], kept[job], pieces[job])
        return cls(one, several, near, far, node_gpus, sizes)

    def respond(self, prices: Float[Floats, " sizes"]) -> SlotResponse:
        """Return the bound at some prices, and what jobs and nodes choose.

        Parameters
        ----------
        prices
            Price of a slot of every size of `sizes`, at least 0.
        """
        cost, replicas, spread, demand = self._placed_anew(prices)
        far = self.far
        kept = far.cost + far.pieces @ self._cut @ prices
        keeps = kept < cost[far.job]
        job = far.job[keeps]
        cost[job], replicas[job], spread[job] = kept[keeps], far.gpus[keeps], False
        stays = np.zeros(cost.size, dtype=bool)
        stays[job], demand[job] = True, far.pieces[keeps] @ self._cut
        yielded, chosen, supply = self._nodes(cost, prices)
        job = self.near.job[chosen]
        stays[job], demand[job] = True, 0.0
        replicas[job], spread[job] = self.near.gpus[chosen], False
        value = float(cost.sum() - yielded.sum())
        size = float(abs(cost).sum() + yielded.sum())
        slope = demand.sum(axis=0) - supply
        intercept = value - float(slope @ prices)
        return SlotResponse(value - ROUNDING * size, intercept, slope, replicas, stays, spread)

    def sample(self, share: float, seed: int) -> SlotCosts:
        """Return a share of the nodes with those that may stay there, and of all other jobs.

        Parameters
        ----------
        share
            Probability of every node, and of every job that may stay on no single one.
        seed
            Seed of the draws.
        """
        random = np.random.default_rng(seed)
        nodes = random.random(self.node_gpus.size) < share
        jobs = random.random(len(self.one)) < share
        jobs[self.near.job] = nodes[self.near.node]
        new_node, new_job = np.cumsum(nodes) - 1, np.cumsum(jobs) - 1
        near, far = self.near, self.far
        at, of = nodes[near.node], jobs[far.job]
        return SlotCosts(
            self.one[jobs],
            self.several[jobs],
            _Near(new_job[near.job[at]], new_node[near.node[at]], near.gpus[at], near.cost[at]),
            _Far(new_job[far.job[of]], far.gpus[of], far.cost[of], far.pieces[of]),
            self.node_gpus[nodes],
            self.sizes,
        )

    @cached_property
    def _cut(self) -> Float[Floats, "node_gpus+1 sizes"]:
        """Slots of every size into which a piece of 0, 1, … GPUs is cut."""
        left = np.arange(self.one.shape[1])
        slots = np.zeros((left.size, self.sizes.size))
        for index in np.argsort(-self.sizes).tolist():
            slots[:, index], left = np.divmod(left, self.sizes[index])
        return slots

    def _placed_anew(self, prices: Floats) -> tuple[Floats, Indices, Flags, Floats]:
        """Return the least cost of every job that is placed anew, its GPUs, whether they are on
        several nodes, and the slots that it pays for, shape (jobs, sizes).
        """
        jobs, width = self.several.shape
        cut, piece = self._cut, self._cut @ prices
        paid, split = _splits(piece, cut, width)
        cost, replicas = np.empty(jobs), np.empty(jobs, dtype=np.int64)
        spread = np.empty(jobs, dtype=bool)
        for begin in range(0, jobs, CHUNK):
            part = slice(begin, begin + CHUNK)
            one, several = self.one[part] + piece, self.several[part] + paid
            best = np.argmin(one, axis=1), np.argmin(several, axis=1)
            found = (
                np.take_along_axis(one, best[0][:, None], axis=1)[:, 0],
                np.take_along_axis(several, best[1][:, None], axis=1)[:, 0],
            )
            spread[part] = found[1] < found[0]
            cost[part] = np.where(spread[part], found[1], found[0])
            replicas[part] = np.where(spread[part], best[1], best[0])
        demand = np.empty((jobs, prices.size))
        demand[spread], demand[~spread] = split[replicas[spread]], cut[replicas[~spread]]
        return cost, replicas, spread, demand

    def _nodes(self, cost: Floats, prices: Floats) -> tuple[Floats, Indices, Floats]:
        """Return what every node yields in (3), the positions of the jobs that stay there, and how
        many slots of every size are left in all.

        A dynamic program over the jobs of every node, for all nodes at once.
        """
        near, largest = self.near, self.one.shape[1] - 1
        gained = cost[near.job] - near.cost
        worth, slots = _contents(self.sizes, prices, largest + 1)
        nodes = self.node_gpus.size
        best = np.full((nodes, largest + 1), -np.inf)  # by the GPUs of those that stay
        best[:, 0] = 0.0
        taken = []
        for at in self._turns:
            node, gpus = near.node[at], near.gpus[at]
            before = best[node]
            rest = np.arange(largest + 1) - gpus[:, None]
            with_job = np.take_along_axis(before, np.maximum(rest, 0), axis=1) + gained[at, None]
            takes = (rest >= 0) & (with_job > before)
            best[node] = np.where(takes, with_job, before)
            taken.append(takes)
        left = self.node_gpus[:, None] - np.arange(largest + 1)
        total = np.where(left >= 0, best + worth[np.maximum(left, 0)], -np.inf)
        used = np.argmax(total, axis=1)
        everyone = np.arange(nodes)
        greatest, supply = total[everyone, used], slots[self.node_gpus - used].sum(axis=0)
        staying = []
        for at, takes in zip(reversed(self._turns), reversed(taken), strict=True):
            node = near.node[at]
            stays = takes[np.arange(at.size), used[node]]
            used[node[stays]] -= near.gpus[at[stays]]
            staying.append(at[stays])
        return greatest, np.concatenate([np.zeros(0, dtype=np.int64), *staying]), supply

    @cached_property
    def _turns(self) -> list[Indices]:
        """Positions of the jobs that may stay: the first of every node, the second, and so on."""
        node = self.near.node
        turn = np.arange(node.size) - np.searchsorted(node, node)
        order = np.argsort(turn, kind="stable")
        return np.split(order, np.cumsum(np.bincount(turn))[:-1]) if node.size else []


def _contents(sizes: Indices, prices: Floats, width: int) -> tuple[Floats, Floats]:
    """Return (1) of 0, 1, … GPUs, and the slots of every size that attain it."""
    worth, slots = np.zeros(width), np.zeros((width, sizes.size))
    for gpus in range(1, width):
        within = np.flatnonzero(sizes <= gpus)
        reached = worth[gpus - sizes[within]] + prices[within]
        best = int(np.argmax(reached))
        worth[gpus], slots[gpus] = reached[best], slots[gpus - sizes[within[best]]]
        slots[gpus, within[best]] += 1.0
    return worth, slots


def _splits(piece: Floats, cut: Floats, width: int) -> tuple[Floats, Floats]:
    """Return (2) of 0, 1, … GPUs, 0 where there are fewer than two, and the slots paid for."""
    price, most = piece.tolist(), piece.size - 1
    slots = np.zeros((width, cut.shape[1]))  # of the cheapest pieces, of which there may be one
    split, paid, least = slots.copy(), np.zeros(width), [0.0]
    for gpus in range(1, width):
        reached = [price[first] + least[gpus - first] for first in range(1, min(gpus, most) + 1)]
        best = min(range(len(reached)), key=reached.__getitem__)
        least.append(reached[best])
        slots[gpus] = cut[best + 1] + slots[gpus - best - 1]
        several = reached[: gpus - 1]  # without the piece of all
        if several:
            best = min(range(len(several)), key=several.__getitem__)
            paid[gpus], split[gpus] = several[best], cut[best + 1] + slots[gpus - best - 1]
    return paid, split
