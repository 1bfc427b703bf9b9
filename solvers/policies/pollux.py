"""Pollux as a policy: every round by any solver, or by its genetic algorithm.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.round.uncertain_instance import robust_instance
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.genetic.options import GeneticOptions
from goodalloc.solvers.interface.bounds import NO_BOUND, Bound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.decided_modes import with_shares
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.rules import Rules
    from goodalloc.models.round.uncertain_instance import Uncertainty
    from goodalloc.solvers.interface.base import Solver
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class Pollux:
    """Policy that maximises the fitness of every round by a solver; the exact one by default.

    Parameters
    ----------
    solver
        As in `goodalloc.solvers.certificates.solve.solve`: a name, a dotted path or a function.
    rules
        Objective and constraints.
    stop
        Limits of each round; when time runs out the best allocation so far is taken.
    seed
        Seed of a randomised solver; every round has its own.
    options
        Further options of the solver.
    weight
        Function that returns the weight of a job in the objective; None for weight 1.
    restart_delay
        Function that returns the believed cost of a job's restart in seconds; None for the rules'
        delay.
    proportional
        Whether every replica has a GPU's share of its node's cores, as under policies that know
        GPUs only.
    uncertainty
        Distribution of the true parameters around the fitted ones, over which speedups are
        averaged, or the least taken; None to believe the fitted ones.

    Examples
    --------
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.policies import Pollux
    >>> Pollux(solver="greedy", stop=Stop(seconds=1.0)).batch_sizes
    'goodput'
    """

    solver: str | Solver = "highs"
    rules: Rules = OSDI21
    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    weight: Callable[[ActiveJob], float] | None = None
    restart_delay: Callable[[ActiveJob], float | None] | None = None
    proportional: bool = False
    uncertainty: Uncertainty | None = None
    batch_sizes: BatchSizes = field(default="goodput", init=False)

    def decide(self, round_: Round) -> Decision:
        """Solve the round from where the jobs run now; they stay if the solver finds nothing."""
        if self.proportional:
            round_ = with_shares(round_)
        weight, delay = self.weight, self.restart_delay
        weights = {job.name: weight(job) for job in round_.jobs} if weight else None
        delays = {job.name: delay(job) for job in round_.jobs} if delay else None
        instance = round_.instance(self.rules, weights=weights, restart_delays=delays)
        if self.uncertainty:
            instance = robust_instance(instance, self.uncertainty)
        usable = not violations(instance, instance.current)
        result = solve(
            instance,
            self.solver,
            stop=self.stop,
            seed=round_seed(self.seed, round_.time),
            start=instance.current if usable else None,
            **self.options,
        )
        if result.allocation is None:
            return stay(round_)
        return decision_of(instance, result.allocation, Bound.of(result))


@dataclass
class PolluxGenetic:
    """Pollux as published: its genetic algorithm, started from the last round's population.

    The first population is the last round's non-dominated members in their modes, without the rows
    of jobs that are gone and with empty rows for new ones; in the first round the current
    placements alone.

    Parameters
    ----------
    rules
        Objective and constraints.
    population, generations
        Members and generations, 100 each as published.
    seed
        Seed of all random numbers; every round has its own.
    """

    rules: Rules = OSDI21
    population: int = 100
    generations: int = 100
    seed: int = 0
    batch_sizes: BatchSizes = field(default="goodput", init=False)
    members: tuple[Allocation, ...] = field(default=(), init=False, repr=False)
    _modes: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False)

    def decide(self, round_: Round) -> Decision:
        """Evolve the population of the last round; the fittest member decides."""
        from goodalloc.solvers.genetic.problem import carried_over
        from goodalloc.solvers.genetic.solver import evolve

        instance = round_.instance(self.rules)
        evolution = evolve(
            instance,
            seed=round_seed(self.seed, round_.time),
            generations=self.generations,
            warm_population=carried_over(self.members, self._modes, instance),
            options=GeneticOptions(self.population),
        )
        self.members = evolution.non_dominated()
        self._modes = {job.name: [mode.name for mode in job.all_modes] for job in instance.jobs}
        return decision_of(instance, evolution.best)


def pollux(
    rules: Rules,
    stop: Stop,
    seed: int,
    *,
    solver: str = "highs",
    changes: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Pollux:
    """Return Pollux by a solver, under rules that are changed in some fields."""
    return Pollux(solver, rules.replace(**(changes or {})), stop, seed, **arguments)


def pollux_remaining(rules: Rules, stop: Stop, seed: int) -> Pollux:
    """Return Pollux for the mean of speedup over remaining time.

    Examples
    --------
    >>> from goodalloc.models import OSDI21
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.policies import pollux_remaining
    >>> pollux_remaining(OSDI21, Stop(seconds=10.0), seed=0).rules.fair_share
    'one_gpu'
    """
    changes = {"fair_share": "one_gpu"}
    return pollux(rules, stop, seed, changes=changes, weight=shortest_remaining_time)


def shortest_remaining_time(job: ActiveJob) -> float:
    """Return one over the hours that a job still needs on one GPU, by the oracle.

    With p = 1 the objective then is the number of jobs that would end per hour; with p = -1 it is
    the total of the remaining times.
    """
    oracle = job.oracle
    return 3600.0 / (oracle.remaining_steps() * oracle.seconds_per_step(1, 1))


def decision_of(instance: Instance, allocation: Allocation, bound: Bound = NO_BOUND) -> Decision:
    """Return an allocation as a decision, with a bound on the objective if there is one."""
    placements = dict(
        zip((job.name for job in instance.jobs), allocation.placements(), strict=True)
    )
    modes = {
        job.name: job.modes[mode].name
        for job, mode in zip(instance.jobs, allocation.mode.tolist(), strict=True)
        if job.modes and placements[job.name]
    }
    return Decision(
        placements,
        instance=instance,
        bound=bound.value if math.isfinite(bound.value) else None,
        modes=modes,
        bound_source=bound.source,
        evidence=bound.evidence,
    )


def stay(round_: Round) -> Decision:
    """Return the decision that changes nothing."""
    return Decision(
        {job.name: job.placement for job in round_.jobs},
        modes={job.name: job.mode for job in round_.jobs if job.mode},
    )


def round_seed(seed: int, time: int) -> int:
    """Return a seed for one round that depends only on the policy's seed and the time."""
    return int(np.random.SeedSequence([seed, time]).generate_state(1)[0])
