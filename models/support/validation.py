"""One voice for refused numbers: the item, its value, what was expected."""

from __future__ import annotations

import json
import math
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from goodalloc.models.support.array_types import Floats


#: Characters of a value that a message shows.
MOST_SHOWN = 60


def literal(value: object) -> str:
    """A value as a message shows it: cut short; true, false and null as files have them."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python writes
        return f"a huge {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


#: Characters of the longest name: as many as a file's may have.
LONGEST_NAME = 255


def require_name(item: str, value: object) -> None:
    """Refuse anything but a non-empty string of printable characters that a message can show."""
    good = isinstance(value, str) and value.strip() and value.isprintable()
    if not good or len(str(value)) > LONGEST_NAME:
        expected = f"a non-empty string of at most {LONGEST_NAME} printable characters"
        raise ValueError(f"{item}: name is {literal(value)}; expected {expected}.")


#: Counts beyond this are refused: they fit no array and no memory.
LARGEST_COUNT = 2**31 - 1


def require_count(item: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Refuse anything but an integer of at least `minimum` (and at most `maximum`)."""
    expected = f"an integer of at least {minimum}"
    number = (
        int(value) if isinstance(value, Integral) and not isinstance(value, bool) else minimum - 1
    )
    if maximum is not None or number > LARGEST_COUNT:
        expected += f" and at most {LARGEST_COUNT if maximum is None else maximum}"
    if not minimum <= number <= (LARGEST_COUNT if maximum is None else maximum):
        shown = (
            f"an integer of {number.bit_length()} bits"
            if number.bit_length() > 99
            else literal(value)
        )
        raise ValueError(f"{item} is {shown}; expected {expected}.")


def require_number(
    item: str,
    value: object,
    minimum: float = -math.inf,
    *,
    finite: bool = True,
    strict: bool = False,
) -> None:
    """Refuse NaN, infinities (if `finite`) and numbers below `minimum` (or at it, if `strict`)."""
    relation = "above" if strict else "of at least"
    bound = "" if minimum == -math.inf else f" {relation} {minimum:g}"
    expected = f"a finite number{bound}" if finite else f"a number{bound}, inf or -inf"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{item} is {literal(value)}; expected {expected}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    bad = math.isnan(number) or (finite and math.isinf(number))
    if bad or number < minimum or (strict and number == minimum):
        raise ValueError(f"{item} is {literal(value)}; expected {expected}.")


def require_share(item: str, value: object) -> None:
    """Raise unless a value is a number from 0 to 1."""
    require_number(item, value, 0.0)
    if isinstance(value, Real) and float(value) > 1.0:
        raise ValueError(f"{item} is {literal(value)}; expected a number from 0 to 1.")


def require_choice(item: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of the named choices."""
    if value not in choices:
        closest = did_you_mean(value, choices)
        raise ValueError(
            f"{item} is {literal(value)}{closest}; expected one of {', '.join(choices)}."
        )


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """The choices that a wrong one looks like, as a question in brackets; empty if none does."""
    closest = get_close_matches(value, [*choices], cutoff=0.7) if isinstance(value, str) else []
    return f" (did you mean {' or '.join(closest)}?)" if closest else ""


def require_flag(item: str, value: object) -> None:
    """Refuse anything but True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{item} is {literal(value)}; expected true or false.")


def as_numbers(name: str, field: str, value: object) -> NDArray[Any]:
    """Return a value as an array of numbers.

    Raises
    ------
    ValueError
        If it is none.
    """
    given: Any = value
    try:
        numbers = np.asarray(given)
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
    holds: ArrayLike,
    name: str,
    field: str,
    value: ArrayLike,
    expected: str,
    *,
    bound: ArrayLike | None = None,
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
    good = np.asarray(holds)
    if good.all():
        return
    index = tuple(int(i) for i in np.argwhere(~good)[0])
    culprit = np.broadcast_to(np.asarray(value), good.shape)[index]
    where = f"{name}{list(index)}" if index else name
    if bound is not None:
        expected = f"{expected} ({np.broadcast_to(np.asarray(bound), good.shape)[index]})"
    raise ValueError(f"{where}: {field} is {culprit}; expected {expected}.")
