"""Local search: improvement of an allocation by moves that keep it feasible."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Placement
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.requirements import require_plain
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.heuristics.greedy import solve_greedy
from goodalloc.solvers.heuristics.occupancy import Occupancy
from goodalloc.solvers.interface.result import Answer, Incumbent, Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats

Changes = dict[int, Placement]


def solve_local_search(
    instance: Instance, *, stop: Stop | None = None, seed: int = 0, start: Allocation | None = None
) -> Answer:
    """Improve an allocation until no move does: deterministic, anytime.

    Job after job, pass after pass: the job takes the best row that fits, its current placement
    included (`Occupancy.reseat`); or takes a row that others free by shrinking, stopping or moving
    (`EvictionPrices`); or swaps rows with another job. A move is made if it raises the objective.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the search, Ctrl-C as well; an iteration is a pass over all jobs.
    seed
        Not used.
    start
        The allocation to polish; without it, that of the greedy algorithm. Rows that break a rule
        are left out.

    Raises
    ------
    ValueError
        If jobs have modes.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import solve_local_search
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> solve_local_search(instance, start=Allocation.from_matrix([[1]])).allocation.placements()
    [((0, 2),)]
    """
    del seed
    require_plain(instance)
    begin, stop = time.perf_counter(), stop or Stop()
    reached: Limit | None = None
    if start is None:
        greedy = solve_greedy(instance, stop=stop)
        start, reached = greedy.require_allocation(), greedy.limit
    occupancy = Occupancy(instance, start.placements())
    best = start if not violations(instance, start) else occupancy.allocation()
    best_fitness = fitness(instance, best)
    history = [Incumbent(time.perf_counter() - begin, 0, best_fitness)]
    passes, stale = 0, 0
    try:
        while reached is None:
            moves = improve(occupancy, begin, stop.seconds)
            passes += 1
            found = occupancy.allocation()
            value, seconds = fitness(instance, found), time.perf_counter() - begin
            stale = 0 if value > best_fitness else stale + 1
            if value > best_fitness:
                best, best_fitness = found, value
                history.append(Incumbent(seconds, passes, value))
            reached = stop.reached(seconds=seconds, iterations=passes, stale=stale)
            if moves == 0:
                break
    except KeyboardInterrupt:
        reached = Limit.INTERRUPTED
        best = max(best, occupancy.allocation(), key=lambda found: fitness(instance, found))
    return Answer(best, limit=reached, history=tuple(history), iterations=passes)


def improve(occupancy: Occupancy, begin: float = 0.0, seconds: float | None = None) -> int:
    """Pass over all jobs, the worst off first, and return the number of moves made."""
    pinned = occupancy.instance.pinned
    prices = EvictionPrices(occupancy)
    moves = 0
    for job in np.argsort(occupancy.merit, kind="stable").tolist():
        if pinned[job]:
            continue
        if seconds is not None and time.perf_counter() - begin >= seconds:
            break
        before = occupancy.rows[job]
        occupancy.reseat(job)
        if occupancy.rows[job] != before:
            prices.refresh(before, occupancy.rows[job])
            moves += 1
        moves += _evict(occupancy, prices, job)
        moves += _swap(occupancy, prices, job)
    return moves


class EvictionPrices:
    """Cost of freeing GPUs on a node: the merit that its jobs lose by shrinking or going.

    `price[node, d]` is the least loss that frees *d* GPUs beyond those that are free, and infinite
    where that is impossible: a small dynamic program over the jobs of the node. A job that gives up
    all its GPUs there is assumed to move to the node with the most free GPUs, if that is better.
    """

    def __init__(self, occupancy: Occupancy) -> None:
        self.occupancy = occupancy
        self.depth = int(occupancy.free.max(initial=0) + occupancy.held.max(initial=0))
        self.depth = int(min(self.depth, occupancy.instance.cluster.node_gpus.max()))
        self.price = np.full((occupancy.free.size, self.depth + 1), np.inf)
        self.plan: list[list[Changes]] = [[] for _ in occupancy.free]
        rising = np.where(occupancy.permitted, occupancy.moved[:, 0], -np.inf)
        rising[:, 0] = occupancy.moved[:, 0, 0]
        self.elsewhere = np.maximum.accumulate(rising, axis=1)
        for node in range(occupancy.free.size):
            self._compute(node)

    def refresh(self, *rows: Placement) -> None:
        """Recompute the prices of the nodes of these rows."""
        for node in {node for row in rows for node, _ in row}:
            self._compute(node)

    def _compute(self, node: int) -> None:
        occupancy = self.occupancy
        price = [0.0] + [np.inf] * self.depth
        plan: list[Changes] = [{} for _ in price]
        for job in sorted(occupancy.residents[node]):
            if occupancy.instance.pinned[job]:
                continue
            concessions = self._concessions(node, job)
            for amount in range(self.depth, 0, -1):
                for given, loss, row in concessions:
                    base = max(amount - given, 0)
                    if price[base] + loss < price[amount]:
                        price[amount] = price[base] + loss
                        plan[amount] = plan[base] | {job: row}
        self.price[node], self.plan[node] = price, plan

    def _concessions(self, node: int, job: int) -> list[tuple[int, float, Placement]]:
        """Return the options of a job on a node: GPUs freed, loss of merit, remaining row."""
        occupancy, row = self.occupancy, self.occupancy.rows[job]
        old, here = float(occupancy.merit[job]), occupancy.residents[node][job]
        found: list[tuple[int, float, Placement]] = []
        for given in range(1, here + 1):
            rest = tuple((n, g - given * (n == node)) for n, g in row if n != node or g > given)
            replicas = sum(gpus for _, gpus in rest)
            if replicas and occupancy.permitted[job, replicas]:
                found.append((given, old - occupancy.value(job, rest), rest))
        free = occupancy.free
        most = max(int(free[:node].max(initial=0)), int(free[node + 1 :].max(initial=0)))
        best = float(self.elsewhere[job, min(most, occupancy.width - 1)])
        found.append((here, old - best, ()))
        return found


def _evict(occupancy: Occupancy, prices: EvictionPrices, job: int) -> int:
    """Let a job take the row of greatest value net of the losses of others; return 1 if it did."""
    old = float(occupancy.merit[job])
    row = occupancy.clear(job)
    prices.refresh(row)
    replicas = np.arange(1, prices.depth + 1)
    value = np.full(prices.depth, -np.inf)
    known = replicas < occupancy.width
    fits = occupancy.permitted[job, replicas[known]]
    value[known] = np.where(fits, occupancy.moved[job, 0, replicas[known]], -np.inf)
    lacking = np.maximum(replicas - occupancy.free[:, None], 0)
    beyond = replicas > occupancy.instance.cluster.node_gpus[:, None]
    loss = np.where(beyond, np.inf, np.take_along_axis(prices.price, lacking, axis=1))
    gain = value - loss - old
    node, choice = np.unravel_index(int(np.argmax(gain)), gain.shape)
    wanted: Placement = ((int(node), int(replicas[choice])),)
    best, back = float(gain[node, choice]), occupancy.current[job]
    if back and (gained := _price_of_return(occupancy, prices, job, back) - old) > best:
        wanted, best = back, gained
    occupancy.put(job, row)
    if not best > ROUNDING * abs(old):
        prices.refresh(row)
        return 0
    changes: Changes = {}
    for place, gpus in wanted:
        amount = gpus - int(occupancy.free[place]) - occupancy.residents[place].get(job, 0)
        changes |= prices.plan[place][max(amount, 0)]
    done = _attempt(occupancy, changes, job, wanted, prices)
    prices.refresh(row)
    return done


def _price_of_return(
    occupancy: Occupancy, prices: EvictionPrices, job: int, back: Placement
) -> float:
    """Return the merit of a job's current placement less what others would lose for it."""
    several = len(back) > 1
    replicas = sum(gpus for _, gpus in back)
    if replicas >= occupancy.width or not occupancy.permitted[job, replicas]:
        return -np.inf
    if len(back) > occupancy.max_nodes:
        return -np.inf
    total = float(occupancy.kept[job])
    for node, gpus in back:
        if several and occupancy.exclusive and occupancy.distributed[node]:
            return -np.inf
        lacking = max(gpus - int(occupancy.free[node]), 0)
        total -= float(prices.price[node, lacking]) if lacking <= prices.depth else np.inf
    return total


def _attempt(
    occupancy: Occupancy, changes: Changes, job: int, wanted: Placement, prices: EvictionPrices
) -> int:
    """Shrink others, place the job, let the losers resettle; undo it unless all gain together."""
    involved = [job, *changes]
    before = {member: occupancy.rows[member] for member in involved}
    merit = {member: float(occupancy.merit[member]) for member in involved}
    for member in involved:
        occupancy.clear(member)
    for member, row in changes.items():
        occupancy.put(member, row)
    improved = occupancy.fits(job, wanted)
    if improved:
        occupancy.put(job, wanted)
        for member in changes:
            occupancy.reseat(member)
        gain = sum(float(occupancy.merit[member]) - merit[member] for member in involved)
        improved = gain > ROUNDING * max(abs(value) for value in merit.values())
    if not improved:
        for member in involved:
            occupancy.clear(member)
        for member, row in before.items():
            occupancy.put(member, row)
        return 0
    prices.refresh(*before.values(), *(occupancy.rows[member] for member in involved))
    return 1


def _swap(occupancy: Occupancy, prices: EvictionPrices, job: int) -> int:
    """Let a job swap rows with the one where both together gain most; return 1 if it did."""
    held, spread, moved = occupancy.held, occupancy.spread, occupancy.moved
    jobs = np.arange(held.size)
    gain: Floats = moved[job, spread, held] + moved[jobs, spread[job], held[job]]
    gain = gain - occupancy.merit[job] - occupancy.merit
    allowed = (occupancy.permitted[job, held] | (held == 0)) & (
        occupancy.permitted[:, held[job]] | (held[job] == 0)
    )
    allowed &= ~occupancy.instance.pinned & (jobs != job)
    gain = np.where(allowed, gain, -np.inf)
    other = int(np.argmax(gain))
    scale = max(abs(float(occupancy.merit[job])), abs(float(occupancy.merit[other])))
    if not gain[other] > ROUNDING * scale:
        return 0
    mine, theirs = occupancy.clear(job), occupancy.clear(other)
    occupancy.put(job, theirs)
    occupancy.put(other, mine)
    prices.refresh(mine, theirs)
    return 1
