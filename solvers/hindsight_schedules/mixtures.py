r"""Cheapest mixture of whole schedules: what prices of given intervals can prove at most.

A bound by prices (`formulations/hindsight/price_bound.py`) is a dual of the linear program over all
schedules of every job alone (Dantzig and Wolfe 1960),

.. math:: \min \sum_j \sum_\sigma w_j (C_\sigma - r_j) x_{j \sigma}, \quad
    \sum_\sigma x_{j \sigma} = 1, \quad
    \sum_j \sum_\sigma k_{\sigma i} x_{j \sigma} \le G_i, \quad x \ge 0                       (1)

where schedule :math:`\sigma` holds :math:`k_{\sigma i}` GPU-seconds in interval *i*, of
:math:`G_i` that are there. With some of the schedules its optimum is greater, and for all prices
that are constant in the intervals

.. math:: \sum_j \min_\sigma \Bigl[ w_j (C_\sigma - r_j) + \sum_i \lambda_i k_{\sigma i} \Bigr]
    - \sum_i \lambda_i G_i                                                                    (2)

is at most that, in particular every bound of prices that relaxes these schedules. So the optimum
tells how much better such prices can be at most, which the search for them does not. Prices of
shorter intervals can prove more.

Schedules are added as they come to be cheapest (`cheapest_schedules.py`), at prices between the
best ones so far and the dual ones of (1), which by themselves oscillate (Wentges 1997).

References
----------
Dantzig and Wolfe, "Decomposition principle for linear programs", Operations Research 8, 1960.
    doi:10.1287/opre.8.1.101
Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming", International
    Transactions in Operational Research 4, 1997. doi:10.1016/S0969-6016(97)00001-4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np

from goodalloc.models.support.validation import real_array, require_count, require_number
from goodalloc.solvers.hindsight_schedules.cheapest_schedules import CheapestSchedules
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import new_solver, run_in_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight_schedules.cheapest_schedules import LoneSchedules

#: Share of the best prices so far in those at which schedules are added.
CENTRED = 0.85

#: Factors of the first prices at which there are schedules from the start.
AROUND = (1.0, 0.5, 0.7, 0.85, 1.2, 1.5, 2.0)

#: Distance of (1) and (2), in (1), at which both are as good as equal.
CLOSE = 2e-3

#: Most steps, in each of which every job gets a schedule.
STEPS = 100

NO_LIMIT = Stop()


@dataclass(frozen=True)
class Mixture:
    """Cheapest mixture of the schedules that are known.

    Parameters
    ----------
    value
        Optimum of (1). No prices of the intervals make (2), or a bound that relaxes the schedules,
        greater.
    priced
        The greatest value of (2) with the schedules that were found for its prices. They are close
        to the cheapest, so that prices prove about as much, or a little less.
    prices
        Prices at which it was found; shape (intervals, prices).
    steps
        Number of steps that were taken.
    """

    value: float
    priced: float
    prices: Float[Floats, "intervals prices"]
    steps: int


def cheapest_mixture(
    problem: OfflineProblem,
    rounds: Rounds,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals types"],
    *,
    per_node: int | None = None,
    steps: int = STEPS,
    close: float = CLOSE,
    stop: Stop = NO_LIMIT,
    report: Callable[[float], None] = lambda _share: None,
) -> Mixture:
    """Return the cheapest mixture of schedules in rounds, which no prices of the intervals exceed.

    Rounds without restarts make schedules for which every bound on all schedules holds, too; the
    shorter they are, the nearer the mixture is to the cheapest one without rounds.

    Parameters
    ----------
    problem
        The problem.
    rounds
        Rounds of its schedules, with restarts.
    edges
        Seconds between intervals of constant prices, each a whole number of rounds long.
    prices
        Price of a GPU-second of every type in every interval, from which the search starts.
    per_node
        GPUs of a node. The mixture then takes no more GPUs of nodes (`of_nodes`) than there are
        GPUs, and no bound of such intervals exceeds it that has a price of them, too.
    steps
        Most steps.
    close
        Distance of the value of the mixture and that of its prices, relative to the former, at
        which the search ends.
    stop
        Limits; at the first of them the mixture so far is returned.
    report
        Callback for the share of the steps that are done.

    Raises
    ------
    ValueError
        If no restart is told for a training, the edges do not ascend from 0 by whole rounds, a
        price is missing, negative or not finite, or another number makes no sense.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
    >>> from goodalloc.solvers.hindsight_schedules import cheapest_mixture
    >>> training = Training("one", np.array([60.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> edges = np.array([0.0, 60.0, 120.0, 180.0])
    >>> found = cheapest_mixture(problem, Rounds(60.0, {"one": 0.0}), edges, np.ones((3, 1)))
    >>> round(found.value, 6)  # one after the other
    180.0
    """
    require_count("Mixture: steps", steps, 1)
    require_number("Mixture: close", close, minimum=0.0)
    watch = Watch(stop)
    cheapest = CheapestSchedules(problem, rounds, edges, per_node=per_node)
    there = problem.supply.mean(edges) * np.diff(edges)[:, None]
    prices = real_array("Mixture: prices", prices, there.shape)
    if per_node is not None:
        there = np.concatenate([there, there], axis=1)
        prices = np.concatenate([prices, np.zeros_like(prices)], axis=1)
    program, idle = _Program(len(problem.jobs), there, watch), cheapest.idle()
    program.add(idle)
    value, priced, best = float(idle.costs.sum()), -np.inf, prices
    step, tried = 0, [factor * prices for factor in AROUND]
    for step in range(steps + 1):
        for now in tried:
            schedules = cheapest.at(now)
            program.add(schedules)
            total = schedules.total(now, there)
            priced, best = max((priced, best), (total, now), key=lambda pair: pair[0])
            if watch.limit is not None:
                break
        solved = program.solve()
        if solved is None:
            break
        value, dual = solved
        report(step / steps)
        if value - priced <= close * value or step == steps or watch.limit is not None:
            break
        tried = [CENTRED * best + (1.0 - CENTRED) * dual]
    report(1.0)
    return Mixture(value, priced, best, step)


class _Program:
    """Program (1), to which schedules are added."""

    def __init__(self, jobs: int, there: Float[Floats, "intervals prices"], watch: Watch) -> None:
        self._jobs, self._there, self._watch = jobs, there, watch
        self._solver, none = new_solver(presolve="off", solver="simplex"), np.zeros(0, np.int32)
        for _ in range(jobs):
            self._solver.addRow(1.0, 1.0, 0, none, np.zeros(0))
        for amount in there.ravel().tolist():
            self._solver.addRow(-highspy.kHighsInf, amount, 0, none, np.zeros(0))
        self._known: set[bytes] = set()

    def add(self, schedules: LoneSchedules) -> None:
        """Add a schedule of every job, but for those that are known."""
        for job, (cost, taken) in enumerate(zip(schedules.costs, schedules.taken, strict=True)):
            rows = np.flatnonzero(taken)
            index = np.append(job, self._jobs + rows).astype(np.int32)
            value = np.append(1.0, taken.ravel()[rows])
            told = index.tobytes() + value.tobytes() + np.array(cost).tobytes()
            if told not in self._known:
                self._known.add(told)
                self._solver.addCol(float(cost), 0.0, highspy.kHighsInf, index.size, index, value)

    def solve(self) -> tuple[float, Float[Floats, "intervals prices"]] | None:
        """Return the optimum and the dual prices of the GPUs; None at a limit."""
        optimal = highspy.HighsModelStatus.kOptimal
        if not run_in_time(self._solver, self._watch) or self._solver.getModelStatus() != optimal:
            return None
        dual = np.array(self._solver.getSolution().row_dual)[-self._there.size :]
        value = float(self._solver.getInfo().objective_function_value)
        return value, np.maximum(-dual, 0.0).reshape(self._there.shape)
