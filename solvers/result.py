"""The outcome of a solver, as data."""

import math
from dataclasses import dataclass
from enum import StrEnum

from goodalloc.models.allocation import Allocation


class Status(StrEnum):
    """What is known about the allocation."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    UNKNOWN = "unknown"


class Limit(StrEnum):
    """What ended the search before a proof."""

    TIME = "time"
    GAP = "gap"
    ITERATIONS = "iterations"
    NO_IMPROVEMENT = "no_improvement"
    INTERRUPTED = "interrupted"


class SolveError(RuntimeError):
    """Raised by `Result.raise_for_status`, and by nothing else."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """One improvement on the way: seconds since the start, iteration, fitness, bound by then."""

    seconds: float
    iteration: int
    fitness: float
    bound: float = math.inf


@dataclass(frozen=True)
class Answer:
    """What a solver hands to the front door, which checks it and certifies it.

    Parameters
    ----------
    allocation
        The best allocation found, or None.
    bound
        A proven upper bound on the fitness; infinite where the solver proves nothing.
    bound_source
        The relaxation or method that proved it.
    proven
        Whether the solver claims that the allocation is optimal (within its gap).
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
    bound, bound_source
        A proven upper bound on the fitness of any allocation, and what proved it.
    status, limit
        What is known, and what ended the search.
    seed
        The seed used.
    solve_seconds, build_seconds
        Time of the solver, all but compiling, and the part of it that went into building programs.
    compile_seconds, check_seconds, bound_seconds
        Time for compiling, for checking, and for a bound that was computed separately.
    iterations, history, message
        As in `Answer`.
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

    @property
    def gap(self) -> float:
        """Relative optimality gap, ``(bound - fitness) / bound``; NaN without both.

        At p = -1 this is the relative gap on the mean of reciprocals.
        """
        if math.isnan(self.fitness) or not math.isfinite(self.bound):
            return math.nan
        return max(self.bound - self.fitness, 0.0) / self.bound if self.bound > 0 else 0.0

    def raise_for_status(self) -> "Result":
        """The result itself, or `SolveError` if it holds no allocation."""
        if self.allocation is None:
            raise SolveError(
                f"{self.solver} found no allocation of {self.instance}: {self.message}"
            )
        return self
