"""Base of the oracles that answer requests by a mixed-integer program over a list of choices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.certificates.certificate import Leaf
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.formulations.node_indexed.alike_nodes import told_apart
from goodalloc.formulations.node_indexed.node_program import build_node_program, decode_nodes
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import utilities
from goodalloc.models.support.tolerances import LEAST_GAP, SMALLEST_DIVISOR
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.power_mean.oracle import Reply, within

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.power_mean.oracle import Request


#: Costs are scaled so that the gap to close is this much, well above the solver's tolerances …
GAP_IN_PROGRAM = 1e-5
#: … unless that makes the largest cost larger than this.
LARGEST_COST = 1e9


@dataclass(frozen=True)
class Task:
    """Request in the terms of a program.

    Parameters
    ----------
    request
        The request.
    allowed, choices, cost
        Whether each choice is allowed, the allowed choices, and their costs.
    limits
        The request's rows over these choices.
    gap, scale
        Absolute gap in cost at which to stop, and the factor of the program's costs.
    known
        Cost of the request's start, infinite where there is none or it breaks a condition.
    """

    request: Request
    allowed: Flags
    choices: Choices
    cost: Floats
    limits: tuple[Limit, ...]
    gap: float
    scale: float
    known: float

    @property
    def scaled_cost(self) -> Floats:
        """Costs in the scale of the program."""
        return self.cost * self.scale

    @property
    def scaled_gap(self) -> float:
        """Gap in the scale of the program."""
        return self.gap * self.scale

    @property
    def guide(self) -> Floats:
        """Cost that separates all choices at any power: the harmonic mean's, scaled."""
        middle = float(np.exp(np.mean(np.log(self.choices.utility))))
        return power_cost(self.choices.utility, -1.0, middle) * self.scale

    def taken(self, values: Floats) -> Indices:
        """Return the choices that a solution takes, as indices into all choices."""
        return np.flatnonzero(self.allowed)[values > 0.5]


@dataclass
class ProgramOracle:
    """Oracle that answers requests over one list of choices.

    Parameters
    ----------
    instance, choices
        The round and the choices of its jobs.
    watch
        The clock of the whole solve.
    build_seconds, nodes
        Totals over all requests.
    proofs
        Proofs by the relaxations of requests that measure the fitness, in order.
    """

    instance: Instance
    choices: Choices
    watch: Watch
    build_seconds: float = 0.0
    nodes: int = 0
    proofs: list[Leaf] = field(default_factory=list)

    @cached_property
    def grid(self) -> ResourceGrid:
        """Units of the amounts of the round that can be tabulated."""
        return resource_grid(self.instance)

    def record(self, task: Task, prices: Prices) -> None:
        """Keep the prices of a task's relaxation, in the units of its program."""
        if task.request.measure is not None and not task.limits:
            self.proofs.append(Leaf(task.request.measure, prices.times(1.0 / task.scale)))

    def __call__(self, request: Request) -> Reply:
        """Minimise the request's cost, exactly unless time runs out or Ctrl-C is pressed."""
        try:
            allowed = ~request.forbidden(self.choices.utility)
            if np.bincount(self.choices.job[allowed], minlength=self.instance.num_jobs).min() == 0:
                return Reply(None, math.inf)
            return self.answer(self._task(request, allowed))
        except KeyboardInterrupt:
            self.watch.interrupted = True
            return Reply(None, -math.inf)

    def answer(self, task: Task) -> Reply:
        """Return the reply to a task."""
        raise NotImplementedError

    def solve_by_node(
        self, task: Task, most_branches: int | None = None
    ) -> tuple[Allocation | None, float]:
        """Return an allocation by the node-indexed program, and a scaled bound."""
        program = build_node_program(
            self.instance, task.choices, task.scaled_cost, limits=task.limits
        )
        outcome = run_mixed_integer(
            told_apart(self.instance, program),
            self.watch,
            gap=task.scaled_gap,
            most_branches=most_branches,
        )
        self.nodes += outcome.nodes
        if outcome.values is None:
            return None, outcome.bound
        allocation = decode_nodes(self.instance, program, outcome.values)
        # where amounts have no common unit, the solver's tolerance is larger than the checker's
        return None if violations(self.instance, allocation) else allocation, outcome.bound

    def _task(self, request: Request, allowed: Flags) -> Task:
        """Return a request as a task."""
        choices = self.choices.where(allowed)
        cost = np.asarray(request.cost(choices.utility), dtype=float)
        gap = max(request.gap, LEAST_GAP)
        scale = max(GAP_IN_PROGRAM / gap, 1.0)
        scale = min(scale, LARGEST_COST / max(float(np.abs(cost).max()), SMALLEST_DIVISOR))
        limits = tuple(
            ((choices.utility < row.below).astype(np.float64), float(row.jobs))
            for row in request.limits
        )
        known = self._cost_of(request, request.start)
        return Task(
            request=request,
            allowed=allowed,
            choices=choices,
            cost=cost,
            limits=limits,
            gap=gap,
            scale=scale,
            known=known,
        )

    def _cost_of(self, request: Request, allocation: Allocation | None) -> float:
        """Return an allocation's cost, infinite without one or if it breaks a condition."""
        if allocation is None:
            return math.inf
        reached = utilities(self.instance, allocation)
        if request.forbidden(reached).any() or not within(reached, request.limits):
            return math.inf
        return float(np.sum(request.cost(reached)))
