"""Formulas and loops that run on NumPy or JAX arrays, depending on their arguments.

Loops run as plain Python on numpy arrays and compiled on jax arrays.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from goodalloc.models.support.array_types import Array


def leaves(value: object) -> Iterator[object]:
    """Yield the arrays of nested tuples (our named tuples of parameters) in order.

    Examples
    --------
    >>> from goodalloc.models.support import leaves
    >>> list(leaves((1, (2, 3))))
    [1, 2, 3]
    """
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def namespace(*values: object) -> ModuleType:
    """Return `jax.numpy` when any argument holds a jax array, else `numpy`.

    jax is never imported here: an argument can only be a jax array once jax is loaded, so a
    caller who works in numpy pays neither the import nor a compilation.
    """
    jax = sys.modules.get("jax")
    array_type = getattr(jax, "Array", None)
    if array_type is not None and any(isinstance(leaf, array_type) for leaf in leaves(values)):
        jax_numpy: ModuleType = sys.modules["jax.numpy"]
        return jax_numpy
    return np


COMPACTED = 1024
"""Number of lanes from which a compiled loop treats the last active ones apart."""


SHARE = 8
"""Inverse of the share of active lanes at which that begins."""


State = TypeVar("State")


Fixed = TypeVar("Fixed")


def repeat(xp: ModuleType, count: int, body: Callable[[Any, State], State], state: State) -> State:
    """Apply `body` for the indices 0 to count - 1, as one compiled loop in jax.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.support import repeat
    >>> repeat(np, 4, lambda index, total: total + index, 0)
    6
    """
    if xp.__name__ == "numpy":
        for index in range(count):
            state = body(index, state)
        return state
    from jax import lax

    result: State = lax.fori_loop(0, count, body, state)
    return result


def advance(
    active: Callable[[Fixed, State], Array],
    step: Callable[[Fixed, State], State],
    fixed: Fixed,
    state: State,
    rarely: bool = False,
) -> State:
    """Apply `step` to each lane for as long as it is active.

    In jax this is one compiled loop over all lanes, which holds still those that are done; in
    numpy only the active lanes are taken along.

    Parameters
    ----------
    active
        Function that returns the flags of the lanes of a state that continue.
    step
        Function from the fixed arrays and the present state, with the same lanes, to the next one.
    fixed, state
        Nested named tuples of arrays with the lanes as their only axis.
    rarely
        Whether few lanes need more than one or two steps: the compiled loop then goes on with
        those alone, at the price of compiling the step twice.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.support import advance
    >>> def below(limit, value):
    ...     return value < limit
    >>> advance(below, lambda limit, value: value * 2, np.array([5, 9]), np.array([1, 1]))
    array([ 8, 16])
    """
    if namespace(fixed, state).__name__ != "numpy":
        return _advance_compiled(active, step, fixed, state, rarely)
    state = _combine(np.array, state)
    while (on := active(fixed, state)).any():
        lanes = slice(None) if on.all() else np.flatnonzero(on)
        part = step(_take(fixed, lanes), _take(state, lanes))
        for target, source in zip(leaves(state), leaves(part), strict=True):
            target[lanes] = source  # type: ignore[index]
    return state


def _advance_compiled(
    active: Callable[[Fixed, State], Array],
    step: Callable[[Fixed, State], State],
    fixed: Fixed,
    state: State,
    rarely: bool,
) -> State:
    """Advance all lanes while many are active, then the few remaining ones by themselves."""
    import jax.numpy as jnp
    from jax import lax

    def loop(steady: Fixed, start: State, few: int) -> State:
        def going(now: State) -> Array:
            return jnp.sum(active(steady, now)) > few

        def body(old: State) -> State:
            on = active(steady, old)
            return _combine(lambda new, was: jnp.where(on, new, was), step(steady, old), old)

        moved: State = lax.while_loop(going, body, start)
        return moved

    size = next(iter(leaves(state))).size  # type: ignore[attr-defined]
    if not rarely or size < COMPACTED:
        return loop(fixed, state, 0)
    few = size // SHARE
    state = loop(fixed, state, few)
    # spare places repeat the last lane, which comes to the same result in all of them
    indices = jnp.nonzero(active(fixed, state), size=few, fill_value=size - 1)[0]
    part = loop(_take(fixed, indices), _take(state, indices), 0)
    return _combine(lambda all_lanes, some: all_lanes.at[indices].set(some), state, part)


def _take(tree: Fixed, lanes: Array | slice) -> Fixed:
    """Pick some lanes of nested named tuples."""
    return _combine(lambda array: array[lanes], tree)


def _combine(function: Callable[..., Any], *trees: Fixed) -> Fixed:
    """Apply a function to the arrays of nested named tuples of one structure."""
    if isinstance(trees[0], tuple):
        return type(trees[0])(*(_combine(function, *parts) for parts in zip(*trees, strict=True)))
    result: Fixed = function(*trees)
    return result
