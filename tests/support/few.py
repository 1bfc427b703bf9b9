"""Parameters of which a few are tried every time, and all with the tests that are marked slow."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], count: int) -> list[Any]:
    """The values of one parameter, all but the first so many of them marked slow."""
    return [
        value if place < count else pytest.param(value, marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]
