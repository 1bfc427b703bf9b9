"""The contract of a solver, and the table of those that ship."""

import importlib
import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.solvers.result import Answer
from goodalloc.solvers.stop import Stop


class Solver(Protocol):
    """A way to decide a round.

    A solver is any callable that takes an instance and, by keyword, as many of `stop`, `seed` and
    `start` as it cares for, and returns an `Answer`, an `Allocation`, or a matrix (jobs × nodes).
    """

    def __call__(
        self, instance: Instance, *, stop: Stop, seed: int, start: Allocation | None
    ) -> Answer: ...


#: Name of every solver that ships, and where it lives.
SOLVERS = {
    "highs": "goodalloc.solvers.highs:solve_highs",
    "pyomo": "goodalloc.solvers.pyomo_solver:solve_pyomo",
    "brute_force": "goodalloc.solvers.brute_force:solve_brute_force",
    "convex": "goodalloc.solvers.convex:solve_convex",
    "knapsack": "goodalloc.solvers.knapsack:solve_knapsack",
    "genetic": "goodalloc.solvers.genetic:solve_genetic",
    "greedy": "goodalloc.solvers.greedy:solve_greedy",
    "local_search": "goodalloc.solvers.local_search:solve_local_search",
}

#: Entry-point group under which other packages may register solvers.
ENTRY_POINT_GROUP = "goodalloc.solvers"


def solver_names() -> tuple[str, ...]:
    """Names that `find_solver` knows: those that ship and those registered by entry points."""
    registered = (point.name for point in entry_points(group=ENTRY_POINT_GROUP))
    return tuple(dict.fromkeys((*SOLVERS, *registered)))


def find_solver(name: str) -> Callable[..., Any]:
    """The solver of that name, entry point, or dotted path ``package.module:function``.

    Raises
    ------
    ValueError
        If there is none, or the path does not lead to a callable.
    """
    path = SOLVERS.get(name)
    if path is None:
        for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
            return cast("Callable[..., Any]", point.load())
        if ":" not in name:
            known = ", ".join(solver_names())
            raise ValueError(
                f"Solver '{name}' is unknown; expected one of {known}, or package.module:function."
            )
        path = name
    module_name, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"Solver '{name}' cannot be loaded: {error}.") from error
    if not callable(found):
        raise ValueError(f"Solver '{name}' is a {type(found).__name__}; expected a function.")
    return cast("Callable[..., Any]", found)


def call_solver(
    solver: Callable[..., Any], instance: Instance, arguments: dict[str, Any]
) -> Answer:
    """Call a solver with those of the arguments that it takes, and make an `Answer` of its reply."""
    parameters = inspect.signature(solver).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    known = {k: v for k, v in arguments.items() if takes_all or k in parameters}
    reply = solver(instance, **known)
    if isinstance(reply, Answer):
        return reply
    if isinstance(reply, Allocation) or reply is None:
        return Answer(reply)
    return Answer(Allocation.from_matrix(reply))
