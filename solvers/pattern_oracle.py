"""The pattern program as an oracle: what `hierarchy` asks, answered by prices and a core."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.node_program import build_node_program, decode_nodes
from goodalloc.formulations.packing import pack
from goodalloc.formulations.patterns import Limit, build_patterns
from goodalloc.formulations.power_cost import power_cost
from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.models.objective import utilities
from goodalloc.solvers.highs_program import Watch, run_mixed_integer
from goodalloc.solvers.oracle import Reply, Request, within
from goodalloc.solvers.place import place
from goodalloc.solvers.price_and_core import decide

Floats = NDArray[np.float64]

#: Costs are scaled so that the gap to close is this much, well above the solver's tolerances …
GAP_IN_PROGRAM = 1e-5
#: … unless that makes the largest cost larger than this.
LARGEST_COST = 1e9


@dataclass
class PatternOracle:
    """Answers requests with the pattern program over one list of choices.

    Parameters
    ----------
    instance, choices
        The round and what its jobs may do.
    watch
        The clock of the whole solve.
    build_seconds, nodes
        Counted over all requests.
    """

    instance: Instance
    choices: Choices
    watch: Watch
    build_seconds: float = 0.0
    nodes: int = 0

    def __call__(self, request: Request) -> Reply:
        """Minimise the request's cost; exact unless time runs out or Ctrl-C is pressed."""
        try:
            return self._answer(request)
        except KeyboardInterrupt:
            self.watch.interrupted = True
            return Reply(None, -math.inf)

    def _answer(self, request: Request) -> Reply:
        allowed = ~request.forbidden(self.choices.utility)
        if np.bincount(self.choices.job[allowed], minlength=self.instance.num_jobs).min() == 0:
            return Reply(None, math.inf)
        choices = self.choices.where(allowed)
        cost = np.asarray(request.cost(choices.utility), dtype=float)
        gap = max(request.gap, 1e-12)
        scale = max(GAP_IN_PROGRAM / gap, 1.0)
        scale = min(scale, LARGEST_COST / max(float(np.abs(cost).max()), 1e-300))
        limits = tuple(
            ((choices.utility < row.below).astype(np.float64), float(row.jobs))
            for row in request.limits
        )
        bound, known = -math.inf, self._cost_of_start(request)
        for exact in (False, True):
            allocation, found = self._solve(choices, cost, scale, limits, gap, known, exact=exact)
            bound = max(bound, found)
            if known - bound <= gap:
                return Reply(request.start, bound)
            if allocation is not None or self.watch.limit or bound == math.inf:
                return Reply(allocation, bound)
        allocation, found = self._solve_by_node(choices, cost * scale, limits, gap * scale)
        return Reply(allocation, max(bound, found / scale))

    def _cost_of_start(self, request: Request) -> float:
        """What the start costs, infinity where there is none or it breaks a condition."""
        if request.start is None:
            return math.inf
        reached = utilities(self.instance, request.start)
        if request.forbidden(reached).any() or not within(reached, request.limits):
            return math.inf
        return float(np.sum(request.cost(reached)))

    def _solve(
        self, choices: Choices, cost: Floats, scale: float, limits: tuple[Limit, ...], gap: float,
        known: float, *, exact: bool,
    ) -> tuple[Allocation | None, float]:  # fmt: skip
        """An optimal allocation and its bound; None where the pieces do not split into jobs."""
        begin = self.watch.seconds
        patterns = build_patterns(self.instance, choices, cost * scale, limits=limits, exact=exact)
        priced = np.ones(patterns.program.num_columns, dtype=bool)
        priced[: len(choices)] = choices.kind != Kind.SEVERAL_NODES
        self.build_seconds += self.watch.seconds - begin
        guide = np.zeros(patterns.program.num_columns)
        guide[: len(choices)] = _guide(choices) * scale
        decision = decide(
            patterns.program, priced, self.watch, gap=gap * scale, guide=guide, known=known * scale
        )
        self.nodes += decision.nodes
        if decision.values is None:
            return None, decision.bound / scale
        allocation = pack(self.instance, patterns, decision.values)
        if allocation is None:
            taken = choices.where(np.flatnonzero(decision.values[: len(choices)] > 0.5))
            allocation = place(self.instance, taken, self.watch)
        return allocation, decision.bound / scale

    def _solve_by_node(
        self, choices: Choices, cost: Floats, limits: tuple[Limit, ...], gap: float
    ) -> tuple[Allocation | None, float]:
        """The last resort on few nodes: every node indexed."""
        program = build_node_program(self.instance, choices, cost, limits=limits)
        outcome = run_mixed_integer(program.program, self.watch, gap=gap)
        self.nodes += outcome.nodes
        if outcome.values is None:
            return None, outcome.bound
        return decode_nodes(self.instance, program, outcome.values), outcome.bound


def _guide(choices: Choices) -> Floats:
    """A cost that tells all choices apart, whatever the power: the harmonic mean's."""
    middle = float(np.exp(np.mean(np.log(choices.utility))))
    return power_cost(choices.utility, -1.0, middle)
