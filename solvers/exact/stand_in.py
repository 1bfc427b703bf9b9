"""Heuristics that stand in for the exact solver where time does not suffice.

Under a limit the exact solver must not return a worse allocation than a heuristic that ends within
the same limit. So it stops while there is still time for them; where time is short from the outset
they come first and it gets the remaining time. Their time is estimated from the size of the round,
rather too long than too short.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.heuristics.greedy import solve_greedy
from goodalloc.solvers.heuristics.greedy_modes import mode_greedy, priced_greedy
from goodalloc.solvers.heuristics.rounding import round_and_place
from goodalloc.solvers.heuristics.sharing import knapsack_replicas
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance

#: Seconds of the greedy algorithm for a job, and the number of its starts where jobs run, …
SECONDS_A_JOB, STARTS = 1.5e-4, 3
#: … and, where jobs have modes, seconds for a job and for each node that it may go to, on one core.
SECONDS_A_JOB_WITH_MODES, SECONDS_A_NODE = 8e-4, 1.6e-5
#: The heuristics come first where less than this multiple of their time remains.
TIMES = 2.0
#: A search is begun after them if at least this multiple of their time remains.
WORTH_BEGINNING = 0.25
#: Seconds that they have after a limit in any case: few after a promised time.
FALL_BACK_SECONDS = {Limit.TIME: 0.3, Limit.INTERRUPTED: 3.0}


@dataclass(frozen=True)
class StandIn:
    """Heuristics for one solve.

    Parameters
    ----------
    instance, choices
        The round and the choices of its jobs.
    watch
        The clock of the whole solve.
    """

    instance: Instance
    choices: Choices
    watch: Watch

    @cached_property
    def seconds(self) -> float:
        """Estimated upper limit on the seconds of the greedy algorithm."""
        jobs, nodes = self.instance.num_jobs, self.instance.cluster.num_nodes
        if not self.instance.plain:
            return jobs * (SECONDS_A_JOB_WITH_MODES + SECONDS_A_NODE * nodes)
        return jobs * SECONDS_A_JOB * (STARTS if self.instance.current.job.size else 1)

    @cached_property
    def first(self) -> bool:
        """Whether there is too little time for anything before the heuristics."""
        return self.watch.left < TIMES * self.seconds

    def search_watch(self) -> Watch:
        """Return the clock of the exact search, which leaves the heuristics their time.

        Where the heuristics come first it is the remaining time, or none where that is too little
        to begin.
        """
        watch, limit = self.watch, self.watch.stop.seconds
        if limit is None:
            return watch
        if not self.first:
            return Watch(watch.stop.replace(seconds=limit - self.seconds), watch.begin)
        begin = watch.begin if watch.left >= WORTH_BEGINNING * self.seconds else -math.inf
        return Watch(watch.stop, begin, watch.interrupted)

    def before(self, known: Allocation | None) -> Allocation | None:
        """Return the best allocation of the heuristics, where the exact search comes after them.

        An allocation that the knapsack proves optimal needs no greedy algorithm. That one has a
        little more than the limit, so that it gets as far as it would alone; if it does not end,
        the allocation by prices is tried, too.

        Parameters
        ----------
        known
            An allocation that is known already.
        """
        least = FALL_BACK_SECONDS[Limit.TIME]
        try:
            best = self._better(known, self._rounded())
            if self._proved(best):
                return best
            end = time.perf_counter() + max(self.watch.left, 0.0) + least
            best = self._better(best, self._greedy(end - time.perf_counter()))
            cut_short = time.perf_counter() >= end
            if self.instance.plain or not (cut_short or self.watch.left > 0):
                return best
            return self._better(best, self._priced(max(self.watch.left, 0.0)))
        except KeyboardInterrupt:
            self.watch.interrupted = True
            return self._better(known, self._greedy(least))

    def after(self, known: Allocation | None, limit: Limit | None) -> Allocation | None:
        """Return the best allocation of the heuristics after an exact search without a proof.

        Parameters
        ----------
        known
            The allocation of the search.
        limit
            The limit that ended it.
        """
        least = FALL_BACK_SECONDS.get(limit or Limit.TIME, 0.0)
        seconds = max(self.watch.left, least) if limit is not Limit.INTERRUPTED else least
        end = time.perf_counter() + seconds
        greedy = self._greedy(seconds)
        best = self._better(self._better(known, self._rounded()), greedy)
        for begun in (greedy, best) if self.instance.plain else (greedy,):
            left = end - time.perf_counter()
            if 0 < left < math.inf:
                best = self._better(best, self._polished(begun, left))
        return best

    def _proved(self, allocation: Allocation | None) -> bool:
        """Return whether the knapsack alone proves an allocation optimal."""
        if allocation is None or not self.instance.plain:
            return False
        bound, value = knapsack_bound(self.instance), fitness(self.instance, allocation)
        return proves(bound, value, self.watch.stop.gap)

    def _rounded(self) -> Allocation | None:
        """Return an allocation with the knapsack's numbers of GPUs."""
        if not self.instance.plain:
            return None
        return round_and_place(self.instance, knapsack_replicas(self.instance))

    def _greedy(self, seconds: float) -> Allocation | None:
        """Return the greedy allocation."""
        if not self.instance.plain:
            end = time.perf_counter() + seconds
            return mode_greedy(self.instance, end, choices=self.choices)[0]
        stop = Stop(seconds=seconds if math.isfinite(seconds) else None)
        answer = solve_greedy(self.instance, stop=stop)
        self.watch.interrupted |= answer.limit is Limit.INTERRUPTED
        return answer.allocation

    def _priced(self, seconds: float) -> Allocation | None:
        """Return the allocation of jobs with modes by prices, which needs little time."""
        end = time.perf_counter() + seconds
        return priced_greedy(self.instance, end, choices=self.choices)[0]

    def _polished(self, begun: Allocation | None, seconds: float) -> Allocation | None:
        """Return an allocation improved by local search or, where jobs have modes, by prices."""
        if not self.instance.plain:
            return self._priced(seconds)
        from goodalloc.solvers.heuristics.local_search import solve_local_search

        stop = Stop(seconds=seconds)
        return solve_local_search(self.instance, stop=stop, start=begun).allocation

    def _better(self, one: Allocation | None, other: Allocation | None) -> Allocation | None:
        """Return the fitter of two allocations, the first of equals."""
        if one is None or other is None:
            return one or other
        return max(one, other, key=lambda found: fitness(self.instance, found))
