"""Refusing arrays from outside: what is no numbers, or the first one that breaks a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.validation import literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.namespace import Array

    Floats = NDArray[np.float64]


def as_numbers(name: str, field: str, value: Array) -> Array:
    """Return a value as an array of numbers.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"{name}: {field} is {literal(value)}; expected a finite number.")
    return numbers


def real_array(item: str, values: object, *shapes: tuple[int, ...]) -> Floats:
    """A new array of numbers, of one of the shapes if any is named; they may be infinite or NaN.

    Parameters
    ----------
    item
        What they are, in the plural.
    values
        The numbers.
    shapes
        What is expected.

    Raises
    ------
    ValueError
        If they are not numbers, or have another shape.
    """
    given: Any = values
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        text = repr(values)
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(f"{item} are {shown}; expected an array of numbers.") from error
    if shapes and array.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{item} have shape {array.shape}; expected {expected}.")
    return array


def require_all(
    holds: Array, name: str, field: str, value: Array, expected: str, bound: Array = None
) -> None:
    """Refuse the first entry for which a condition does not hold.

    Parameters
    ----------
    holds
        The condition, entry by entry.
    name, field, value
        What is refused, and what the numbers are, of a shape that broadcasts to that of `holds`.
    expected
        In words.
    bound
        Numbers that `expected` refers to, shown behind it.

    Raises
    ------
    ValueError
        With the entry, its value and what was expected.
    """
    holds = np.asarray(holds)
    if holds.all():
        return
    index = tuple(int(i) for i in np.argwhere(~holds)[0])
    culprit = np.broadcast_to(np.asarray(value), holds.shape)[index]
    where = f"{name}{list(index)}" if index else name
    if bound is not None:
        expected = f"{expected} ({np.broadcast_to(np.asarray(bound), holds.shape)[index]})"
    raise ValueError(f"{where}: {field} is {culprit}; expected {expected}.")
