"""Entry point: decide a round, check the answer, certify its gap."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from goodalloc.formulations.basics.program import NotFiniteError
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.models.support.tolerances import DEFAULT_GAP
from goodalloc.models.support.validation import literal, require_count, require_number
from goodalloc.solvers.certificates.proofs import as_good
from goodalloc.solvers.interface.base import SOLVERS, call_solver, find_solver, ships
from goodalloc.solvers.interface.bounds import (
    Bound,
    as_number,
    doubt,
    knapsack,
    least_bound,
    refutation,
    told,
)
from goodalloc.solvers.interface.result import Answer, Evidence, Result, Status, refutes
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.solvers.interface.base import Solver

#: Largest seed: policies draw seeds of 64 bits.
LARGEST_SEED = 2**64 - 1

#: Seconds for branch and bound by prices, where the caller sets no limit.
CERTIFICATE_SECONDS = 60.0


def solve(
    instance: Instance,
    solver: str | Solver = "highs",
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
    bound: float | None = None,
    certificate: bool = False,
    **options: Any,
) -> Result:
    """Decide one scheduling round.

    Parameters
    ----------
    instance
        The round.
    solver
        A name (see `goodalloc.solvers.interface.base.SOLVERS`), a dotted path
        ``package.module:function``, the name of an entry point, or the function itself.
    stop
        Limits on the search.
    seed
        Seed of randomised solvers.
    start
        An allocation to start from.
    bound
        Upper bound on the fitness, if one is known. It is used where the solver does not ship or
        proves no bound, unless the allocation refutes it. If no bound is left, that of the
        multiple-choice knapsack is used.
    certificate
        Whether to prove the bound by prices alone, with a search of its own if need be (see
        `certified`).
    options
        Further keyword arguments of the solver.

    Returns
    -------
    Result
        Outcome whose allocation has passed `violations` and whose fitness was recomputed. A bound
        claimed by a solver that does not ship certifies nothing.

    Raises
    ------
    ValueError
        If `instance` or `stop` has another type, `seed` is not a whole number of at least 0, there
        is no such solver, it does not take one of `options`, or `bound` is negative or no number.

    Examples
    --------
    Two jobs on one node of three GPUs. The harmonic mean of the speedups is largest with two GPUs
    for the job that uses them better, ``2 / (1 / 1.8 + 1 / 1)``:

    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers import solve
    >>> good, poor = SpeedupTable((1.0, 1.8), (1.0, 1.5)), SpeedupTable((1.0, 1.2), (1.0, 1.1))
    >>> jobs = (Job("good", good), Job("poor", poor))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> instance = Instance(Cluster.uniform(1, 3), jobs, rules)
    >>> result = solve(instance)
    >>> result.allocation.placements(), round(result.fitness, 2), str(result.status)
    ([((0, 2),), ((0, 1),)], 1.29, 'optimal')

    A function is a solver, too; its allocation is checked and bounded alike:

    >>> str(solve(instance, lambda instance: [[1], [2]]).status)
    'feasible'
    """
    _check_arguments(instance, stop, seed)
    if bound is not None:
        require_number("Bound", bound, minimum=0.0, finite=False)
    function = find_solver(solver) if isinstance(solver, str) else solver
    trusted = ships(function)
    name = solver if isinstance(solver, str) else _name(function, trusted=trusted)
    stop = stop or Stop()
    arguments = {"stop": stop, "seed": seed, "start": start, **options}
    begin = time.perf_counter()
    try:
        answer = call_solver(function, instance, arguments, name=name)
    except NotFiniteError as error:
        answer = Answer(None, message=str(error))
    solve_seconds = time.perf_counter() - begin - answer.compile_seconds
    result = certify(
        instance,
        answer,
        name,
        trusted=trusted,
        seed=seed,
        bound=bound,
        solve_seconds=solve_seconds,
        gap=stop.gap,
    )
    if certificate:
        return certified(instance, result, stop)
    return replace(result, certificate=None)  # which holds the whole round


def _check_arguments(instance: object, stop: object, seed: object) -> None:
    """Refuse arguments of other types, such as names of instances and numbers of seconds."""
    if not isinstance(instance, Instance):
        known = "load_benchmark(name) or read_instance(file)"
        raise ValueError(f"Instance: got {literal(instance)}; expected an Instance, as {known}.")
    if not (stop is None or isinstance(stop, Stop)):
        raise ValueError(f"Stop: got {literal(stop)}; expected a Stop, as Stop(seconds=2.0).")
    require_count("Seed", seed, minimum=0, maximum=LARGEST_SEED)


def _name(function: Solver, *, trusted: bool) -> str:
    """Return the name of a function, marked if it is that of a shipped solver which it is not."""
    name = str(getattr(function, "__name__", "solver"))
    ours = {*SOLVERS, *SOLVERS.values(), *(path.partition(":")[2] for path in SOLVERS.values())}
    return f"{name} (not the one that ships)" if name in ours and not trusted else name


def certify(
    instance: Instance,
    answer: Answer,
    solver: str,
    *,
    trusted: bool = False,
    seed: int = 0,
    bound: float | None = None,
    solve_seconds: float = 0.0,
    gap: float = DEFAULT_GAP,
) -> Result:
    """Check an answer, recompute its fitness, and give it a bound that is believed.

    An allocation that breaks a rule is dropped, never reported; the status and the message say so.

    Parameters
    ----------
    instance, answer
        The round, and a solver's answer to it.
    solver
        Name of the solver.
    trusted
        Whether the solver ships (`goodalloc.solvers.interface.base.ships`). The bound of any other
        is kept as `Result.claimed_bound`, and the believed one is the given or the knapsack's.
    seed, solve_seconds
        Values of these fields of the result.
    bound
        As in `solve`.
    gap
        Relative gap at which the allocation counts as optimal.
    """
    begin = time.perf_counter()
    allocation, refusal = _checked(instance, answer)
    value, starved, served = math.nan, None, math.nan
    if allocation is not None:
        value = fitness(instance, allocation)
        _, starved, _, served = starvation_of(instance, allocation)
    check_seconds = time.perf_counter() - begin
    notes = [refusal or answer.message]
    history, claimed = answer.history, math.inf
    if not trusted:
        history, claimed = told(history, value), as_number(answer.bound)
        notes.append(doubt(answer.bound, value))
    evidence = Evidence.SOLVER if answer.certificate is None else Evidence.PRICES
    stated = [Bound(answer.bound, answer.bound_source or solver, evidence)] * trusted
    if bound is not None:
        stated.append(Bound(bound, "given", Evidence.GIVEN))
    notes += [refutation(f"bound ({one.source})", one.value, value) for one in stated]
    begin = time.perf_counter()
    best = _believed(instance, stated, value)
    bound_seconds = time.perf_counter() - begin
    return Result(
        solver=solver,
        instance=instance.name,
        allocation=allocation,
        fitness=value,
        starved=starved,
        served_fitness=served,
        bound=best.value,
        bound_source=best.source,
        evidence=best.evidence,
        claimed_bound=claimed,
        status=_without(answer) if allocation is None else status_of(value, best.value, gap),
        limit=answer.limit,
        seed=seed,
        build_seconds=answer.build_seconds,
        compile_seconds=answer.compile_seconds,
        solve_seconds=solve_seconds,
        check_seconds=check_seconds,
        bound_seconds=bound_seconds,
        iterations=answer.iterations,
        history=history,
        message="; ".join(str(note) for note in notes if note),
        certificate=answer.certificate if best.evidence is Evidence.PRICES else None,
    )


def certified(instance: Instance, result: Result, stop: Stop) -> Result:
    """Return the same result with a bound that prices alone prove.

    Where the solver's own relaxations do not prove it, branch and bound by prices is run; for a
    result that is not optimal only its root, since nothing can close the gap. The bound is then the
    certificate's, and a lower bound of the solver is kept in the message.

    Parameters
    ----------
    instance, result
        A round and a checked result; one without an allocation is returned as it is.
    stop
        Limits on the search for the certificate; without one on its time, `CERTIFICATE_SECONDS`.
    """
    if result.allocation is None or result.certificate is not None:
        return result
    from goodalloc.solvers.certificates.certificate_search import (
        MOST_LEAVES,
        bounds_of,
        search_certificate,
    )

    begin = time.perf_counter()
    leaves = MOST_LEAVES if result.status is Status.OPTIMAL else 1
    seconds = CERTIFICATE_SECONDS if stop.seconds is None else stop.seconds
    watch = Watch(stop.replace(seconds=seconds))
    found = search_certificate(bounds_of(instance), result.fitness, watch, most_leaves=leaves)
    message = result.message
    if not as_good(found.bound, result.bound * (1 + stop.gap), result.fitness, stop.gap):
        said = f"without a certificate, {result.bound_source} bounds the fitness by "
        said += f"{result.bound:.12g}"
        message = "; ".join(filter(None, (message, said)))
    return replace(
        result,
        bound=found.bound,
        bound_source="prices",
        evidence=Evidence.PRICES,
        certificate=found,
        message=message,
        status=status_of(result.fitness, found.bound, stop.gap),
        bound_seconds=result.bound_seconds + time.perf_counter() - begin,
    )


def _checked(instance: Instance, answer: Answer) -> tuple[Allocation | None, str]:
    """Return the allocation of an answer if it is feasible, and the message if there is none."""
    if answer.allocation is None:
        silent = not answer.message and answer.limit is None
        return None, "the solver returned no allocation" if silent else ""
    broken = violations(instance, answer.allocation)
    if not broken:
        return answer.allocation, ""
    first, *others = broken
    more = f" (and {len(others)} more)" if others else ""
    return None, f"infeasible allocation refused: {first}{more}"


def _believed(instance: Instance, stated: Sequence[Bound], value: float) -> Bound:
    """Return the first bound that is finite and not refuted, or else the knapsack's."""
    for bound in stated:
        if math.isfinite(bound.value) and not refutes(value, bound.value):
            return bound
    return least_bound([knapsack(instance)], value)


def _without(answer: Answer) -> Status:
    """Return the status of a result without an allocation."""
    return Status.UNKNOWN if answer.allocation is None else Status.INFEASIBLE


def status_of(fitness: float, bound: float, gap: float) -> Status:
    """Return the status of a checked allocation, by its fitness and a believed bound.

    Examples
    --------
    >>> from goodalloc.solvers.certificates import status_of
    >>> str(status_of(0.9, bound=1.0, gap=0.01)), str(status_of(1.0, bound=1.0, gap=0.01))
    ('feasible', 'optimal')
    """
    return Status.OPTIMAL if proves(bound, fitness, gap) else Status.FEASIBLE
