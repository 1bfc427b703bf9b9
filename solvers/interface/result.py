"""Outcome of a solver, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.models.round.allocation import Allocation


class Status(StrEnum):
    """Outcome of a run."""

    OPTIMAL = "optimal"
    """The bound proves the allocation optimal to the relative gap of the limits."""
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
    """Limit that ended a search before a proof."""

    TIME = "time"
    GAP = "gap"
    ITERATIONS = "iterations"
    NO_IMPROVEMENT = "no_improvement"
    INTERRUPTED = "interrupted"


class Evidence(StrEnum):
    """Evidence for a bound."""

    PRICES = "prices"
    """Recomputed from prices by weak duality, rounded outwards."""
    SOLVER = "solver"
    """The word of a solver that ships, or of a relaxation that ships such as the knapsack."""
    GIVEN = "given"
    """The caller's own number."""
    NONE = "none"
    """No bound is proved or given."""


#: Relative excess of a fitness over a bound up to which rounding explains it.
REFUTING_EXCESS = 1e-9


def refutes(fitness: float, bound: float) -> bool:
    """Return whether the fitness of a checked allocation disproves a bound, beyond rounding.

    A fitness of NaN (no allocation) disproves nothing; a bound of NaN is disproved by any other.

    Examples
    --------
    >>> from goodalloc.solvers.interface import refutes
    >>> refutes(1.2, 1.0), refutes(0.9, 1.0)
    (True, False)
    """
    return not math.isnan(fitness) and not bound >= fitness * (1 - REFUTING_EXCESS)


def relative_gap(fitness: float, bound: float) -> float:
    """Return ``(bound - fitness) / bound``; NaN where either is unknown or `bound` is refuted.

    At p = -1 this is the relative gap on the mean of reciprocals,
    ``(1 / fitness - 1 / bound) / (1 / fitness)``.

    Examples
    --------
    >>> from goodalloc.solvers.interface import relative_gap
    >>> relative_gap(0.75, 1.0)
    0.25
    """
    if math.isnan(fitness) or not math.isfinite(bound) or refutes(fitness, bound):
        return math.nan
    return max(bound - fitness, 0.0) / bound if bound > 0 else 0.0


class SolveError(RuntimeError):
    """Error of `Result.raise_for_status` and `Answer.require_allocation`: no allocation."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Improvement on the way: seconds since the start, iteration, fitness and bound by then.

    All four are as the solver reports them; only the entries of a `Result` are checked.

    Examples
    --------
    >>> from goodalloc.solvers.interface import Incumbent
    >>> Incumbent(seconds=0.5, iteration=3, fitness=1.25).bound
    inf
    """

    seconds: float
    iteration: int
    fitness: float
    bound: float = math.inf


@dataclass(frozen=True)
class Answer:
    """Unchecked outcome that a solver returns to `solve`, which checks and certifies it.

    The bound of a solver that does not ship (`goodalloc.solvers.interface.base.ships`) is a claim
    and is reported as such; no certificate rests on it.

    Parameters
    ----------
    allocation
        The best allocation found, or None.
    bound
        A proven upper bound on the fitness; infinite where the solver proves nothing.
    bound_source
        The relaxation or method that proved it.
    proven
        Whether the solver claims that the allocation is optimal (within its gap). The claim is not
        believed: the bound has to show it.
    limit
        Limit that ended the search, None after a proof.
    history
        Incumbents in time order.
    iterations
        Generations, nodes or moves, as the solver counts them.
    build_seconds
        Time spent on building the program, part of the whole.
    compile_seconds
        Time spent on compiling; only the first call with given shapes pays it.
    message
        Remarks for the user.
    certificate
        Proof of the bound by prices alone, None where there is none.

    Examples
    --------
    A solver of one's own returns one:

    >>> from goodalloc.models import Allocation
    >>> from goodalloc.solvers import Answer
    >>> answer = Answer(Allocation.from_matrix([[2, 0]]), message="by hand")
    >>> answer.require_allocation().placements()
    [((0, 2),)]
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
    """Checked outcome: a feasible allocation, its recomputed fitness and a believed bound.

    Parameters
    ----------
    solver, instance
        Names of the solver and of the instance.
    allocation
        The best feasible allocation, or None.
    fitness
        Its fitness, recomputed by the objective; NaN without an allocation.
    starved, served_fitness
        The parts of the fitness (`goodalloc.models.round.starved_jobs`): jobs that hold nothing,
        None without an allocation, and the power mean of the utilities of the others, NaN without
        any.
    bound, bound_source, evidence
        A believed upper bound on the fitness of any allocation, its source and its evidence. No
        checked allocation refutes it.
    claimed_bound
        Bound claimed by a solver that does not ship: nothing follows from it. Infinite where
        nothing is claimed, NaN where the claim is no number.
    status, limit
        Status of the allocation, and the limit that ended the search.
    seed
        The seed used.
    solve_seconds, build_seconds
        Time of the solver without compiling, and the part of it spent on building programs.
    compile_seconds, check_seconds, bound_seconds
        Time for compiling, for checking, and for a bound that was computed separately.
    iterations, history, message
        As in `Answer`; the history of a solver that does not ship has no bounds, and no fitness
        above the one that was checked.
    certificate
        Proof of the bound by prices alone, where `solve` was called with ``certificate=True``.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers import solve
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), rules)
    >>> result = solve(instance).raise_for_status()
    >>> str(result.status), round(result.fitness, 2), result.gap < 1e-9
    ('optimal', 1.8, True)
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
        """Relative gap between the fitness and the bound; see `relative_gap`."""
        return relative_gap(self.fitness, self.bound)

    def raise_for_status(self) -> Result:
        """Return the result itself; raise `SolveError` if it holds no allocation."""
        if self.allocation is None:
            raise SolveError(
                f"{self.solver} found no allocation of {self.instance}: {self.message}"
            )
        return self
