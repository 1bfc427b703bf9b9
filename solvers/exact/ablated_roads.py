"""The exact road of the package with parts of it left out, to measure what each is worth.

Rounds without modes: the node-indexed program with HiGHS alone; the pattern program with HiGHS
alone; its relaxation by prices first, which settles it where it is integral; a core of its columns
by reduced costs in place of all; the ones of the relaxation kept before the core is solved
(`goodalloc.solvers.milp.decide`); and the price of a GPU before any program. Rounds with modes: the
node-indexed program; the aggregate without cuts, which leaves what does not pack to the program of
nodes over a core; with cuts; and the price of a GPU before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.formulations.gpu_rounds.packing import pack
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact import solve_highs, solve_pyomo
from goodalloc.solvers.exact.pattern_oracle import PatternOracle
from goodalloc.solvers.exact.placement import place
from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.milp.price_and_core import FIRST_CORE, INTEGRAL
from goodalloc.solvers.modes.oracle import ModeOracle
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.power_mean.program_oracle import Task


class Found(NamedTuple):
    """Solution of a program.

    Attributes
    ----------
    values, bound
        Values of all columns, None without a solution, and a proven bound on the objective.
    """

    values: Floats | None
    bound: float


def whole(program: Program, priced: Flags, watch: Watch, gap: float) -> Found:
    """Have HiGHS solve a program as it stands."""
    outcome = run_mixed_integer(program, watch, gap=gap)
    return Found(outcome.values, outcome.bound)


def by_prices(program: Program, priced: Flags, watch: Watch, gap: float, *, core: bool) -> Found:
    """Solve the relaxation, and then the program: all of it, or cores of it until it is proved.

    This is `goodalloc.solvers.milp.decide` without the ones that are kept and without a guide.

    Parameters
    ----------
    program, priced, watch, gap
        As there.
    core
        Whether cores are solved in place of the whole program.
    """
    relaxation = run_relaxation(program, priced, watch)
    if relaxation.values is None or relaxation.duals is None:
        return Found(None, math.inf if relaxation.finished else -math.inf)
    rounded = np.rint(relaxation.values)
    if (np.abs(relaxation.values - rounded)[program.integer] <= INTEGRAL).all():
        return Found(rounded, relaxation.objective)
    bound, reduced = relaxation.objective, program.reduced_costs(relaxation.duals)
    delta, best = FIRST_CORE * gap if core else math.inf, Found(None, bound)
    objective = math.inf
    while watch.limit is None:
        inside = reduced <= delta
        outcome = run_mixed_integer(program.columns(inside), watch, gap=gap)
        if outcome.values is not None and outcome.objective < objective:
            objective = outcome.objective
            best = Found(program.widen(outcome.values, inside), best.bound)
        dropped = math.inf if inside.all() else bound + delta
        best = best._replace(bound=max(best.bound, min(outcome.bound, dropped)))
        missing = objective - bound
        if inside.all() or missing <= delta or not outcome.finished:
            break
        delta = missing + gap if math.isfinite(missing) else 2.0 * delta
    return best


@dataclass
class AblatedPatterns(PatternOracle):
    """Oracle over the pattern program with another way to solve it.

    Parameters
    ----------
    minimise
        Solves a program.
    """

    minimise: Callable[[Program, Flags, Watch, float], Found] = whole

    def _solve(self, task: Task, *, exact: bool) -> tuple[Allocation | None, float]:
        """Return an allocation, or None where the pieces do not split, and a bound."""
        choices = task.choices
        patterns = build_patterns(
            self.instance, choices, task.scaled_cost, limits=task.limits, exact=exact
        )
        priced = np.ones(patterns.program.num_columns, dtype=bool)
        priced[: len(choices)] = choices.kind != Kind.SEVERAL_NODES
        found = self.minimise(patterns.program, priced, self.watch, task.scaled_gap)
        if found.values is None:
            return None, found.bound / task.scale
        allocation = pack(self.instance, patterns, found.values)
        if allocation is None:
            taken = choices.where(np.flatnonzero(found.values[: len(choices)] > 0.5))
            allocation = place(self.instance, taken, self.watch)
        return allocation, found.bound / task.scale


class _FindsNothing:
    """Finder of cuts that finds none."""

    def find(self, taken: object) -> None:
        """Return None."""


@dataclass
class WithoutCuts(ModeOracle):
    """Oracle with the aggregate that cuts nothing off and looks for no conflicts."""

    @property
    def _finder(self) -> _FindsNothing:  # type: ignore[override]
        return _FindsNothing()

    @property
    def _conflicts(self) -> _FindsNothing:  # type: ignore[override]
        return _FindsNothing()


def _answer(instance: Instance, oracle: PatternOracle | ModeOracle, stop: Stop) -> Answer:
    """Return the answer of an oracle's search."""
    choices = oracle.choices
    outcome = maximise_power_mean(
        oracle, instance, choices.job, choices.utility, start=None, gap=stop.gap
    )
    return Answer(outcome.allocation, outcome.bound, limit=oracle.watch.limit)


def _patterns(
    instance: Instance, stop: Stop, minimise: Callable[[Program, Flags, Watch, float], Found]
) -> Answer:
    choices, watch = enumerate_choices(instance), Watch(stop)
    return _answer(instance, AblatedPatterns(instance, choices, watch, minimise=minimise), stop)


def _aggregate(instance: Instance, stop: Stop) -> Answer:
    mode_utilities(instance)
    watch = Watch(stop)
    return _answer(instance, WithoutCuts(instance, enumerate_mode_choices(instance), watch), stop)


class Road(NamedTuple):
    """Road to the optimum.

    Attributes
    ----------
    text
        What it has beyond the road before.
    solve
        Decides a round under limits.
    plain, modes
        Whether it is for rounds without modes, and for those with modes.
    modes_text
        The text for rounds with modes, if it is another one.
    """

    text: str
    solve: Callable[[Instance, Stop], Answer]
    plain: bool = True
    modes: bool = True
    modes_text: str = ""

    def suits(self, instance: Instance) -> bool:
        """Return whether the road is for a round."""
        return self.plain if instance.plain else self.modes

    def run(self, instance: Instance, seconds: float, bound: float) -> Result:
        """Return the checked result of a round, whose utilities are tabulated before it is timed.

        Parameters
        ----------
        instance
            The round.
        seconds
            Time limit.
        bound
            Upper bound on the fitness that is known.
        """
        mode_utilities(instance)
        return solve(
            instance,
            lambda instance, *, stop: self.solve(instance, stop),
            stop=Stop(seconds=seconds),
            bound=bound,
        )


def _nodes(instance: Instance, stop: Stop) -> Answer:
    return solve_pyomo(instance, stop=stop, break_ties=False)


def _programs(instance: Instance, stop: Stop) -> Answer:
    return solve_highs(instance, stop=stop, break_ties=False, by_price=False)


def _package(instance: Instance, stop: Stop) -> Answer:
    return solve_highs(instance, stop=stop, break_ties=False)


#: Roads by name, each with one part more than the one before that suits the same rounds.
ROADS: Mapping[str, Road] = MappingProxyType(
    {
        "nodes": Road("the node-indexed program, HiGHS alone", _nodes),
        "patterns": Road(
            "the pattern program, HiGHS alone", partial(_patterns, minimise=whole), modes=False
        ),
        "prices": Road(
            "its relaxation by prices first",
            partial(_patterns, minimise=partial(by_prices, core=False)),
            modes=False,
        ),
        "core": Road(
            "a core by reduced costs",
            partial(_patterns, minimise=partial(by_prices, core=True)),
            modes=False,
        ),
        "aggregate": Road("the aggregate and a core of nodes, no cuts", _aggregate, plain=False),
        "programs": Road("ones kept", _programs, modes_text="cuts"),
        "price of a GPU": Road("one price before any program", _package),
    }
)
