"""Readable exact solver: the node-indexed program through any solver that Pyomo finds."""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo.environ as pyo

from goodalloc.formulations.basics.extreme_cost import program_cost
from goodalloc.formulations.node_indexed.node_extremes import whose_cost
from goodalloc.formulations.node_indexed.node_milp import build_node_milp, decode, node_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.models.support.tolerances import LEAST_GAP
from goodalloc.solvers.exact.ties import canonical
from goodalloc.solvers.exact.time_alarm import TimeIsUp, alarm
from goodalloc.solvers.interface.result import Answer, Limit
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import TRUSTED
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.power_mean.oracle import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.power_mean.oracle import Request

#: Costs are scaled so that the gap to close is this, well above the solvers' tolerances …
GAP_IN_PROGRAM = 1e-5
#: … unless that makes the largest cost larger than this.
LARGEST_COST = 1e7

#: Least seconds for a variable or row to be built and handed over to a solver, …
SECONDS_EACH = 4e-5
#: … and largest ratio of the time for handing a program over to the time for building it.
HANDING_OVER = 4.0
#: Seconds after the limit at which building or handing over is abandoned.
LATE = 1.0

#: Names of the options for the relative and the absolute gap, by solver.
GAP_OPTIONS = {
    "highs": ("mip_rel_gap", "mip_abs_gap"),
    "appsi_highs": ("mip_rel_gap", "mip_abs_gap"),
    "gurobi": ("MIPGap", "MIPGapAbs"),
    "scip": ("limits/gap", "limits/absgap"),
    "cbc": ("ratioGap", "allowableGap"),
    "cplex": ("mip_tolerances_mipgap", "mip_tolerances_absmipgap"),
}


@contextmanager
def _silent_pyomo() -> Iterator[None]:
    """Keep Pyomo from logging conditions that are reported as data."""
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def find_pyomo_solver(name: str) -> Any:
    """Return a solver by its name in Pyomo.

    Raises
    ------
    ValueError
        If Pyomo knows no such solver, or the solver is not installed or not licensed here.
    """
    with _silent_pyomo():  # an unknown name is reported below, in one sentence
        solver = pyo.SolverFactory(name)
        usable = bool(solver.available(exception_flag=False))
    if not usable:
        raise ValueError(
            f"Solver '{name}' is not available to Pyomo; expected the name of an installed one, "
            "such as highs."
        )
    return solver


@dataclass
class NodeOracle:
    """Oracle that answers requests with the node-indexed program.

    Parameters
    ----------
    instance
        The round.
    solver, name
        A Pyomo solver, and its name.
    watch
        The clock of the whole solve.
    """

    instance: Instance
    solver: Any
    name: str
    watch: Watch
    build_seconds: float = 0.0
    limit: Limit | None = None
    trouble: str = ""

    def __call__(self, request: Request) -> Reply:
        """Minimise the cost of a request, exactly unless time runs out or Ctrl-C is pressed."""
        try:
            with _silent_pyomo(), alarm(self.watch.left + LATE):
                return self._answer(request)
        except KeyboardInterrupt:
            self.watch.interrupted = True
        except TimeIsUp:
            self._give_up()
        return Reply(None)

    def _give_up(self) -> None:
        """Record that the program was too large for the time."""
        self.limit = Limit.TIME
        self.trouble = f"the program could not be built and handed over to {self.name} in time"

    def _answer(self, request: Request) -> Reply:
        begin = self.watch.seconds
        utility = np.array(list(node_choices(self.instance).values()))
        largest = float(np.abs(request.cost(utility[~request.forbidden(utility)])).max(initial=1.0))
        gap = max(request.gap, LEAST_GAP)
        scale = min(GAP_IN_PROGRAM / gap, LARGEST_COST / largest)
        model = build_node_milp(
            self.instance,
            cost=lambda values: request.cost(values) * scale,
            forbidden=request.forbidden,
            limits=request.limits,
        )
        building = self.watch.seconds - begin
        self.build_seconds += building
        left = self.watch.left - HANDING_OVER * building
        if left <= 0:
            self._give_up()
            return Reply(None)
        return self._solve(model, gap * scale, scale, left)

    def _solve(self, model: Any, gap: float, scale: float, seconds: float) -> Reply:
        """Run the solver on a scaled model; any outcome becomes data."""
        options: dict[str, Any] = {} if math.isinf(seconds) else {"timelimit": seconds}
        for option, value in zip(GAP_OPTIONS.get(self.name, ()), (0.0, gap), strict=False):
            self.solver.options[option] = value
        if "highs" in self.name:
            self.solver.options.update(TRUSTED)
        try:
            results = self.solver.solve(model, load_solutions=False, **options)
        except (RuntimeError, ValueError, OSError, NotImplementedError) as error:
            self.trouble = f"{self.name}: {error}"
            return Reply(None)
        condition = results.solver.termination_condition
        if condition == pyo.TerminationCondition.infeasible:
            return Reply(None, math.inf)
        if condition == pyo.TerminationCondition.maxTimeLimit:
            self.limit = Limit.TIME
        bound = results.problem.lower_bound
        bound = -math.inf if bound is None or math.isnan(bound) else float(bound) / scale
        if not len(results.solution):
            return Reply(None, bound)
        model.solutions.load_from(results)
        allocation = decode(model, self.instance)
        return Reply(None if violations(self.instance, allocation) else allocation, bound)


def solve_pyomo(
    instance: Instance,
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    solver_name: str = "highs",
    leximin: bool = False,
    break_ties: bool = True,
) -> Answer:
    """Decide a round by the node-indexed program.

    Parameters
    ----------
    instance
        The round; this solver is meant for a few dozen jobs and nodes.
    stop, start, leximin, break_ties
        As for `goodalloc.solvers.exact.highs.solve_highs`; a round too large for the time is
        refused at once, with a message that says so. A program that takes longer than estimated is
        interrupted by an alarm, but only in the main thread; other threads rely on the estimates
        and the solver's limit.
    solver_name
        Name of a solver that Pyomo finds: ``"highs"`` is always available, ``"gurobi"``, ``"scip"``
        or ``"cbc"`` where installed.

    Raises
    ------
    ValueError
        If Pyomo does not find the solver.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.exact import solve_pyomo
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> answer = solve_pyomo(instance)
    >>> answer.allocation.placements(), answer.proven
    ([((0, 2),)], True)
    """
    stop = stop or Stop()
    watch = Watch(stop)
    oracle = NodeOracle(instance, find_pyomo_solver(solver_name), solver_name, watch)
    usable = start if start is not None and not violations(instance, start) else None
    refusal = _refusal(instance, stop.seconds)
    if refusal:
        return Answer(usable, limit=Limit.TIME, message=refusal)
    choices = node_choices(instance)
    outcome = maximise_power_mean(
        oracle,
        instance,
        np.array([choice.job for choice in choices]),
        np.array(list(choices.values())),
        start=usable,
        gap=stop.gap,
        leximin=leximin,
    )
    allocation = outcome.allocation
    value = 0.0 if allocation is None else fitness(instance, allocation)
    proven = allocation is not None and proves(outcome.bound, value, stop.gap)
    if allocation is not None and proven and break_ties:
        with suppress(KeyboardInterrupt):  # a proven optimum is there already
            allocation = canonical(instance, allocation, watch, leximin=leximin).allocation
    return Answer(
        allocation,
        outcome.bound,
        "node-indexed program",
        proven=proven,
        limit=None if proven else watch.limit or oracle.limit,
        iterations=outcome.calls,
        build_seconds=oracle.build_seconds,
        message=oracle.trouble,
    )


def _refusal(instance: Instance, seconds: float | None) -> str:
    """Return the reason not to begin the program; empty if there may be time."""
    jobs, modes, nodes = instance.num_jobs, len(instance.modes), instance.cluster.num_nodes
    needed = SECONDS_EACH * nodes * (modes + 5 * jobs)
    if seconds is None or needed <= seconds + LATE:
        return ""
    return (
        f"{jobs} jobs in {modes} modes on {nodes} nodes are too many for the node-indexed program "
        f"in {seconds:g} s: it takes {needed:.0f} s at least to build and to hand over"
    )


def export_pyomo(instance: Instance, path: Path) -> None:
    """Write the node-indexed program as ``.mps`` or ``.lp``, with readable names.

    `goodalloc.formulations.basics.extreme_cost.program_fitness` with reference 1 gives the fitness
    that belongs to its objective.

    Raises
    ------
    ValueError
        If the file name ends in neither ``.mps`` nor ``.lp``, or the file cannot be written.
    """
    if path.suffix not in {".mps", ".lp"}:
        raise ValueError(f"File '{path}': expected a name that ends in .mps or .lp.")
    power = instance.rules.power
    model = build_node_milp(
        instance, cost=lambda utility: program_cost(utility, power, 1.0), whose=whose_cost(power)
    )
    try:
        model.write(str(path), io_options={"symbolic_solver_labels": True})
    except OSError as error:
        raise ValueError(f"File '{path}' cannot be written: {error.strerror}.") from error
