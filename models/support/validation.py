"""Validation of arguments with uniform messages: the item, its value, the expectation."""

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
    """Return a value as a message shows it: truncated; true, false and null as in files.

    Examples
    --------
    >>> from goodalloc.models.support import literal
    >>> literal(True)
    'true'
    """
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
    """Raise unless a value is a non-empty string of printable characters.

    Examples
    --------
    >>> from goodalloc.models.support import require_name
    >>> require_name("Job", "bert-7")
    """
    good = isinstance(value, str) and value.strip() and value.isprintable()
    if not good or len(str(value)) > LONGEST_NAME:
        expected = f"a non-empty string of at most {LONGEST_NAME} printable characters"
        raise ValueError(f"{item}: name is {literal(value)}; expected {expected}.")


#: Counts beyond this are refused: they fit no array and no memory.
LARGEST_COUNT = 2**31 - 1


def require_count(item: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise unless a value is an integer of at least `minimum` (and at most `maximum`).

    Examples
    --------
    >>> from goodalloc.models.support import require_count
    >>> require_count("Jobs", 3, 1)
    """
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
    """Raise on NaN, infinities (if `finite`) or numbers below `minimum` (or at it, if `strict`).

    Examples
    --------
    >>> from goodalloc.models.support import require_number
    >>> require_number("Age", 2.5, minimum=0.0)
    """
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
    """Raise unless a value is a number from 0 to 1.

    Examples
    --------
    >>> from goodalloc.models.support import require_share
    >>> require_share("Loss", 0.05)
    """
    require_number(item, value, 0.0)
    if isinstance(value, Real) and float(value) > 1.0:
        raise ValueError(f"{item} is {literal(value)}; expected a number from 0 to 1.")


def require_choice(item: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless a value is one of the named choices.

    Examples
    --------
    >>> from goodalloc.models.support import require_choice
    >>> require_choice("Search", "grid", ("integer", "grid"))
    """
    if value not in choices:
        closest = did_you_mean(value, choices)
        raise ValueError(
            f"{item} is {literal(value)}{closest}; expected one of {', '.join(choices)}."
        )


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """Return the choices similar to a wrong one as a question in brackets, empty if none is.

    Examples
    --------
    >>> from goodalloc.models.support import did_you_mean
    >>> did_you_mean("gird", ("integer", "grid"))
    ' (did you mean grid?)'
    """
    closest = get_close_matches(value, [*choices], cutoff=0.7) if isinstance(value, str) else []
    return f" (did you mean {' or '.join(closest)}?)" if closest else ""


def require_flag(item: str, value: object) -> None:
    """Raise unless a value is True or False.

    Examples
    --------
    >>> from goodalloc.models.support import require_flag
    >>> require_flag("Plain", True)
    """
    if not isinstance(value, bool):
        raise ValueError(f"{item} is {literal(value)}; expected true or false.")


def as_numbers(name: str, field: str, value: object) -> NDArray[Any]:
    """Return a value as an array of numbers.

    Raises
    ------
    ValueError
        If `value` is not an array of integers, floats or booleans.

    Examples
    --------
    >>> from goodalloc.models.support import as_numbers
    >>> as_numbers("Job", "sizes", [1, 2])
    array([1, 2])
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
    """Return a new array of numbers, possibly infinite or NaN, of one of the given shapes.

    Parameters
    ----------
    item
        Name of the values in a message, in the plural.
    values
        Numbers.
    shapes
        Allowed shapes; any if none is given.

    Raises
    ------
    ValueError
        If `values` are not numbers, or have another shape.

    Examples
    --------
    >>> from goodalloc.models.support import real_array
    >>> real_array("Sizes", [1, 2], (2,))
    array([1., 2.])
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
    """Raise for the first entry for which a condition does not hold.

    Parameters
    ----------
    holds
        Condition, entry by entry.
    name, field, value
        Name of the item, name of the numbers, and the numbers, which broadcast to `holds`.
    expected
        Expectation, in words.
    bound
        Numbers that `expected` refers to, shown behind it.

    Raises
    ------
    ValueError
        If `holds` is False anywhere; the message names the first such entry and its value.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.support import require_all
    >>> gpus = np.array([1, 2])
    >>> require_all(gpus > 0, "Nodes", "gpus", gpus, "above 0")
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
