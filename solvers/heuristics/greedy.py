"""Greedy marginal gain: GPUs go, few at a time, where they add most to the objective."""

from __future__ import annotations

import heapq
import math
import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.objective import fitness, utility_table
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.heuristics.greedy_modes import mode_greedy
from goodalloc.solvers.heuristics.occupancy import Occupancy
from goodalloc.solvers.interface.result import Answer, Incumbent, Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation, Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def solve_greedy(
    instance: Instance, *, stop: Stop | None = None, seed: int = 0, start: Allocation | None = None
) -> Answer:
    """Allocate by greatest marginal gain from several starts, and take the best.

    The job that gains most in the objective per GPU, by any number of further GPUs that fits, gets
    them next; a job may move to where more fits, and back to its current placement if that is free.
    There are three starts: nothing runs; every job runs where it does; only those jobs run that
    could be placed nowhere better. There is no randomness; ties go to the earlier job.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the time; the allocation at the limit, or at Ctrl-C, is returned.
    seed
        Not used.
    start
        An allocation to extend too.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import solve_greedy
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> solve_greedy(instance).allocation.placements()
    [((0, 2),)]
    """
    del seed
    begin, stop = time.perf_counter(), stop or Stop()
    deadline = None if stop.seconds is None else begin + stop.seconds
    if not instance.plain:
        found, steps = mode_greedy(instance, math.inf if deadline is None else deadline)
        late = deadline is not None and time.perf_counter() >= deadline
        return Answer(found, limit=Limit.TIME if late else None, iterations=steps)
    best, best_fitness, steps = None, -np.inf, 0
    history: list[Incumbent] = []
    limit: Limit | None = None
    for placements in _starts(instance, start):
        occupancy = Occupancy(instance, placements)
        try:
            steps += extend(occupancy, deadline)
        except KeyboardInterrupt:
            limit, deadline = Limit.INTERRUPTED, begin  # no step more, from no start
        found = occupancy.allocation()
        value = fitness(instance, found)
        if value > best_fitness:
            best, best_fitness = found, value
            history.append(Incumbent(time.perf_counter() - begin, steps, value))
    if limit is None and deadline is not None and time.perf_counter() >= deadline:
        limit = Limit.TIME
    return Answer(best, limit=limit, history=tuple(history), iterations=steps)


def _starts(instance: Instance, start: Allocation | None) -> list[list[Placement]]:
    """Return the placements to start from."""
    nothing: list[Placement] = [()] * instance.num_jobs
    if not any(job.placement for job in instance.jobs):
        return [nothing] if start is None else [nothing, start.placements()]
    running = [job.placement for job in instance.jobs]
    table = utility_table(instance)
    settled = table.kept >= table.moved.max(axis=(1, 2))
    staying = [row if stays else () for row, stays in zip(running, settled, strict=True)]
    starts = [nothing, running, staying]
    return starts if start is None else [*starts, start.placements()]


def extend(occupancy: Occupancy, deadline: float | None = None) -> int:
    """Give out free GPUs by greatest marginal gain until nothing gains; return the number of steps.

    A job's best gain is looked up in a heap and computed afresh when its turn comes: as GPUs
    are given away gains shrink, so that most entries stay where they are. Moving a job
    frees GPUs elsewhere; the heap is therefore filled again until a whole round brings nothing.
    """
    jobs = np.flatnonzero(~occupancy.instance.pinned).tolist()
    steps, before = 0, -1
    while steps > before:
        before = steps
        queue = [(-np.inf, job) for job in jobs]
        while queue:
            promised, job = heapq.heappop(queue)
            if deadline is not None and time.perf_counter() >= deadline:
                return steps
            slope, row = best_step(occupancy, job)
            if row is None:
                continue
            if -slope > promised and queue and (-slope, job) > queue[0]:
                heapq.heappush(queue, (-slope, job))
                continue
            occupancy.clear(job)
            occupancy.put(job, row)
            steps += 1
            heapq.heappush(queue, (-np.inf, job))
    return steps


def best_step(occupancy: Occupancy, job: int) -> tuple[float, Placement | None]:
    """Return the greatest gain per further GPU of a job, and its row; None if nothing gains.

    A step that gains and takes no further GPU comes before all others.
    """
    old = occupancy.merit[job]
    row = occupancy.clear(job)
    held = sum(gpus for _, gpus in row)
    one, many = occupancy.options(job)
    gains = np.stack([one, many]) - old
    further = np.arange(occupancy.width) - held
    # free steps are ranked among themselves: far above all others, the greater gain first
    with np.errstate(invalid="ignore"):
        slopes = np.where(further > 0, gains / np.maximum(further, 1), np.inf)
    slopes = np.where(gains > ROUNDING * abs(old), slopes, -np.inf)
    spread, replicas = np.unravel_index(_first_best(slopes, gains), slopes.shape)
    best, gain = float(slopes[spread, replicas]), float(gains[spread, replicas])
    found: Placement | None = None
    if best > -np.inf:
        found = (
            occupancy.several_nodes_row(int(replicas))
            if spread
            else occupancy.one_node_row(int(replicas), row)
            if replicas
            else ()
        )
    back = occupancy.current[job]
    if back and back != row and occupancy.fits(job, back):
        gained = occupancy.kept[job] - old
        more = sum(gpus for _, gpus in back) - held
        slope = gained / more if more > 0 else np.inf
        if gained > ROUNDING * abs(old) and (slope, gained) > (best, gain):
            best, found = float(slope), back
    occupancy.put(job, row)
    return best, found


def _first_best(slopes: Floats, gains: Floats) -> int:
    """Return the index of the largest slope; of equals, the largest gain, then the first."""
    best = np.flatnonzero(slopes == slopes.max())
    return int(best[np.argmax(gains.reshape(-1)[best])])
