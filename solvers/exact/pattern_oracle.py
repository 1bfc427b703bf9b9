"""Oracle over the pattern program: requests of `hierarchy`, answered by prices and a core."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.dual_prices import pattern_prices
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.packing import pack
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.solvers.exact.placement import place
from goodalloc.solvers.milp.price_and_core import decide
from goodalloc.solvers.power_mean.oracle import Reply
from goodalloc.solvers.power_mean.program_oracle import ProgramOracle

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.solvers.power_mean.program_oracle import Task


@dataclass
class PatternOracle(ProgramOracle):
    """Oracle that answers requests with the pattern program."""

    def answer(self, task: Task) -> Reply:
        """Decide a task, with pieces of equal jobs together, then apart, then node by node."""
        bound = -math.inf
        for exact in (False, True):
            allocation, found = self._solve(task, exact=exact)
            bound = max(bound, found)
            if task.known - bound <= task.gap:
                return Reply(task.request.start, bound)
            if allocation is not None or self.watch.limit or bound == math.inf:
                return Reply(allocation, bound)
        allocation, found = self.solve_by_node(task)
        return Reply(allocation, max(bound, found / task.scale))

    def _solve(self, task: Task, *, exact: bool) -> tuple[Allocation | None, float]:
        """Return an optimal allocation, or None where the pieces do not split, and a bound."""
        begin, choices = self.watch.seconds, task.choices
        patterns = build_patterns(
            self.instance, choices, task.scaled_cost, limits=task.limits, exact=exact
        )
        priced = np.ones(patterns.program.num_columns, dtype=bool)
        priced[: len(choices)] = choices.kind != Kind.SEVERAL_NODES
        self.build_seconds += self.watch.seconds - begin
        guide = np.zeros(patterns.program.num_columns)
        guide[: len(choices)] = task.guide
        decision = decide(
            patterns.program,
            priced,
            self.watch,
            gap=task.scaled_gap,
            guide=guide,
            known=task.known * task.scale,
            presolve=True,
        )
        self.nodes += decision.nodes
        if decision.duals is not None:
            prices = pattern_prices(self.instance, patterns, self.grid, decision.duals)
            self.record(task, prices)
        if decision.values is None:
            return None, decision.bound / task.scale
        allocation = pack(self.instance, patterns, decision.values)
        if allocation is None:
            taken = choices.where(np.flatnonzero(decision.values[: len(choices)] > 0.5))
            allocation = place(self.instance, taken, self.watch)
        return allocation, decision.bound / task.scale
