"""Values as rows of JSON, one row per container, so that shared containers remain shared.

An item is a value of JSON (null, true, false, a string, a whole or a finite number), or ``[n]``,
the value of row *n*. A row begins with its kind:

- ``list``, ``tuple``, ``set``, ``frozenset``, and ``deque`` with its greatest length: items;
- ``dict``, ``Counter``, and ``defaultdict`` with the name of its factory: a key, its value, …;
- ``float``: the bytes, in hexadecimal, of a number that JSON does not have;
- ``array`` and ``scalar``, of NumPy: type, bytes in base64, and of an array order, whether it is
  writeable, and shape;
- ``Generator`` and ``Random``, of NumPy and Python: the state of random numbers;
- ``namedtuple``, ``enum``, ``object``: the name of a class, then items, a member, or a field, its
  value, …;
- ``made``: number of an object that the owner of the values was made with, such as a function.

`row_reader.py` restores the values, and runs no code that the rows determine.
"""

from __future__ import annotations

import base64
import math
import random
import re
import struct
from collections import Counter, defaultdict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.checkpoints.object_fields import (
    check_declared,
    field_values,
    is_named_tuple,
    is_plain,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Kind of a value, and its parts.
Row = list[Any]

#: Most bits of a whole number: Python writes up to 4300 digits.
LARGEST_BITS = 14_000

#: Factories that a defaultdict may have.
FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (bool, int, float, str, list, tuple, set, dict, Counter)
}

#: Bit generators without a position in a table, which in a damaged state would be out of bounds.
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "SFC64")

#: Types of arrays without objects: numbers, dates, text.
ARRAY_TYPE = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?")


class RowWriter:
    """Writer of values as rows.

    Parameters
    ----------
    number
        Function that returns the number of an object that the owner was made with, else None.
    name
        Function that returns the name by which a reader finds a class, and refuses other classes.

    Attributes
    ----------
    rows
        The rows so far.
    """

    def __init__(self, number: Callable[[object], int | None], name: Callable[[type], str]) -> None:
        self.rows: list[Row] = []
        self._number, self._name = number, name
        self._rows: dict[int, int] = {}
        self._open: set[int] = set()
        self._values: list[object] = []  # kept, so that their ids are not reused

    def item(self, value: Any) -> Any:
        """Return a value as an item, after adding the rows that it needs.

        Raises
        ------
        ValueError
            If no row can hold the value.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
                raise ValueError(f"a whole number of {value.bit_length()} bits")
            return value
        row = self._rows.get(id(value))
        if row is None:
            row = self._rows[id(value)] = len(self.rows)
            self._values.append(value)
            self.rows.append([])
            self._open.add(row)
            self.rows[row] = self._row(value, kind)
            self._open.discard(row)
        elif row in self._open and isinstance(value, (tuple, frozenset)):
            raise ValueError(f"a {kind.__name__} that holds itself")
        return [row]

    def _row(self, value: Any, kind: type) -> Row:
        """Return the row of a value."""
        number = self._number(value)
        if number is not None:
            return ["made", number]
        if kind in (list, tuple, set, frozenset):
            return [kind.__name__, *map(self.item, value)]
        if kind is deque:
            return ["deque", value.maxlen, *map(self.item, value)]
        if kind in (dict, Counter):
            return [kind.__name__, *self._pairs(value)]
        if kind is defaultdict:
            return ["defaultdict", _factory_name(value), *self._pairs(value)]
        if kind is float:
            return ["float", struct.pack(">d", value).hex()]
        if kind is np.ndarray or isinstance(value, np.generic):
            return _array_row(value)
        if kind is np.random.Generator:
            return ["Generator", *map(self.item, _generator_state(value))]
        if kind is random.Random:
            return ["Random", self.item(value.getstate())]
        return self._object(value, kind)

    def _pairs(self, value: dict[Any, Any]) -> Row:
        """Return alternating items of keys and values."""
        return [self.item(part) for pair in value.items() for part in pair]

    def _object(self, value: Any, kind: type) -> Row:
        """Return the row of a member of an Enum, a NamedTuple or a plain object."""
        if isinstance(value, Enum):
            if value.name not in kind.__members__:  # type: ignore[attr-defined]
                raise ValueError(f"several members of {kind.__name__} in one")
            return ["enum", self._name(kind), value.name]
        if is_named_tuple(kind):
            return ["namedtuple", self._name(kind), *map(self.item, value)]
        if not is_plain(kind):
            name = getattr(value, "__qualname__", "")
            raise ValueError(f"a {kind.__name__}{f' {name!r}' if name else ''}")
        fields = field_values(value)
        check_declared(kind, fields)
        return ["object", self._name(kind), *self._pairs(fields)]


def _factory_name(value: defaultdict[Any, Any]) -> str | None:
    """Return the name of the factory of a defaultdict, None if it has none."""
    factory = value.default_factory
    names = [name for name, known in FACTORIES.items() if known is factory]
    if factory is not None and not names:
        raise ValueError(f"a defaultdict of {factory!r}")
    return names[0] if names else None


def _array_row(value: Any) -> Row:
    """Return the row of an array or a scalar."""
    array = np.asarray(value)
    kind, flags = array.dtype.str, array.flags
    if array.dtype.fields or not ARRAY_TYPE.fullmatch(kind):
        raise ValueError(f"an array of type {array.dtype}")
    order: Any = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    content = base64.b64encode(array.tobytes(order)).decode()
    if isinstance(value, np.generic):
        return ["scalar", kind, content]
    return ["array", kind, content, order, flags.writeable, *array.shape]


def _generator_state(value: np.random.Generator) -> tuple[Any, ...]:
    """Return name and state of a bit generator, and the arguments of its seed sequence."""
    source = value.bit_generator
    kind, seeds = type(source).__name__, source.seed_seq
    if kind not in BIT_GENERATORS or type(seeds) is not np.random.SeedSequence:
        raise ValueError(f"a Generator of {kind}; expected one of {', '.join(BIT_GENERATORS)}")
    return kind, source.state, seeds.state
