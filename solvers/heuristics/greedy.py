"""Greedy marginal gain: GPUs go, few at a time, where they add most to the objective."""

from __future__ import annotations

import heapq
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

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

    A job's best step is looked up in a heap and computed afresh when its turn comes: as GPUs
    are given away gains shrink, so that most entries stay where they are. Moving a job
    frees GPUs elsewhere; the heap is therefore filled again until a whole round brings nothing.
    """
    jobs = np.flatnonzero(~occupancy.instance.pinned).tolist()
    best_steps = BestSteps(occupancy)
    steps, before = 0, -1
    while steps > before:
        before = steps
        queue = [(-math.inf, job) for job in jobs]
        while queue:
            promised, job = heapq.heappop(queue)
            if deadline is not None and time.perf_counter() >= deadline:
                return steps
            step = best_steps.of(job)
            if step.slope == -math.inf:
                continue
            if -step.slope > promised and queue and (-step.slope, job) > queue[0]:
                heapq.heappush(queue, (-step.slope, job))
                continue
            best_steps.take(job, step)
            steps += 1
            heapq.heappush(queue, (-math.inf, job))
    return steps


class Step(NamedTuple):
    """Change of a job's row.

    Attributes
    ----------
    slope, gain
        Gain per further GPU, infinite where none is taken, -inf where nothing gains; and the gain.
    several, replicas
        Whether it takes several nodes, and how many GPUs.
    back
        Whether the job goes back to its current placement instead.
    """

    slope: float
    gain: float
    several: bool = False
    replicas: int = 0
    back: bool = False


class BestSteps:
    """Best step of every job, kept while neither the job's row nor its limits change.

    Parameters
    ----------
    occupancy
        The allocation under construction; only `take` may change it.
    """

    def __init__(self, occupancy: Occupancy) -> None:
        self.occupancy = occupancy
        #: Limits and step of every job in one flat tuple, which the garbage collector leaves alone.
        self._known: dict[int, tuple[Any, ...]] = {}
        #: Further GPUs of 0, 1, … replicas for the job that holds most, at least one.
        self._further = np.maximum(np.arange(1.0 - occupancy.width, occupancy.width), 1.0)

    def of(self, job: int) -> Step:
        """Return the step of greatest gain per further GPU.

        A step that gains and takes no further GPU comes before all others; among equal ones the
        greater gain does, then the first.
        """
        most, total = self.occupancy.limits(job)
        known = self._known.get(job)
        if known is not None and known[0] == most and known[1] == total:
            step = Step(*known[2:])
        else:
            step = self._computed(job, most, total)
            self._known[job] = (most, total, *step)
        return self._or_back(job, step)

    def _computed(self, job: int, most: int, total: int) -> Step:
        """Return the best step to another row of so many replicas on one node and on several."""
        occupancy = self.occupancy
        old, held = float(occupancy.merit[job]), int(occupancy.held[job])
        gains = occupancy.permitted_merit[job] - old
        gains[0, most + 1 :] = -np.inf
        gains[1, total + 1 :] = -np.inf
        slopes = gains / self._further[occupancy.width - 1 - held :][: occupancy.width]
        slopes[:, : held + 1] = np.inf
        slopes[gains <= ROUNDING * abs(old)] = -np.inf
        best = int(slopes.argmax())
        slope = slopes.item(best)
        if slope == -math.inf:
            return Step(slope, -math.inf)
        equal = (slopes == slope).nonzero()
        if equal[0].size > 1:
            best = int(gains[equal].argmax())
            best = int(equal[0][best] * occupancy.width + equal[1][best])
        several, replicas = divmod(best, occupancy.width)
        return Step(slope, gains.item(best), bool(several), replicas)

    def _or_back(self, job: int, step: Step) -> Step:
        """Return the step back to the job's current placement if it is better and possible."""
        occupancy = self.occupancy
        back = occupancy.current[job]
        if not back or back == occupancy.rows[job]:
            return step
        old = float(occupancy.merit[job])
        gain = float(occupancy.kept[job]) - old
        further = sum(gpus for _, gpus in back) - int(occupancy.held[job])
        slope = gain / further if further > 0 else math.inf
        if gain <= ROUNDING * abs(old) or (slope, gain) <= (step.slope, step.gain):
            return step
        return Step(slope, gain, back=True) if occupancy.fits(job, back) else step

    def take(self, job: int, step: Step) -> None:
        """Change a job's row by its best step."""
        occupancy = self.occupancy
        del self._known[job]
        row = occupancy.clear(job)
        if step.back:
            row = occupancy.current[job]
        elif step.several:
            row = occupancy.several_nodes_row(step.replicas)
        else:
            row = occupancy.one_node_row(step.replicas, row) if step.replicas else ()
        occupancy.put(job, row)
