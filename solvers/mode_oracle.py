"""The aggregate as an oracle, for jobs that have modes: choose, pack, cut, until it packs.

The aggregate (`formulations/aggregate.py`) forgets the nodes and is easy; its value is a bound. If
its choices pack they are the optimum, proved. If not, the packing program gives a cut that they
violate and no allocation does; with it the aggregate is solved again. Cuts hold for every request,
so the oracle keeps them. What neither packs nor is cut off, because only whole numbers say no, is
left to the node-indexed program where that is small; elsewhere the best allocation found stands
beside the bound.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import highspy
import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.aggregate import build_aggregate
from goodalloc.formulations.choices import Choices
from goodalloc.formulations.node_program import build_node_program, decode_nodes
from goodalloc.formulations.patterns import Limit
from goodalloc.formulations.power_cost import power_cost
from goodalloc.formulations.program import Program
from goodalloc.formulations.resource_grid import ResourceGrid, resource_grid
from goodalloc.formulations.value_cut import Cut
from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.models.objective import utilities
from goodalloc.solvers.highs_program import Watch, new_solver, run_in_time, run_mixed_integer
from goodalloc.solvers.mode_packing import ModePacker
from goodalloc.solvers.oracle import Reply, Request, within
from goodalloc.solvers.packing_cut import CutFinder
from goodalloc.solvers.price_and_core import Decision, decide

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Times the aggregate is solved again with more cuts, for one request, …
MOST_ROUNDS = 50
#: … and its relaxation before each.
MOST_TIGHTENINGS = 20
#: Shares of everything that are left unused, one after the other, until what is chosen packs.
SPARE = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 0.75, 0.9)
#: Weights of the relaxation below this are none.
PRESENT = 1e-9
#: Largest node-indexed program, in columns, that is tried where cuts are not enough.
MOST_NODE_COLUMNS = 20_000
#: Costs are scaled so that the gap to close is this much, unless the largest then exceeds …
GAP_IN_PROGRAM, LARGEST_COST = 1e-5, 1e9


@dataclass
class ModeOracle:
    """Answers requests over one list of choices.

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
    _grid: ResourceGrid = field(init=False)
    _cuts: list[Cut] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._grid = resource_grid(self.instance)

    @cached_property
    def _packer(self) -> ModePacker:
        return ModePacker(self.instance, self._grid, self.watch)

    @cached_property
    def _finder(self) -> CutFinder:
        return CutFinder(self.instance, self.choices, self._grid, self.watch)

    def __call__(self, request: Request) -> Reply:
        """Minimise the request's cost."""
        try:
            return self._answer(request)
        except KeyboardInterrupt:
            self.watch.interrupted = True
            return Reply(None, -math.inf)

    def _answer(self, request: Request) -> Reply:
        allowed = ~request.forbidden(self.choices.utility)
        if np.bincount(self.choices.job[allowed], minlength=self.instance.num_jobs).min() == 0:
            return Reply(None, math.inf)
        task = _Task.of(request, self.choices, allowed)
        bound, best, best_cost = -math.inf, request.start, self._cost_of_start(request)
        for _ in range(MOST_ROUNDS):
            decision = self._decide(task, best_cost)
            bound = max(bound, decision.bound / task.scale)
            if best_cost - bound <= task.gap:
                return Reply(best, bound)
            if decision.values is None:
                return Reply(best if self.watch.limit is not None else None, bound)
            taken = task.taken(decision.values)
            allocation = self._packer.pack(self.choices.where(taken))
            if allocation is not None:
                return Reply(allocation, bound)
            cut = self._finder.find(np.bincount(taken, minlength=len(self.choices)).astype(float))
            if cut is not None:
                self._cuts.append(cut)
                self._tighten(task)
            if cut is None or self.watch.limit is not None:
                break
        found, cost = self._with_room(task, best_cost)
        best, best_cost = (found, cost) if cost < best_cost else (best, best_cost)
        if self.watch.limit is None and best_cost - bound > task.gap:
            allocation, limit = self._solve_by_node(task)
            if allocation is not None:
                return Reply(allocation, max(bound, limit / task.scale))
        return Reply(best, bound)

    def _with_room(self, task: "_Task", known: float) -> tuple[Allocation | None, float]:
        """An allocation that packs because it leaves a little unused, and its cost."""
        for spare in SPARE:
            if self.watch.limit is not None:
                break
            loose = max(task.gap, spare * self.instance.num_jobs)
            decision = self._decide(replace(task, gap=loose), math.inf, spare)
            if decision.values is None:
                break
            taken = task.taken(decision.values)
            cost = float(task.cost @ decision.values)
            if cost >= known:
                break
            allocation = self._packer.pack(self.choices.where(taken))
            if allocation is not None:
                return allocation, cost
        return None, math.inf

    def _program(self, task: "_Task", spare: float = 0.0) -> Program:
        """The aggregate with the cuts so far."""
        begin = self.watch.seconds
        cuts = [Cut(cut.coefficient[task.allowed], cut.upper) for cut in self._cuts]
        program = build_aggregate(
            self.instance, task.choices, task.cost * task.scale, limits=task.limits, cuts=cuts,
            spare=spare,
        )  # fmt: skip
        self.build_seconds += self.watch.seconds - begin
        return program

    def _tighten(self, task: "_Task") -> None:
        """Add cuts that the relaxation of the aggregate violates, until it packs in parts."""
        solver = new_solver(presolve="off", solver="simplex")
        solver.passModel(self._program(task).highs_model(relaxed=True))
        for _ in range(MOST_TIGHTENINGS):
            if not run_in_time(solver, self.watch):
                return
            if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return
            weight = np.zeros(len(self.choices))
            weight[task.allowed] = solver.getSolution().col_value
            cut = self._finder.find(np.where(weight > PRESENT, weight, 0.0))
            if cut is None:
                return
            self._cuts.append(cut)
            row = cut.coefficient[task.allowed]
            used = np.flatnonzero(row)
            solver.addRow(
                -highspy.kHighsInf, cut.upper, used.size, used.astype(np.int32), row[used]
            )

    def _decide(self, task: "_Task", known: float, spare: float = 0.0) -> Decision:
        """Decide the aggregate."""
        program = self._program(task, spare)
        priced = np.ones(program.num_columns, dtype=bool)
        decision = decide(
            program, priced, self.watch, gap=task.gap * task.scale,
            guide=_guide(task.choices) * task.scale, known=known * task.scale,
            exact=spare == 0.0,
        )  # fmt: skip
        self.nodes += decision.nodes
        return decision

    def _cost_of_start(self, request: Request) -> float:
        """What the start costs, infinity where there is none or it breaks a condition."""
        if request.start is None:
            return math.inf
        reached = utilities(self.instance, request.start)
        if request.forbidden(reached).any() or not within(reached, request.limits):
            return math.inf
        return float(np.sum(request.cost(reached)))

    def _solve_by_node(self, task: "_Task") -> tuple[Allocation | None, float]:
        """The last resort on few nodes: every node indexed; scaled cost and bound."""
        if len(task.choices) * self.instance.cluster.num_nodes > MOST_NODE_COLUMNS:
            return None, -math.inf
        program = build_node_program(
            self.instance, task.choices, task.cost * task.scale, limits=task.limits
        )
        outcome = run_mixed_integer(program.program, self.watch, gap=task.gap * task.scale)
        self.nodes += outcome.nodes
        if outcome.values is None:
            return None, outcome.bound
        return decode_nodes(self.instance, program, outcome.values), outcome.bound


@dataclass(frozen=True)
class _Task:
    """A request in the terms of the aggregate.

    Parameters
    ----------
    allowed, choices, cost
        Which choices are not forbidden, these choices, and the cost of each.
    limits
        Its rows over these choices.
    gap, scale
        Absolute gap in cost at which to stop, and what the program's costs are multiplied by.
    """

    allowed: Flags
    choices: Choices
    cost: Floats
    limits: tuple[Limit, ...]
    gap: float
    scale: float

    @classmethod
    def of(cls, request: Request, choices: Choices, allowed: Flags) -> "_Task":
        """The task that a request is, its costs scaled for the solver's tolerances."""
        choices = choices.where(allowed)
        cost = np.asarray(request.cost(choices.utility), dtype=float)
        gap = max(request.gap, 1e-12)
        scale = max(GAP_IN_PROGRAM / gap, 1.0)
        scale = min(scale, LARGEST_COST / max(float(np.abs(cost).max()), 1e-300))
        limits = tuple(
            ((choices.utility < row.below).astype(np.float64), float(row.jobs))
            for row in request.limits
        )
        return cls(allowed, choices, cost, limits, gap, scale)

    def taken(self, values: Floats) -> Indices:
        """The choices that a solution takes, as indices into all choices."""
        return np.flatnonzero(self.allowed)[values > 0.5]


def _guide(choices: Choices) -> Floats:
    """A cost that tells all choices apart, whatever the power: the harmonic mean's."""
    middle = float(np.exp(np.mean(np.log(choices.utility))))
    return power_cost(choices.utility, -1.0, middle)
