"""Functions and classes named by dotted paths, as ``package.module:name``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable


def load_callable(path: str, item: str) -> Callable[..., Any]:
    """Return the object that a dotted path ``package.module:name`` leads to.

    Raises
    ------
    ValueError
        If `path` leads to nothing that can be called; the message begins with `item`.

    Examples
    --------
    >>> from goodalloc.models.support import load_callable
    >>> load_callable("math:sqrt", "Function")(16.0)
    4.0
    """
    module_name, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{item} cannot be loaded: {error}.") from error
    if not callable(found):
        raise ValueError(f"{item} is a {type(found).__name__}; expected a function.")
    return cast("Callable[..., Any]", found)
