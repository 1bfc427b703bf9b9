"""Arrays of numbers from outside: what is none, or of another shape, is refused in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


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
