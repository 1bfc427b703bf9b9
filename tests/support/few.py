"""Parameters of which some are tried every time, and all with the tests that are marked slow."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], count: int) -> list[Any]:
    """The values of one parameter, all but the first so many of them marked slow."""
    kept = list(values)
    return kept[:count] + slow_where(kept[count:], lambda _: True)


def slow_where(values: Iterable[Any], slow: Callable[[Any], bool]) -> list[Any]:
    """The values of one parameter, those marked slow of which a function says so."""
    return [
        pytest.param(value, marks=pytest.mark.slow) if slow(value) else value for value in values
    ]
