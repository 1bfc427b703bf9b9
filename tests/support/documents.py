"""Good documents made bad, a value at a time."""

from __future__ import annotations

import copy
from typing import Any

#: The keys and indices that lead to a value.
Place = tuple[str | int, ...]


def changed(good: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A good document with one value changed; `...` takes the key away."""
    document = copy.deepcopy(good)
    *path, last = place
    target: Any = document
    for key in path:
        target = target[key]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return document


#: What is wrong with any shipped document of models: where, the value, words of the sentence.
BAD_MODELS: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-profiles", "format is 'goodalloc-profiles'"),
    (("version",), 2, "version is 2; expected 1"),
    (("model",), {}, "'model' is unknown .*did you mean 'models'"),
    (("models",), {}, "models is {}; expected an object of models"),
]
