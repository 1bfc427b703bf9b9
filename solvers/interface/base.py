"""Contract of a solver, and table of the solvers that ship."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.support.dotted_path import load_callable
from goodalloc.models.support.error_origin import described
from goodalloc.models.support.validation import did_you_mean
from goodalloc.solvers.interface.result import Answer, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.models.round.instance import Instance

    #: Values that a solver may return; see `Solver`.
    Reply = Answer | Allocation | Result | NDArray[Any] | Sequence[Sequence[int]] | None


class Solver(Protocol):
    """Callable that decides a round.

    It takes an instance and, by keyword, any of `stop`, `seed` and `start` and options of its own;
    `call_solver` leaves out those of the contract that it does not take. It returns an `Answer`, an
    `Allocation`, a matrix of whole numbers (jobs by nodes), the `Result` of another solver that it
    called, or None for no allocation.
    """

    def __call__(self, instance: Instance, /, *args: Any, **options: Any) -> Reply: ...


SYNERGY = "goodalloc.solvers.sia_and_synergy.synergy"

#: Shipped solvers and their paths by name; read-only, because their bounds are believed.
SOLVERS = MappingProxyType(
    {
        "highs": "goodalloc.solvers.exact.highs:solve_highs",
        "pyomo": "goodalloc.solvers.exact.pyomo_solver:solve_pyomo",
        "brute_force": "goodalloc.solvers.exact.brute_force:solve_brute_force",
        "convex": "goodalloc.solvers.heuristics.convex:solve_convex",
        "knapsack": "goodalloc.solvers.heuristics.knapsack:solve_knapsack",
        "genetic": "goodalloc.solvers.genetic.solver:solve_genetic",
        "greedy": "goodalloc.solvers.heuristics.greedy:solve_greedy",
        "local_search": "goodalloc.solvers.heuristics.local_search:solve_local_search",
        "best_fit": "goodalloc.solvers.pods.best_fit:solve_best_fit",
        "fgd": "goodalloc.solvers.pods.fragmentation:solve_fgd",
        "pods": "goodalloc.solvers.pods.solver:solve_pods",
        "sia": "goodalloc.solvers.sia_and_synergy.sia:solve_sia",
        "synergy_opt": "goodalloc.solvers.sia_and_synergy.synergy_opt:solve_synergy_opt",
        "synergy_tune": f"{SYNERGY}:solve_synergy_tune",
        "synergy_proportional": f"{SYNERGY}:solve_synergy_proportional",
        "synergy_greedy": f"{SYNERGY}:solve_synergy_greedy",
    }
)

#: Entry-point group under which other packages may register solvers.
ENTRY_POINT_GROUP = "goodalloc.solvers"


def solver_names() -> tuple[str, ...]:
    """Return the names that `find_solver` knows: shipped solvers and registered entry points.

    Examples
    --------
    >>> from goodalloc.solvers import solver_names
    >>> solver_names()[:3]
    ('highs', 'pyomo', 'brute_force')
    """
    registered = (point.name for point in entry_points(group=ENTRY_POINT_GROUP))
    return tuple(dict.fromkeys((*SOLVERS, *registered)))


def find_solver(name: str) -> Callable[..., Any]:
    """Return the solver of a name, an entry point or a path ``package.module:function``.

    Raises
    ------
    ValueError
        If no solver has that name, or the path does not lead to a callable.

    Examples
    --------
    >>> from goodalloc.solvers.interface import find_solver
    >>> find_solver("greedy").__name__
    'solve_greedy'
    """
    path = SOLVERS.get(name, name if name in SOLVERS.values() else None)
    if path is None:
        for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
            return cast("Callable[..., Any]", point.load())
        if ":" not in name:
            known = ", ".join(solver_names())
            raise ValueError(
                f"Solver '{name}' is unknown{did_you_mean(name, solver_names())}; expected one of "
                f"{known}, or package.module:function."
            )
        path = name
    return load_callable(path, f"Solver '{name}'")


def ships(solver: str | Solver) -> bool:
    """Return whether `solver` is one of `SOLVERS`, whose bounds are believed.

    Parameters
    ----------
    solver
        A name or dotted path, which is compared with the table as it stands, so that nothing is
        imported; or a function, which has to be the very object that ships, whatever it is called.

    Examples
    --------
    >>> from goodalloc.solvers.interface import ships
    >>> ships("highs"), ships(lambda instance: None)
    (True, False)
    """
    if isinstance(solver, str):
        return solver in SOLVERS or solver in SOLVERS.values()
    module, name = (getattr(solver, key, None) for key in ("__module__", "__qualname__"))
    path = f"{module}:{name}"
    return path in SOLVERS.values() and load_callable(path, f"Solver '{path}'") is solver


#: Arguments of the contract, all of them optional for a solver.
CONTRACT = ("stop", "seed", "start")


def call_solver(
    solver: Solver,
    instance: Instance,
    arguments: dict[str, Any],
    *,
    name: str | None = None,
) -> Answer:
    """Call a solver and make an `Answer` of its reply.

    Parameters
    ----------
    solver
        The function.
    instance
        The round.
    arguments
        Keyword arguments; those of the contract are left out where the solver does not take them.
    name
        Name of the solver in messages.

    Raises
    ------
    ValueError
        If the solver does not take one of the other arguments, or returns something else.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.interface import call_solver
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> call_solver(lambda instance: [[2]], instance, {"seed": 0}).allocation.placements()
    [((0, 2),)]
    """
    known_as = name or str(getattr(solver, "__name__", "solver"))
    known = _taken(solver, arguments, known_as)
    try:
        reply = solver(instance, **known)
    except Exception as error:
        if not ships(solver):
            error.add_note(f"raised by solver '{known_as}': {described(error)}")
        raise
    if isinstance(reply, Answer):
        return reply
    if isinstance(reply, Result):
        return Answer(reply.allocation, reply.bound, reply.bound_source, message=reply.message)
    if isinstance(reply, Allocation) or reply is None:
        return Answer(reply)
    if isinstance(reply, (np.ndarray, Sequence)) and not isinstance(reply, str):
        return Answer(Allocation.from_matrix(reply))
    raise ValueError(
        f"Solver '{known_as}' returned a {type(reply).__name__}; expected an Answer, an "
        "Allocation or a matrix of whole numbers, jobs by nodes."
    )


def _taken(solver: Solver, arguments: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the arguments that a solver takes; refuse others, except those of the contract."""
    try:
        first, *others = inspect.signature(solver).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Solver '{name}' is no function of one argument or more; expected one whose first "
            "argument is the instance."
        ) from error
    kinds = inspect.Parameter
    if any(parameter.kind is kinds.VAR_KEYWORD for parameter in (first, *others)):
        return arguments
    by_keyword = (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    named = [parameter.name for parameter in others if parameter.kind in by_keyword]
    for option in arguments:
        if option not in (*named, *CONTRACT):
            options = [parameter for parameter in named if parameter not in CONTRACT]
            expected = f"one of {', '.join(options)}" if options else "none"
            raise ValueError(
                f"Option '{option}' is unknown to solver '{name}'; expected {expected}."
            )
    return {option: value for option, value in arguments.items() if option in named}
