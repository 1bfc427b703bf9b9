"""The outcome of a solver, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.models.round.allocation import Allocation


class Status(StrEnum):
    """The outcome of a run."""

    OPTIMAL = "optimal"
    """Its bound proves the allocation, to the relative gap that was asked for."""
    FEASIBLE = "feasible"
    """It passed the checker; nothing proves it."""
    INFEASIBLE = "infeasible"
    """The solver's allocation breaks a rule and was dropped."""
    FAILED = "failed"
    """The solver raised an exception, or its process died."""
    TIMEOUT = "timeout"
    """The solver's process was killed long after its limit."""
    UNKNOWN = "unknown"
    """The solver returned no allocation."""


class Limit(StrEnum):
    """What ended the search before a proof."""

    TIME = "time"
    GAP = "gap"
    ITERATIONS = "iterations"
    NO_IMPROVEMENT = "no_improvement"
    INTERRUPTED = "interrupted"


class Evidence(StrEnum):
    """How a bound is known to hold."""

    PRICES = "prices"
    """Recomputed from prices by weak duality, rounded outwards."""
    SOLVER = "solver"
    """The word of a solver that ships, or of a relaxation that ships such as the knapsack."""
    GIVEN = "given"
    """The caller's own number."""
    NONE = "none"
    """There is no bound that anybody vouches for."""


#: Relative excess of a fitness over a bound up to which rounding explains it.
REFUTING_EXCESS = 1e-9


def refutes(fitness: float, bound: float) -> bool:
    """Whether the fitness of a checked allocation disproves a bound, beyond rounding.

    A fitness of NaN, of no allocation, disproves nothing; a bound of NaN is disproved by any other.
    """
    return not math.isnan(fitness) and not bound >= fitness * (1 - REFUTING_EXCESS)


def relative_gap(fitness: float, bound: float) -> float:
    """``(bound - fitness) / bound``; NaN where either is unknown or the fitness refutes the bound.

    At p = -1 this is the relative gap on the mean of reciprocals.
    """
    if math.isnan(fitness) or not math.isfinite(bound) or refutes(fitness, bound):
        return math.nan
    return max(bound - fitness, 0.0) / bound if bound > 0 else 0.0


class SolveError(RuntimeError):
    """Error of `Result.raise_for_status` and `Answer.require_allocation`: no allocation."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """One improvement on the way: seconds since the start, iteration, fitness, bound by then.

    All four as the solver tells them: only what ends up in a `Result` is checked.
    """

    seconds: float
    iteration: int
    fitness: float
    bound: float = math.inf


@dataclass(frozen=True)
class Answer:
    """What a solver hands to the front door, which checks it and certifies it.

    Of a solver that does not ship (`goodalloc.solvers.interface.base.ships`) the bound is a claim,
    shown as such; no certificate rests on it.

    Parameters
    ----------
    allocation
        The best allocation found, or None.
    bound
        A proven upper bound on the fitness; infinite where the solver proves nothing.
    bound_source
        The relaxation or method that proved it.
    proven
        Whether the solver claims that the allocation is optimal (within its gap); nobody believes
        it, the bound has to show it.
    limit
        What ended the search, if not a proof.
    history
        Incumbents in time order.
    iterations
        Generations, nodes or moves, as the solver counts.
    build_seconds
        Time spent on building the program, part of the whole.
    compile_seconds
        Time spent on compiling; the first call with these shapes pays it, and no other.
    message
        Anything a person should know.
    certificate
        What proves the bound by prices alone, where anything does.
    """

    allocation: Allocation | None
    bound: float = math.inf
    bound_source: str = ""
    proven: bool = False
    limit: Limit | None = None
    history: tuple[Incumbent, ...] = ()
    iterations: int = 0
    build_seconds: float = 0.0
    compile_seconds: float = 0.0
    message: str = ""
    certificate: Certificate | None = field(default=None, compare=False, repr=False)

    def require_allocation(self) -> Allocation:
        """Return the allocation; raise `SolveError` if there is none."""
        if self.allocation is None:
            raise SolveError(f"The solver found no allocation: {self.message}")
        return self.allocation


@dataclass(frozen=True)
class Result:
    """A checked outcome: the fitness is recomputed, the allocation has passed the checker.

    Parameters
    ----------
    solver, instance
        Names.
    allocation
        The best feasible allocation, or None.
    fitness
        Its fitness, recomputed by the objective; NaN without an allocation.
    starved, served_fitness
        The parts of the fitness (`goodalloc.models.round.starved_jobs`): jobs that hold nothing,
        None without an allocation, and the power mean of the utilities of the others, NaN without
        any.
    bound, bound_source, evidence
        An upper bound on the fitness of any allocation that is believed, what proved it, and how it
        is known to hold. No checked allocation refutes it.
    claimed_bound
        What a solver that does not ship says is a bound: nothing follows from it. Infinite where
        nothing is claimed, NaN where the claim is no number.
    status, limit
        What is known, and what ended the search.
    seed
        The seed used.
    solve_seconds, build_seconds
        Time of the solver, all but compiling, and the part of it that went into building programs.
    compile_seconds, check_seconds, bound_seconds
        Time for compiling, for checking, and for a bound that was computed separately.
    iterations, history, message
        As in `Answer`; the history of a solver that does not ship has no bounds, and no fitness
        above the one that was checked.
    certificate
        What proves the bound by prices alone, where that was asked of `solve`.
    """

    solver: str
    instance: str
    allocation: Allocation | None
    fitness: float
    bound: float
    bound_source: str
    status: Status
    limit: Limit | None = None
    seed: int = 0
    build_seconds: float = 0.0
    compile_seconds: float = 0.0
    solve_seconds: float = 0.0
    check_seconds: float = 0.0
    bound_seconds: float = 0.0
    iterations: int = 0
    history: tuple[Incumbent, ...] = ()
    message: str = ""
    claimed_bound: float = math.inf
    evidence: Evidence = Evidence.NONE
    certificate: Certificate | None = field(default=None, compare=False, repr=False)
    starved: int | None = None
    served_fitness: float = math.nan

    @property
    def gap(self) -> float:
        """The `relative_gap` to the bound."""
        return relative_gap(self.fitness, self.bound)

    def raise_for_status(self) -> Result:
        """The result itself, or `SolveError` if it holds no allocation."""
        if self.allocation is None:
            raise SolveError(
                f"{self.solver} found no allocation of {self.instance}: {self.message}"
            )
        return self
