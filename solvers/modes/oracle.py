"""Aggregate as an oracle, for jobs with modes: choose, pack, cut, until the choices pack.

The aggregate (`formulations/mode_rounds/aggregate.py`) ignores the nodes and is easy; its value is
a bound. If its choices pack they are the optimum, proved. If not, the packing program gives a cut
that they violate and no allocation does; with it the aggregate is solved again. Cuts hold for every
request, so the oracle keeps them. Where the choices pack in parts but not in whole numbers, a
conflict among them gives the cut (`conflict`), as long as there are few nodes and jobs. Undecided
cases are left to the node-indexed program over a core of the choices; where that is too large, too,
the best allocation found is returned with the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import highspy
import numpy as np

from goodalloc.formulations.certificates.dual_prices import aggregate_prices
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.aggregate import build_aggregate
from goodalloc.formulations.mode_rounds.value_cut import Cut
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.milp.highs_program import new_solver, run_in_time, run_relaxation
from goodalloc.solvers.milp.price_and_core import decide
from goodalloc.solvers.modes.conflict import ConflictFinder
from goodalloc.solvers.modes.packing import ModePacker
from goodalloc.solvers.modes.packing_cut import CutFinder
from goodalloc.solvers.power_mean.oracle import Reply
from goodalloc.solvers.power_mean.program_oracle import ProgramOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.solvers.milp.price_and_core import Decision
    from goodalloc.solvers.power_mean.program_oracle import Task

#: Times the aggregate is solved again with more cuts, for one request, …
MOST_ROUNDS = 50
#: … and its relaxation after a cut of the packing program.
MOST_TIGHTENINGS = 100
#: Where the node-indexed program over a core of the choices has more columns, so many branches of
#: it, with so many choices a job, look for a good allocation when conflicts begin.
FEW_NODE_COLUMNS = 2_000
QUICK, QUICK_CORE = 20, 3
#: Shares of everything that are left unused, one after the other, until what is chosen packs.
SPARE = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 0.75, 0.9)
#: Weights of the relaxation below this are none.
PRESENT = 1e-9
#: Largest node-indexed program, in columns, that is tried where cuts are not enough; up to there
#: conflicts are looked for.
MOST_NODE_COLUMNS = 20_000
#: Choices a job in the first core of that program, and how much wider the next ones are where no
#: solution says how wide they have to be.
FIRST_CORE = 10
WIDER = 4


@dataclass
class ModeOracle(ProgramOracle):
    """Oracle that answers requests with the aggregate and its cuts, which it keeps."""

    _cuts: list[Cut] = field(default_factory=list, init=False)

    @cached_property
    def _packer(self) -> ModePacker:
        return ModePacker(self.instance, self.grid, self.watch)

    @cached_property
    def _finder(self) -> CutFinder:
        return CutFinder(self.instance, self.choices, self.grid, self.watch)

    @cached_property
    def _conflicts(self) -> ConflictFinder:
        return ConflictFinder(self.instance, self.choices, self.watch)

    @property
    def _node_columns(self) -> int:
        """Columns of the node-indexed program over the first core of the choices."""
        return FIRST_CORE * self.instance.num_jobs * self.instance.cluster.num_nodes

    def answer(self, task: Task) -> Reply:
        """Decide a task: aggregate, packing, cut, until the choices pack."""
        bound, best, best_cost = -math.inf, task.request.start, task.known
        tried = False
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
                continue
            if self._node_columns > MOST_NODE_COLUMNS:
                break
            conflict = self._conflicts.find(taken)
            if isinstance(conflict, Allocation):
                return Reply(conflict, bound)
            if not conflict:
                break
            self._cuts += conflict
            if not tried and self._node_columns > FEW_NODE_COLUMNS:
                tried = True
                quick = self._by_node(task, best, best_cost, bound, most_branches=QUICK)
                best, bound = quick.allocation, max(bound, quick.bound)
                best_cost = self._cost_of(task.request, best)
        if self.watch.limit is None and self._node_columns > MOST_NODE_COLUMNS:
            found, cost = self._with_room(task, best_cost)
            best, best_cost = (found, cost) if cost < best_cost else (best, best_cost)
        return self._by_node(task, best, best_cost, bound)

    def _by_node(
        self,
        task: Task,
        best: Allocation | None,
        best_cost: float,
        bound: float,
        *,
        most_branches: int | None = None,
    ) -> Reply:
        """Solve the node-indexed program over a core, and wider ones until it is proved.

        The method is that of `price_and_core`: the reduced costs are those of the aggregate with
        all cuts. With a limit on its branches, only the first core is solved.
        """
        program = self._program(task)
        relaxation = run_relaxation(program, np.ones(program.num_columns, dtype=bool), self.watch)
        if relaxation.duals is None:
            return Reply(best, bound)
        least, reduced = relaxation.objective, program.reduced_costs(relaxation.duals)
        width = FIRST_CORE if most_branches is None else QUICK_CORE
        first = min(width * self.instance.num_jobs, reduced.size) - 1
        delta = max(float(np.partition(reduced, first)[first]), task.scaled_gap)
        while self.watch.limit is None and best_cost - bound > task.gap:
            missing = best_cost * task.scale - least + task.scaled_gap
            core = reduced <= min(delta, missing)
            if most_branches is not None:  # idling and staying make sure that something packs
                core |= task.choices.replicas == 0
                core |= task.choices.kind == Kind.KEEP
            if np.count_nonzero(core) * self.instance.cluster.num_nodes > MOST_NODE_COLUMNS:
                break
            limit = math.inf
            if np.bincount(task.choices.job[core], minlength=self.instance.num_jobs).min() > 0:
                allocation, limit = self.solve_by_node(self._narrowed(task, core), most_branches)
                cost = self._cost_of(task.request, allocation)
                if cost < best_cost:
                    best, best_cost = allocation, cost
            # what is not in the core costs more than the relaxation by delta at least
            dropped = math.inf if core.all() or missing <= delta else least + delta
            bound = max(bound, min(limit / task.scale, dropped / task.scale, best_cost))
            if math.isinf(dropped) or most_branches is not None:
                break
            missing = best_cost * task.scale - least + task.scaled_gap
            if math.isfinite(missing):
                delta = missing
            else:
                wider = min(WIDER * int(np.count_nonzero(core)), reduced.size) - 1
                delta = float(np.partition(reduced, wider)[wider])
        return Reply(best, bound)

    def _narrowed(self, task: Task, reach: NDArray[np.bool_]) -> Task:
        """Return a task over some of its choices, with the cuts among its rows."""
        allowed = task.allowed.copy()
        allowed[task.allowed] = reach
        limits = [(weights[reach], most) for weights, most in task.limits]
        limits += [(cut.coefficient[allowed], cut.upper) for cut in self._cuts]
        return replace(
            task,
            allowed=allowed,
            choices=task.choices.where(reach),
            cost=task.cost[reach],
            limits=tuple(limits),
        )

    def _with_room(self, task: Task, known: float) -> tuple[Allocation | None, float]:
        """Return an allocation that packs because it leaves a little unused, and its cost."""
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

    def _program(self, task: Task, spare: float = 0.0) -> Program:
        """Return the aggregate with the cuts so far."""
        begin = self.watch.seconds
        cuts = [Cut(cut.coefficient[task.allowed], cut.upper) for cut in self._cuts]
        program = build_aggregate(
            self.instance,
            task.choices,
            task.scaled_cost,
            limits=task.limits,
            cuts=cuts,
            spare=spare,
        )
        self.build_seconds += self.watch.seconds - begin
        return program

    def _tighten(self, task: Task) -> None:
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

    def _decide(self, task: Task, known: float, spare: float = 0.0) -> Decision:
        """Decide the aggregate."""
        program = self._program(task, spare)
        priced = np.ones(program.num_columns, dtype=bool)
        decision = decide(
            program,
            priced,
            self.watch,
            gap=task.scaled_gap,
            guide=task.guide,
            known=known * task.scale,
            exact=spare == 0.0,
            alike=True,
        )
        self.nodes += decision.nodes
        if decision.duals is not None and spare == 0.0:
            prices = aggregate_prices(
                self.instance, task.choices, program, self._cuts, self.grid, decision.duals
            )
            self.record(task, prices)
        return decision
