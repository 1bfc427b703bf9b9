"""One voice for refused numbers: the item, its value, what was expected."""

import math
from numbers import Integral, Real


def require_name(item: str, value: object) -> None:
    """Refuse anything but a non-empty string."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{item}: name is {value!r}; expected a non-empty string.")


def require_count(item: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Refuse anything but an integer of at least `minimum` (and at most `maximum`)."""
    expected = f"an integer of at least {minimum}"
    if maximum is not None:
        expected += f" and at most {maximum}"
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < minimum or (maximum is not None and int(value) > maximum):  # type: ignore[call-overload]
        raise ValueError(f"{item} is {value!r}; expected {expected}.")


def require_number(
    item: str, value: object, minimum: float = -math.inf, *, finite: bool = True, strict: bool = False
) -> None:
    """Refuse NaN, infinities (if `finite`) and numbers below `minimum` (or at it, if `strict`)."""
    relation = "above" if strict else "of at least"
    bound = "" if minimum == -math.inf else f" {relation} {minimum:g}"
    expected = f"a {'finite ' if finite else ''}number{bound}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{item} is {value!r}; expected {expected}.")
    number = float(value)
    bad = math.isnan(number) or (finite and math.isinf(number))
    if bad or number < minimum or (strict and number == minimum):
        raise ValueError(f"{item} is {value!r}; expected {expected}.")


def require_choice(item: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of the named choices."""
    if value not in choices:
        raise ValueError(f"{item} is {value!r}; expected one of {', '.join(choices)}.")


def require_flag(item: str, value: object) -> None:
    """Refuse anything but True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{item} is {value!r}; expected true or false.")
