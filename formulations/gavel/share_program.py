r"""Time shares as linear and cone programs in CVXPY: Gavel, section 4.

The goals of `models/gavel/share_goal.py` over the shares (1) of `models/gavel/time_sharing.py`,
with promised rates :math:`\tau_j(X) \ge r_j`. All are convex; *gain* and *level* are linear, and so
is *worst* without delays *a*, which is the inverse of a level. There is one matrix variable, and
rates are one sparse matrix times it. Units are made even beforehand (`_Scaled`), so that all that a
solver sees is near 1: in seconds and steps its tolerance would hide the jobs with little work.

Bounds are certified by the solver's prices (`share_certificate.py`).

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy
import numpy as np
from scipy.sparse import coo_array, diags_array

from goodalloc.formulations.gavel.share_certificate import SharePrices, certify, no_prices
from goodalloc.models.gavel.share_goal import Gain, Level, Total, Worst
from goodalloc.models.gavel.time_sharing import largest_rates
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats, Indices


#: CVXPY; most of its names are defined where type checkers do not see them.
cp: Any = cvxpy

#: Part of its largest rate that a job has at least where the slope of its delay is taken.
LEAST_RATE = 1e-12


class ShareSolution(NamedTuple):
    """Outcome of a solver.

    Attributes
    ----------
    shares
        X, shape (lines, types), as the solver left them; None if it found none.
    bound
        Certified: no shares do better.
    proof
        Prices that prove it.
    prices
        Prices as the solver reports them; None if it gave none.
    tight
        The parts of the price of the goal that jobs have, which add up to 1, shape (jobs,); of a
        level or the worst only those that cannot have more.
    status
        Status as the solver reports it.
    build_seconds, solve_seconds
        To build and translate the program, and to solve it.
    """

    shares: Float[Floats, "lines types"] | None
    bound: float
    proof: SharePrices
    prices: SharePrices | None
    tight: Float[Floats, " jobs"]
    status: str
    build_seconds: float
    solve_seconds: float


class _Scaled(NamedTuple):
    """The problem in units in which all numbers are near 1.

    Rates are in units of the largest of each job, or where the goal is a level, of what a job needs
    to reach about that of the best shares; the goal is in units of about its value.

    Attributes
    ----------
    units
        Units of the rates of every job.
    largest
        The largest rate of every job.
    matrix
        T as a sparse matrix, shape (jobs, lines × types).
    columns
        Units of the shares of every line: those of jobs with little work are small.
    first, second, worth
        a, b and g.
    promised
        r of every job.
    unit
        Unit of the goal.
    """

    units: Float[Floats, " jobs"]
    largest: Float[Floats, " jobs"]
    matrix: Any
    columns: Float[Floats, " lines"]
    first: Floats
    second: Floats
    worth: Floats
    promised: Float[Floats, " jobs"]
    unit: float


def solve_shares(
    sharing: TimeSharing,
    goal: Goal,
    promised: Float[Floats, " jobs"] | None = None,
    *,
    solver: str = CONE_SOLVER,
    **options: Any,
) -> ShareSolution:
    """Solve the program of a goal, and certify its bound.

    Parameters
    ----------
    sharing
        Jobs, types of GPU and rates.
    goal
        Goal of the shares.
    promised
        r: steps per second that every job is to have at least, shape (jobs,).
    solver, options
        A solver that CVXPY finds, and settings of its own.

    Raises
    ------
    ValueError
        If CVXPY does not find the solver, or the solver refuses a setting.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> from goodalloc.formulations.gavel import solve_shares
    >>> solve_shares(sharing, max_min(sharing)).shares.round(3).ravel().tolist()
    [0.5, 0.5]
    """
    begin = time.perf_counter()
    require_solver(solver)
    jobs, lines, types = sharing.num_jobs, sharing.num_lines, sharing.num_types
    scaled = _scaled(sharing, goal, np.zeros(jobs) if promised is None else promised)
    columns = np.repeat(scaled.columns, types)
    taken = cp.Variable(lines * types, nonneg=True)  # X in units of `columns`
    parts = (scaled.matrix, *incidence(sharing))
    matrix, time_of, gpus_of = ((part * columns).tocsr() for part in parts)
    counts = np.flatnonzero(scaled.second > 0)
    objective, earned, more = _objective(goal, scaled, taken, matrix[counts] @ taken, counts)
    time_left, gpus_left = time_of @ taken <= 1.0, gpus_of @ taken <= sharing.gpus
    some = np.flatnonzero(scaled.promised > 0)
    in_promises = diags_array(1.0 / scaled.promised[some]) @ matrix[some]  # rates small or large
    kept = in_promises @ taken >= 1.0 if some.size else None
    rows = [row for row in (earned, time_left, gpus_left, kept) if row is not None]
    problem = cp.Problem(objective, rows + more)
    try:
        built, solved = _solve(problem, solver, options)
    except cp.SolverError as error:
        sure = certify(sharing, goal, no_prices(sharing))
        spent, nobody = time.perf_counter() - begin, np.zeros(jobs)
        return ShareSolution(
            shares=None,
            bound=sure.bound,
            proof=sure.prices,
            prices=None,
            tight=nobody,
            status=str(error),
            build_seconds=spent,
            solve_seconds=0.0,
        )
    promises = _prices(kept, some, jobs)
    promises[some] /= scaled.promised[some]
    prices = SharePrices(
        _prices(earned, counts, jobs),
        promises,
        _prices(gpus_left, np.arange(types), types),
        _prices(time_left, np.arange(jobs), jobs),
    )
    best = None
    if taken.value is not None:
        best = (columns * taken.value).reshape(lines, types)
        if isinstance(goal, Total):  # the slope of b / tau, closer than the solver's word
            rate = np.maximum(matrix @ taken.value, scaled.largest * LEAST_RATE)
            prices = prices._replace(rates=scaled.second / rate**2)
    tight, natural = prices.rates * scaled.second, _natural(prices, scaled)
    found = certify(sharing, goal, natural, promised)
    return ShareSolution(
        shares=best,
        bound=found.bound,
        proof=found.prices,
        prices=natural,
        tight=tight / (tight.sum() or 1.0),
        status=str(problem.status),
        build_seconds=built - begin,
        solve_seconds=solved - built,
    )


def _solve(problem: Any, solver: str, options: dict[str, Any]) -> tuple[float, float]:
    """Solve a program; return when it was translated, and when the solver was done."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate solution is certified by its prices
            data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
            built = time.perf_counter()
            found = chain.solve_via_data(problem, data, solver_opts=options)
            solved = time.perf_counter()
            problem.unpack_results(found, chain, inverse)
    except (TypeError, ValueError) as error:
        if not options:
            raise
        expected = f"settings of {solver} ({str(error).rstrip('.')})"
        raise ValueError(f"Time shares: options are {options}; expected {expected}.") from error
    return built, solved


def require_solver(solver: str) -> None:
    """Refuse a solver that CVXPY does not find.

    Raises
    ------
    ValueError
        With those that it finds.

    Examples
    --------
    >>> from goodalloc.formulations.gavel import require_solver
    >>> require_solver("CLARABEL")
    """
    require_choice("Time shares: solver", solver, tuple(cp.installed_solvers()))


def _natural(prices: SharePrices, scaled: _Scaled) -> SharePrices:
    """Return prices of scaled units in natural ones."""
    rate = scaled.unit / scaled.units
    return SharePrices(
        rate * prices.rates,
        rate * prices.promises,
        scaled.unit * prices.gpus,
        scaled.unit * prices.time,
    )


def _prices(row: Any, places: Indices, size: int) -> Floats:
    """Return the multipliers of a constraint, clipped at 0, at their places; 0 where there are
    none.
    """
    found = np.zeros(size)
    if row is not None and row.dual_value is not None:
        found[places] = np.maximum(np.nan_to_num(row.dual_value), 0.0)
    return found


def _scaled(sharing: TimeSharing, goal: Goal, promised: Float[Floats, " jobs"]) -> _Scaled:
    jobs, lines, types = sharing.num_jobs, sharing.num_lines, sharing.num_types
    members = sharing.members
    first, second, worth, unit = np.zeros(jobs), np.zeros(jobs), np.zeros((lines, types)), 1.0
    largest = largest_rates(sharing)
    units, columns = largest, np.ones(jobs)
    crowd = np.maximum(sharing.replicas * jobs / sharing.gpus.max(), 1.0)
    if isinstance(goal, Gain):
        unit = float(goal.worth.max()) or 1.0
        worth = goal.worth / unit
    else:
        first, second = (
            (goal.floor, goal.step) if isinstance(goal, Level) else (goal.delay, goal.work)
        )
        sure = second / largest * crowd  # about what there is without anybody else's harm
        unit = float(sure.sum() if isinstance(goal, Total) else sure.max()) or 1.0
        if _linear(goal):  # rates in steps, shares of those with little work in small units
            units = np.where(second > 0, second / unit, largest)
            columns = np.minimum(units / largest, 1.0)
        second = second / units / unit
        first = first / (units if isinstance(goal, Level) else unit)
        unit = 1.0 / unit if isinstance(goal, Level) else unit
    matrix = rate_matrix(sharing, units)
    columns = np.append(columns, 0.0)[members].max(axis=1)
    return _Scaled(
        units=units,
        largest=largest / units,
        matrix=matrix,
        columns=columns,
        first=first,
        second=second,
        worth=worth,
        promised=promised / units,
        unit=unit,
    )


def _linear(goal: Goal) -> bool:
    """Whether a goal is a level, or the inverse of one."""
    return isinstance(goal, Level) or (isinstance(goal, Worst) and not goal.delay.any())


def rate_matrix(sharing: TimeSharing, units: Float[Floats, " jobs"]) -> Any:
    """Return T in units of every job, sparse, shape (jobs, lines × types).

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> import numpy as np
    >>> from goodalloc.formulations.gavel import rate_matrix
    >>> rate_matrix(sharing, units=np.ones(2)).toarray().tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    members, types = sharing.members, sharing.num_types
    rate = sharing.line_rate / np.append(units, 1.0)[members][:, None, :]
    line, kind, place = np.nonzero(rate)
    return coo_array(
        (rate[line, kind, place], (members[line, place], line * types + kind)),
        shape=(sharing.num_jobs, sharing.num_lines * types),
    ).tocsr()


def incidence(sharing: TimeSharing) -> tuple[Any, Any]:
    """Return the job whose time, and the type whose GPUs, every share takes; sparse.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> from goodalloc.formulations.gavel import incidence
    >>> jobs, types = incidence(sharing)
    >>> jobs.toarray().tolist(), types.toarray().tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]])
    """
    lines, types = sharing.num_lines, sharing.num_types
    line, place = np.nonzero(sharing.members >= 0)
    columns = (line[:, None] * types + np.arange(types)).ravel()
    rows = np.repeat(sharing.members[line, place], types)
    time_of = coo_array(
        (np.ones(columns.size), (rows, columns)), shape=(sharing.num_jobs, lines * types)
    )
    every = np.arange(lines * types)
    taken = np.repeat(sharing.line_replicas, types).astype(float)
    gpus_of = coo_array((taken, (every % types, every)), shape=(types, lines * types))
    return time_of.tocsr(), gpus_of.tocsr()


def _objective(
    goal: Goal, scaled: _Scaled, taken: Any, rate: Any, counts: Indices
) -> tuple[Any, Any, list[Any]]:
    """Return the objective, the constraint whose multipliers are nu, and auxiliary constraints."""
    if isinstance(goal, Gain):
        worth = (scaled.worth * scaled.columns[:, None]).ravel()
        return cp.Maximize(worth @ taken), None, []
    first, second = scaled.first[counts], scaled.second[counts]
    level = cp.Variable()
    if _linear(goal):
        floor = first if isinstance(goal, Level) else 0.0
        return cp.Maximize(level), rate >= floor + second * level, []
    needed = cp.Variable(counts.size)
    delays = cp.multiply(second, cp.inv_pos(needed))
    if isinstance(goal, Total):
        return cp.Minimize(cp.sum(delays)), needed <= rate, []
    return cp.Minimize(level), needed <= rate, [delays <= level - first]
