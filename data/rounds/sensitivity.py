"""Sensitivity of training to CPU and memory: the models that Synergy (OSDI'22) profiled.

A step waits for the slower of two stages: preparing examples on the CPU cores and fetching them
from the memory that caches them. Relative to some share of a server,

    W(c, m) = min(f(c), g(m))

with *c* cores and *m* GB a GPU; *f* and *g* do not fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import as_float, check_keys, check_list, shown
from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.support.validation import require_choice, require_name, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.support.array_types import Floats


FORMAT = "goodalloc-sensitivity"
VERSION = 1

#: Where they ship.
SHIPPED = "profiles/sensitivity.json"

#: What a model may train on, in the order of Synergy's splits.
CLASSES = ("image", "language", "speech")


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """Relative throughput of a model on a grid of cores and memory per GPU.

    Parameters
    ----------
    name
        Name of the model.
    kind
        One of `CLASSES`.
    cpus, memory
        The grid: cores and GB per GPU, shapes (cpus,) and (memory,), ascending.
    by_cpus, by_memory
        The stages *f* and *g* on the grid, the same shapes, not falling, above 0.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    kind: str
    cpus: Floats
    memory: Floats
    by_cpus: Floats
    by_memory: Floats

    def __post_init__(self) -> None:
        require_name("Sensitivity", self.name)
        item = f"Sensitivity of '{self.name}'"
        require_choice(f"{item}: class", self.kind, CLASSES)
        for axis, stage in (("cpus", "by_cpus"), ("memory", "by_memory")):
            _check_axis(f"{item}: {axis}", getattr(self, axis))
            _check_stage(f"{item}: {stage}", getattr(self, stage), getattr(self, axis).size)

    @property
    def throughput(self) -> Floats:
        """``W`` on the grid, shape (cpus, memory)."""
        return np.minimum.outer(self.by_cpus, self.by_memory)


def _check_axis(item: str, axis: Floats) -> None:
    """Refuse an axis of the grid that is empty or does not rise; make it read-only."""
    _check_numbers(item, axis)
    if (np.diff(axis) <= 0).any():
        raise ValueError(f"{item} are {axis.tolist()}; expected a rise.")


def _check_stage(item: str, stage: Floats, size: int) -> None:
    """Refuse a stage of another size, or one that falls; make it read-only."""
    _check_numbers(item, stage)
    if stage.size != size:
        raise ValueError(f"{item} has {stage.size} entries; expected {size}, one a grid point.")
    if (np.diff(stage) < 0).any():
        raise ValueError(f"{item} is {stage.tolist()}; expected no fall.")


def _check_numbers(item: str, values: Floats) -> None:
    if values.ndim != 1 or not values.size:
        raise ValueError(f"{item} has shape {values.shape}; expected a list of numbers.")
    for value in values.tolist():
        require_number(item, value, minimum=0.0, strict=True)
    values.flags.writeable = False


def parse_sensitivities(text: str) -> dict[str, Sensitivity]:
    """Read sensitivities in the format of `profiles/README.md`, in the order of their names.

    Raises
    ------
    ValueError
        If the format or version differs, a field is missing, or a number is out of range.
    """
    document = parse_document(text, FORMAT, VERSION)
    check_keys("Sensitivities", document, (*_HEAD, "cpus", "memory", "models"))
    grid = {axis: _numbers(f"Sensitivities: {axis}", document[axis]) for axis in ("cpus", "memory")}
    models = document["models"]
    if not isinstance(models, dict) or not models:
        raise ValueError(f"Sensitivities: models is {shown(models)}; expected an object of models.")
    return {name: _sensitivity(name, models[name], grid) for name in sorted(models)}


_HEAD = ("format", "version", "source")


def _sensitivity(name: str, entry: object, grid: Mapping[str, Floats]) -> Sensitivity:
    """Return one model from its entry."""
    item = f"Sensitivity of '{name}'"
    found = check_keys(item, entry, ("class", "by_cpus", "by_memory"))
    stages = {key: _numbers(f"{item}: {key}", found[key]) for key in ("by_cpus", "by_memory")}
    return Sensitivity(name=name, kind=found["class"], **grid, **stages)


def _numbers(item: str, value: object) -> Floats:
    """Return a list of finite numbers above 0, checked."""
    numbers: list[Any] = [as_float(entry) for entry in check_list(item, value)]
    for number in numbers:
        require_number(item, number, minimum=0.0, strict=True)
    return np.array(numbers, dtype=float)


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Sensitivity]:
    """Return the shipped sensitivities, read once."""
    return parse_sensitivities(read_shipped(SHIPPED))


def sensitivity_names() -> tuple[str, ...]:
    """Return the names of the shipped models in alphabetical order."""
    return tuple(_shipped())


def load_sensitivity(name: str) -> Sensitivity:
    """Return a shipped model.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    require_choice("Sensitivity: model", name, sensitivity_names())
    return _shipped()[name]
