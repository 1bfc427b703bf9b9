r"""Rounds of jobs with execution plans, decided exactly.

Every job holds one configuration: a type and a number of GPUs, with its fastest plan there. The
power mean of the jobs' speeds is largest where

.. math::

    \min_x \sum_j \sum_c \kappa(s_{jc} + \varepsilon)\, x_{jc} \quad \text{s.t.} \quad
    \sum_c x_{jc} = 1 \;\; \forall j, \qquad \sum_{jc} K_{ct} x_{jc} \le G_t \;\; \forall t   (1)

with the cost of the power mean :math:`\kappa` (`formulations/basics/power_mean_cost.py`) of speed
and floor, and the GPUs :math:`K_{ct}` of a configuration. Nodes are not in it: configurations are
powers of two, parts of one node or whole nodes, which fit whenever their sum does. It is Sia's
program (`formulations/sia_and_synergy/sia.py`), solved by prices and exchanges.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import cost_gap, fitness_from_cost, power_cost
from goodalloc.models.plans.plan_job import PlanRestarts, plan_violations
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.support.validation import require_number
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.exchange_core import decide_configurations
from goodalloc.solvers.plans.plan_choices import SLACK, enumerate_plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.plans.plan_choices import PlanChoices, Unit

#: Relative gap at which a decision counts as optimal.
GAP = 1e-6

#: Restarts that cost nothing.
FREE = PlanRestarts(0.0, 0.0)


class PlanAnswer(NamedTuple):
    """Decision of a round with its proof.

    Attributes
    ----------
    decision
        What every job holds that runs; it has passed `plan_violations`.
    fitness
        Power mean of the jobs' speeds, those that hold nothing included.
    bound
        Upper bound on it.
    seconds
        Time of the decision.
    """

    decision: dict[str, Configuration]
    fitness: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Relative gap, ``1 - fitness / bound``."""
        return max(1.0 - self.fitness / self.bound, 0.0)


def solve_plans(
    round_: PlanRound,
    *,
    power: float = -1.0,
    floor: float = 1e-3,
    unit: Unit = "request",
    restarts: PlanRestarts = FREE,
    weights: Sequence[float] = (),
    guaranteed: bool = False,
    gap: float = GAP,
    stop: Stop | None = None,
) -> PlanAnswer:
    """Decide a round exactly.

    Parameters
    ----------
    round_
        The round, of at least one job.
    power
        Power of the mean, from -1 to 1.
    floor
        Added to every speed, so that a job that holds nothing counts; above 0.
    unit
        Unit of the speeds.
    restarts
        Cost of another configuration.
    weights
        Multiply the speeds of the jobs; none for 1.
    guaranteed
        Whether a job that starts is at least as fast as requested, and is not stopped (Rubick).
    gap
        Relative gap at which to stop.
    stop
        Limit of time; when it runs out, the best decision so far.

    Raises
    ------
    ValueError
        If the power or the floor is out of range, or there is no job.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, PlanJob, PlanRound, PlanState, Training
    >>> from goodalloc.solvers.plans import solve_plans
    >>> one, two = Configuration("a100", 1), Configuration("a100", 2)
    >>> bert, moe = Training("bert", "1.3B", 128), Training("moe", "1.3B", 256)
    >>> jobs = (
    ...     PlanState(PlanJob("a", bert, 0.0, 9.0, one), {one: 1.0, two: 1.9}, None, 9.0, 0.0, -1),
    ...     PlanState(PlanJob("b", moe, 0.0, 9.0, one), {one: 1.0, two: 1.2}, None, 9.0, 0.0, -1),
    ... )
    >>> answer = solve_plans(PlanRound(0.0, {"a100": 3}, jobs))
    >>> {name: held.gpus for name, held in answer.decision.items()}, answer.gap < 1e-6
    ({'a': 2, 'b': 1}, True)
    """
    require_number("Plans: power", power)
    require_number("Plans: floor", floor, minimum=0.0, strict=True)
    if not -1.0 <= power <= 1.0:
        raise ValueError(f"Plans: power is {power:g}; expected from -1 to 1.")
    if not round_.jobs:
        raise ValueError("Plans: the round has no jobs; expected at least one.")
    begin = time.perf_counter()
    choices = enumerate_plans(round_, restarts, unit)
    if guaranteed:
        choices = choices.where(_guaranteed(round_, choices))
    factors = np.ones(len(round_.jobs)) if not len(weights) else np.asarray(weights, dtype=float)
    utility = choices.speed * factors[choices.job] + floor
    reference = float(np.median(np.maximum.reduceat(utility, choices.begins)))
    cost = power_cost(utility, power, reference)
    absolute = cost_gap(gap, len(round_.jobs), power)
    taken, bound = _minimised(round_, choices, cost, absolute, stop)
    decision = _read(round_, choices, taken)
    if broken := plan_violations(round_, decision):
        raise AssertionError(f"The decision breaks a rule: {broken[0]}")
    value = float(power_mean(utility[taken], power))
    most = fitness_from_cost(bound, len(round_.jobs), power, reference)
    return PlanAnswer(decision, value, max(most, value), time.perf_counter() - begin)


def _minimised(
    round_: PlanRound,
    choices: PlanChoices,
    cost: Floats,
    gap: float,
    stop: Stop | None,
) -> tuple[Indices, float]:
    """Return the taken choices of least cost, as indices, and a lower bound on the cost."""
    capacity = np.array([*round_.capacity.values()])
    found = decide_configurations(
        choices.job, cost, choices.demand[:, :-1], capacity, Watch(stop or Stop()), gap=gap
    )
    if found.values is None:
        return _staying(round_, choices), found.bound
    return np.flatnonzero(found.values > 0.5), found.bound


def _guaranteed(round_: PlanRound, choices: PlanChoices) -> Indices:
    """Return the choices as fast as requested, what is held, and waiting for those that wait."""
    kept = []
    for index, (job, one) in enumerate(zip(choices.job, choices.configuration, strict=True)):
        state = round_.jobs[job]
        fast = one is not None and state.speeds[one] >= state.requested_speed * (1.0 - SLACK)
        if fast or one == state.held:
            kept.append(index)
    return np.array(kept, dtype=np.int64)


def _staying(round_: PlanRound, choices: PlanChoices) -> Indices:
    """Return the choices of jobs that all keep what they hold."""
    held = [state.held for state in round_.jobs]
    kept = [one == held[job] for job, one in zip(choices.job, choices.configuration, strict=True)]
    return np.flatnonzero(kept)


def _read(round_: PlanRound, choices: PlanChoices, taken: Indices) -> dict[str, Configuration]:
    """Return what every job holds that runs, by name."""
    found = {}
    for index in taken.tolist():
        one = choices.configuration[index]
        if one is not None:
            found[round_.jobs[choices.job[index]].job.name] = one
    return found


@dataclass
class ExactPlans:
    """Policy that decides every round exactly.

    Parameters
    ----------
    power, floor, unit, guaranteed
        As of `solve_plans`.
    restarts
        Believed cost of another configuration.
    remaining
        Whether a job counts by the inverse of the hours that remain to it as requested, which a
        scheduler can only be told: then short jobs come first.
    answers
        Answers of all rounds so far.

    Examples
    --------
    >>> from goodalloc.solvers.plans import ExactPlans
    >>> ExactPlans(power=1.0, unit="examples").answers
    []
    """

    power: float = -1.0
    floor: float = 1e-3
    unit: Unit = "request"
    restarts: PlanRestarts = FREE
    remaining: bool = False
    guaranteed: bool = False
    answers: list[PlanAnswer] = field(default_factory=list, init=False, repr=False)

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        weights: list[float] = []
        if self.remaining:
            hours = [state.left / state.requested_speed / 3600.0 for state in round_.jobs]
            weights = [1.0 / max(one, 1e-2) for one in hours]
        answer = solve_plans(
            round_,
            power=self.power,
            floor=self.floor,
            unit=self.unit,
            restarts=self.restarts,
            weights=weights,
            guaranteed=self.guaranteed,
        )
        self.answers.append(answer)
        return answer.decision
