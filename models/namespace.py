"""Which array library a formula runs on: numpy or jax.numpy, decided by its arguments."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

Array: TypeAlias = Any
"""A float, a numpy array or a jax array (also one being traced): the formulas serve all three."""


def leaves(value: object) -> Iterator[object]:
    """Yield the arrays of nested tuples (our named tuples of parameters) in order."""
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
