"""Cross-check of a result with SCIP, which reads the node-indexed program from a file.

What is common to the two roads is the formulation (`formulations/node_indexed/node_milp.py`) and
the utilities; solver, program and decoding are others than those of `solve`. The program is written
at one scale: costs are relative to the fitness of the result, and choices are left out that no
allocation as good as that has (fact 1 of `formulations/basics/power_mean_cost.py`), so that its
numbers stay small.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.formulations.basics.extreme_cost import program_cost, program_fitness
from goodalloc.formulations.basics.power_mean_cost import LARGEST_TERM, least_useful
from goodalloc.formulations.node_indexed.node_extremes import whose_cost
from goodalloc.formulations.node_indexed.node_milp import build_node_milp, decode, node_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.exact.scip_file import run_scip
from goodalloc.solvers.interface.result import Status

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.exact.scip_file import FileAnswer
    from goodalloc.solvers.interface.result import Result

#: Relative difference in fitness up to which two solvers agree.
AGREE = 1e-6


class Verdict(StrEnum):
    """Verdict of a cross-check."""

    AGREE = "agree"
    CONSISTENT = "consistent"
    UNDECIDED = "undecided"
    DISAGREE = "disagree"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class CrossCheck:
    """Outcome of a cross-check with another solver.

    Parameters
    ----------
    verdict
        ``"agree"``: both proved the same optimum; ``"consistent"``: the other solver proved an
        optimum that contradicts nothing, but the result is not proved optimal; ``"undecided"``: the
        other solver ended before a proof; ``"disagree"``; ``"not comparable"``: one program cannot
        represent the round.
    status
        The other solver's own word.
    fitness, bound
        Of its allocation, recomputed by the objective, and what it proved; NaN where there is none.
    difference
        Its fitness over that of the result, less 1; NaN without both.
    seconds
        Time of the other solver.
    message
        Why, where the verdict is not ``"agree"``.
    """

    verdict: Verdict
    status: str = ""
    fitness: float = math.nan
    bound: float = math.nan
    difference: float = math.nan
    seconds: float = 0.0
    message: str = ""


def cross_check(instance: Instance, result: Result, *, seconds: float | None = None) -> CrossCheck:
    """Solve the node-indexed program of a round with SCIP and compare.

    Parameters
    ----------
    instance
        The round.
    result
        What `solve` returned for it.
    seconds
        Wall-clock limit of SCIP; None for none.

    Raises
    ------
    ModuleNotFoundError
        If SCIP (the extra `goodalloc[scip]`) is not installed.
    """
    reason = _not_comparable(instance, result)
    if reason:
        return CrossCheck(Verdict.NOT_COMPARABLE, message=reason)
    power, reference, jobs = instance.rules.power, result.fitness, instance.num_jobs
    scale = max(1.0, abs(power)) if math.isfinite(power) else 1.0
    least = min(least_useful(reference, jobs, power), _worst_best(instance))
    model = build_node_milp(
        instance,
        cost=lambda utility: program_cost(np.maximum(utility, least), power, reference) * scale,
        forbidden=lambda utility: utility < least,
        whose=whose_cost(power),
    )
    allocation, answer = _solve_as_file(model, instance, seconds)
    worth = [
        program_fitness(total / scale, jobs, power, reference)
        for total in (answer.objective, answer.bound)
    ]
    return _compare(instance, result, allocation, answer, worth[0], worth[1])


def _not_comparable(instance: Instance, result: Result) -> str:
    """Return why costs at one scale cannot check the result; empty if they can."""
    if result.allocation is None:
        return f"{result.solver} found no allocation"
    power, greatest = instance.rules.power, max(node_choices(instance).values())
    room = math.log(LARGEST_TERM) / power if 0 < power < math.inf else math.inf
    if math.log(greatest / result.fitness) > room:
        return (
            f"at power {power:g} the term of the greatest utility, {greatest:g}, is over "
            f"{LARGEST_TERM:g} times that of the fitness: too much for one program"
        )
    return ""


def _worst_best(instance: Instance) -> float:
    """Return the least over the jobs of their best utility."""
    best = np.zeros(instance.num_jobs)
    for choice, utility in node_choices(instance).items():
        best[choice.job] = max(best[choice.job], utility)
    return float(best.min())


def _solve_as_file(
    model: Any, instance: Instance, seconds: float | None
) -> tuple[Allocation | None, FileAnswer]:
    """Write a program, have SCIP read and solve it, and decode what it found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.lp"
        _, key = model.write(str(path), io_options={"symbolic_solver_labels": True})
        answer = run_scip(path, seconds=seconds)
    if not answer.values:
        return None, answer
    named = model.solutions.symbol_map[key].bySymbol
    for variables in (model.take, model.replicas):
        for variable in variables.values():
            variable.set_value(0, skip_validation=True)
    for name, value in answer.values.items():
        if name in named:
            named[name].set_value(value, skip_validation=True)
    return decode(model, instance), answer


def _compare(
    instance: Instance,
    result: Result,
    allocation: Allocation | None,
    answer: FileAnswer,
    claimed: float,
    bound: float,
) -> CrossCheck:
    """Return the verdict; `claimed` and `bound` are SCIP's objective and bound as fitness."""
    value, broken = math.nan, ""
    if allocation is not None:
        found = violations(instance, allocation)
        broken = f"SCIP's allocation breaks a rule: {found[0]}" if found else ""
        value = fitness(instance, allocation)
    complaint = broken or _contradiction(result, answer.status, value, claimed, bound)
    verdict, message = Verdict.AGREE, complaint
    if complaint:
        verdict = Verdict.DISAGREE
    elif answer.status != "optimal":
        verdict, message = Verdict.UNDECIDED, f"SCIP ended with '{answer.status}' before a proof"
    elif result.status is not Status.OPTIMAL:
        verdict, message = Verdict.CONSISTENT, f"{result.solver} proved no optimum"
    if answer.status == "infeasible":
        bound = math.nan
    return CrossCheck(
        verdict=verdict,
        status=answer.status,
        fitness=value,
        bound=bound,
        difference=value / result.fitness - 1.0,
        seconds=answer.seconds,
        message=message,
    )


def _contradiction(result: Result, status: str, value: float, claimed: float, bound: float) -> str:
    """Return a contradiction between the two solvers; empty without one."""
    if status == "infeasible":
        return f"SCIP finds no allocation as good as that of {result.solver}"
    if _exceeds(claimed, value):
        return (
            f"SCIP's objective stands for {claimed:.12g} and its allocation is worth {value:.12g}"
        )
    if _exceeds(value, result.bound):
        return f"SCIP's allocation is worth {value:.12g}, above the bound {result.bound:.12g}"
    if _exceeds(result.fitness, bound) or _exceeds(value, bound):
        best = np.fmax(result.fitness, value)
        return f"SCIP's bound {bound:.12g} is below an allocation that is worth {best:.12g}"
    return ""


def _exceeds(value: float, bound: float) -> bool:
    """Return whether a value exceeds a bound beyond the tolerance; NaN never does."""
    return value > bound * (1.0 + AGREE)
