"""Oracles over a round on a tree: requests answered by nested counts, or node by node.

`TreeOracle` is the fast road, and takes it in stages, each of which proves the optimum if it can:

1. all domains of a level counted together (`build_nested` with ``merged``): a few more rows than
   without a tree. Its relaxation prices every choice, and its optimum bounds the round's. Then the
   jobs that it chose are packed into the real domains; if they fit, the optimum is proved;
2. if not, a *core* of choices, those of small reduced cost, with rows for every domain; if their
   best do not pack, either,
3. the core with the pieces of every job by itself, which is exact.

Every program has the rows of `served_jobs`, without which the relaxation serves parts of gangs.

A choice outside the core costs at least its reduced cost beyond the bound of stage 1, so that the
core's best is the optimum once it is below that of every other; otherwise the core is widened, as
in `goodalloc.solvers.milp.price_and_core`. `NodeOracle` knows rounds without interference
avoidance, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo.environ as pyo

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.labelled_pieces import build_labelled
from goodalloc.formulations.topology.nested_patterns import build_nested
from goodalloc.formulations.topology.served_jobs import served_limits
from goodalloc.formulations.topology.tree_milp import build_tree_milp, decode_tree
from goodalloc.formulations.topology.tree_packing import domains_of_choices, pack_tree
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import TRUSTED, run_mixed_integer
from goodalloc.solvers.milp.price_and_core import FIRST_CORE, WIDER, decide
from goodalloc.solvers.power_mean.oracle import Reply
from goodalloc.solvers.power_mean.program_oracle import ProgramOracle
from goodalloc.solvers.topology.freed_domains import free_domains

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.topology.labelled_pieces import LabelledProgram
    from goodalloc.formulations.topology.nested_patterns import NestedProgram
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.milp.highs_program import Outcome
    from goodalloc.solvers.milp.price_and_core import Decision
    from goodalloc.solvers.power_mean.program_oracle import Task

#: Names of the stages.
MERGED, BY_DOMAIN, BY_JOB, BY_NODE = (
    "merged domains",
    "domains",
    "pieces by job and domain",
    "nodes",
)

#: Share of the time limit that packing what was found last may take beyond it.
PACKING = 0.1

#: Choices for each job in the first core: fewer make it harder to find what packs, not easier.
FIRST_CHOICES = 3


@dataclass
class TreeOracle(ProgramOracle):
    """Oracle of the fast road; interference is avoided.

    Parameters
    ----------
    round_
        The round.
    stages
        Stage that answered each request.
    """

    round_: TopologyRound = field(kw_only=True)
    stages: list[str] = field(default_factory=list, kw_only=True)

    def answer(self, task: Task) -> Reply:
        """Decide a task: merged domains first, then a core with all of them."""
        choices, watch = task.choices, self.watch
        served = served_limits(choices, self.instance.cluster.num_gpus)
        task = replace(task, limits=(*task.limits, *served))
        begin = watch.seconds
        program = build_nested(
            self.round_, choices, task.scaled_cost, merged=True, limits=task.limits
        ).program
        self.build_seconds += watch.seconds - begin
        priced = np.ones(program.num_columns, dtype=bool)
        priced[: len(choices)] = choices.kind != Kind.SEVERAL_NODES
        guide = np.zeros(program.num_columns)
        guide[: len(choices)] = task.guide
        known = task.known * task.scale
        decision = decide(program, priced, watch, gap=task.scaled_gap, guide=guide, known=known)
        self.nodes += decision.nodes
        if known - decision.bound <= task.scaled_gap:
            self.stages.append(MERGED)
            return Reply(task.request.start, decision.bound / task.scale)
        if decision.values is None or decision.reduced is None:
            return Reply(None, decision.bound / task.scale)
        taken = decision.values[: len(choices)] > 0.5
        allocation = self._packed(choices.where(taken))
        if allocation is not None:
            self.stages.append(MERGED)
            return Reply(allocation, decision.bound / task.scale)
        freed = None
        if served:  # there are gangs
            freed = free_domains(self.round_, choices, task.scaled_cost, taken)
        first = None if freed is None else self.round_.graded(freed)
        if watch.limit is not None:
            self.stages.append(MERGED)
            return Reply(first, decision.bound / task.scale)
        return self._by_core(task, decision, decision.reduced[: len(choices)], first)

    def _by_core(
        self, task: Task, merged: Decision, reduced: Floats, first: Allocation | None
    ) -> Reply:
        """Decide a task by cores of choices, and wider ones until the optimum is proved.

        Parameters
        ----------
        task
            The task.
        merged, reduced
            The decision with merged domains, and the reduced cost of each choice in it.
        first
            An allocation to begin with, or None.
        """
        best, cost = None, task.known * task.scale
        if first is not None and self._cost_of(task.request, first) * task.scale < cost:
            best, cost = first, self._cost_of(task.request, first) * task.scale
        relaxed, bound = merged.relaxed, merged.bound
        several = min(FIRST_CHOICES * self.instance.num_jobs, reduced.size) - 1
        delta = max(FIRST_CORE * task.scaled_gap, float(np.partition(reduced, several)[several]))
        delta = max(delta, merged.objective - relaxed + task.scaled_gap)
        if best is not None:
            delta = max(delta, cost - relaxed + task.scaled_gap)
        core, proven = np.zeros(reduced.size, dtype=bool), -math.inf
        while self.watch.limit is None:
            last, core = core, reduced <= delta
            found = None
            if not np.array_equal(core, last):
                found, proven = self._within(task, core)
            dropped = math.inf if core.all() else relaxed + delta
            bound = max(bound, min(proven, dropped))
            if found is not None:
                new = self._cost_of(task.request, found) * task.scale
                if new < cost or best is None:
                    best, cost = found, min(new, cost)
            if cost - bound <= task.scaled_gap or core.all() or proven == -math.inf:
                break
            wider = cost - relaxed + task.scaled_gap
            if best is None:
                more = min(WIDER * int(core.sum()), reduced.size - 1)
                wider = min(wider, float(np.partition(reduced, more)[more]))
            delta = max(wider, delta + task.scaled_gap)
        return Reply(best or task.request.start, bound / task.scale)

    def _within(self, task: Task, core: Flags) -> tuple[Allocation | None, float]:
        """Return the best allocation within a core of choices, if any, and a bound for them."""
        choices, cost = task.choices.where(core), task.scaled_cost[core]
        limits = tuple((weights[core], most) for weights, most in task.limits)
        nested = build_nested(self.round_, choices, cost, merged=False, limits=limits)
        every = np.ones(nested.program.num_columns, dtype=bool)
        decision = decide(nested.program, every, self.watch, gap=task.scaled_gap)
        self.nodes += decision.nodes
        if decision.values is None:
            return None, decision.bound
        taken = decision.values[: len(choices)] > 0.5
        domains = domains_of_choices(self.round_, nested, decision.values)
        allocation = self._packed(choices.where(taken), domains[taken])
        if allocation is not None or self.watch.limit is not None:
            self.stages.append(BY_DOMAIN)
            return allocation, decision.bound
        labelled = build_labelled(self.round_, choices, cost, limits=limits)
        outcome = run_mixed_integer(labelled.program, self.watch, gap=task.scaled_gap)
        self.nodes += outcome.nodes
        self.stages.append(BY_JOB)
        if outcome.values is None:
            return None, max(decision.bound, outcome.bound)
        allocation = self.round_.graded(pack_tree(self.round_, labelled, outcome.values))
        return allocation, max(decision.bound, outcome.bound)

    def _packed(self, taken: Choices, within: Indices | None = None) -> Allocation | None:
        """Return an allocation with these choices, one for each job; None if there is none.

        Parameters
        ----------
        taken
            The choices.
        within
            Domain of its level that is to hold each job, tried first; sought if None.
        """
        if within is None and taken.of(Kind.SEVERAL_NODES).size:
            nested = build_nested(self.round_, taken, np.zeros(len(taken)), merged=False)
            outcome = self._run_to_pack(nested)
            if outcome.values is None:
                return None
            within = domains_of_choices(self.round_, nested, outcome.values)
        tries = [within] if within is None or (within < 0).all() else [within, None]
        for domains in tries:
            labelled = build_labelled(self.round_, taken, np.zeros(len(taken)), within=domains)
            anywhere = domains is None and within is not None  # which may take long to refute
            outcome = self._run_to_pack(labelled, PACKING if anywhere else 1.0)
            if outcome.values is not None:
                return self.round_.graded(pack_tree(self.round_, labelled, outcome.values))
        return None

    def _run_to_pack(self, built: NestedProgram | LabelledProgram, share: float = 1.0) -> Outcome:
        """Find any solution of a program, within a share of the time limit where time is over.

        Parameters
        ----------
        built
            The program.
        share
            Part of the time that is left in which it is to be found.
        """
        watch, seconds = self.watch, self.watch.stop.seconds
        if seconds is not None and not watch.interrupted:
            watch = Watch(Stop(seconds=max(share * watch.left, PACKING * seconds)))
        outcome = run_mixed_integer(built.program, watch, gap=0.5)
        self.watch.interrupted |= watch.interrupted
        return outcome


@dataclass
class NodeOracle(ProgramOracle):
    """Oracle of the node-indexed program; any rules, for few jobs on few nodes.

    Parameters
    ----------
    round_
        The round.
    """

    round_: TopologyRound = field(kw_only=True)

    def answer(self, task: Task) -> Reply:
        """Decide a task node by node."""
        model = build_tree_milp(self.round_, task.choices, task.scaled_cost, task.limits)
        solver: Any = pyo.SolverFactory("highs")
        solver.options.update(
            TRUSTED | {"mip_rel_gap": 0.0, "mip_abs_gap": task.scaled_gap, "threads": 1}
        )
        seconds = {} if math.isinf(self.watch.left) else {"timelimit": max(self.watch.left, 0.0)}
        results = solver.solve(model, load_solutions=False, **seconds)
        if results.solver.termination_condition == pyo.TerminationCondition.infeasible:
            return Reply(None, math.inf)
        bound = float(results.problem.lower_bound) / task.scale
        if not len(results.solution):
            return Reply(None, bound)
        model.solutions.load_from(results)
        return Reply(self.round_.graded(decode_tree(model, self.round_)), bound)
