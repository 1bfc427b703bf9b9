"""Values as rows of JSON: every container is a row of its own, so that what is shared stays so.

An item is what JSON knows (null, true, false, a string, a whole or a finite number), or ``[n]``,
the value of row *n*. A row begins with its kind:

- ``list``, ``tuple``, ``set``, ``frozenset``, and ``deque`` with its greatest length: items;
- ``dict``, ``Counter``, and ``defaultdict`` with the name of its factory: a key, its value, …;
- ``float``: the bytes of one that JSON does not know, in hexadecimal;
- ``array`` and ``scalar``, NumPy's: type, shape, order and whether it can be written to (of an
  array only), and the bytes in base64;
- ``Generator`` and ``Random``, of NumPy and Python: the state of random numbers;
- ``namedtuple``, ``enum``, ``object``: the name of a class, then items, a member, or a field, its
  value, …;
- ``made``: number of something that the owner of the values was made with, as functions are.

`row_reader.py` makes the values again, and runs nothing.
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

Row = list[Any]

#: Python writes whole numbers of up to 4300 digits.
LARGEST_BITS = 14_000

#: What a defaultdict may make of nothing.
FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (bool, int, float, str, list, tuple, set, dict, Counter)
}

#: Those whose state holds no place in a table: a wrong one would be read past its end.
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "SFC64")

#: Types of arrays without objects: numbers, dates, text.
ARRAY_TYPE = re.compile(r"[<>|=][biufcmMSU]\d+(\[\w+\])?")


class RowWriter:
    """Collects rows.

    Parameters
    ----------
    number
        Gives the number of what the owner was made with, None for anything else.
    name
        Gives the name by which a reader finds a class; refuses those that it would not find.

    Attributes
    ----------
    rows
        So far.
    """

    def __init__(self, number: Callable[[object], int | None], name: Callable[[type], str]) -> None:
        self.rows: list[Row] = []
        self._number, self._name = number, name
        self._rows: dict[int, int] = {}
        self._open: set[int] = set()
        self._values: list[object] = []  # kept, so that no other gets their id

    def item(self, value: Any) -> Any:
        """A value as an item.

        Raises
        ------
        ValueError
            If no row can hold it.
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
        return [self.item(part) for pair in value.items() for part in pair]

    def _object(self, value: Any, kind: type) -> Row:
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
    factory = value.default_factory
    names = [name for name, known in FACTORIES.items() if known is factory]
    if factory is not None and not names:
        raise ValueError(f"a defaultdict of {factory!r}")
    return names[0] if names else None


def _array_row(value: Any) -> Row:
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
    """Name and state of a bit generator, and the arguments of the seeds that others spawn from."""
    source = value.bit_generator
    kind, seeds = type(source).__name__, source.seed_seq
    if kind not in BIT_GENERATORS or type(seeds) is not np.random.SeedSequence:
        raise ValueError(f"a Generator of {kind}; expected one of {', '.join(BIT_GENERATORS)}")
    return kind, source.state, seeds.state
