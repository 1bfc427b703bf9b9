"""Restoration of values from rows (`row_writer.py`), which runs no code that the rows determine.

Objects are only of the classes that the owner of the values allows. They are made from their
fields: neither a class nor a method is called, except `__hash__` and `__eq__` of keys.
"""

from __future__ import annotations

import base64
import math
import random
import struct
from collections import Counter, defaultdict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import shown
from goodalloc.experiments.checkpoints.object_fields import (
    check_declared,
    is_named_tuple,
    is_plain,
    set_fields,
)
from goodalloc.experiments.checkpoints.row_writer import ARRAY_TYPE, BIT_GENERATORS, FACTORIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Largest pool of a seed sequence in words; the default of NumPy is 4.
LARGEST_POOL = 64


class RowReader:
    """Reader of values from rows, which are not trusted.

    Parameters
    ----------
    rows
        The rows of a file.
    made
        Objects that the owner was made with.
    find
        Function that returns the class of a name, and refuses unknown names.
    """

    def __init__(
        self, rows: Sequence[Any], made: Sequence[object], find: Callable[[Any], type]
    ) -> None:
        self._rows, self._made, self._find = rows, made, find
        self._found: dict[int, Any] = {}
        self._open: set[int] = set()

    def item(self, item: Any) -> Any:
        """Return the value of an item.

        Raises
        ------
        ValueError
            If the item is of another form, or a row that it refers to is unknown, contains itself
            or is malformed; or TypeError, LookupError, ArithmeticError, RecursionError or
            MemoryError, where Python detects that first.
        """
        kind = type(item)
        if item is None or kind in (bool, int, str) or (kind is float and math.isfinite(item)):
            return item
        if kind is not list or len(item) != 1 or type(item[0]) is not int:
            raise ValueError(f"item is {shown(item)}; expected a number, a string or [row]")
        (number,) = item
        if number not in self._found:
            if number in self._open or not 0 <= number < len(self._rows):
                raise ValueError(f"row {shown(number)} is unknown or holds itself")
            self._open.add(number)
            name, *parts = self._rows[number]
            if name == "object":
                self._object(number, *parts)
            elif name in CONTAINERS:
                self._container(number, name, parts)
            else:
                self._found[number] = self._immutable(name, parts)
        return self._found[number]

    def _container(self, number: int, name: str, parts: list[Any]) -> None:
        """Make a container, which may hold itself, before its contents."""
        first = parts.pop(0) if name in ("deque", "defaultdict") else None
        found = self._found[number] = CONTAINERS[name](first)
        if name in ("list", "deque"):
            found.extend(map(self.item, parts))
        elif name == "set":
            found.update(map(self.item, parts))
        else:
            for key, value in self._pairs(parts):
                found[key] = value

    def _object(self, number: int, name: Any, *parts: Any) -> None:
        """Make a plain object, which may hold itself, before its fields."""
        kind = self._find(name)
        if not is_plain(kind):
            raise ValueError(f"class {name!r} has no fields")
        found: object = object.__new__(kind)
        self._found[number] = found
        fields = dict(self._pairs(parts))
        check_declared(kind, fields)
        set_fields(found, fields)

    def _pairs(self, parts: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
        """Return the keys and values of alternating items."""
        return zip(map(self.item, parts[::2]), map(self.item, parts[1::2]), strict=True)

    def _immutable(self, name: Any, parts: list[Any]) -> Any:
        """Return an immutable value of the kind `name`."""
        if name in OF_ITEMS:
            return OF_ITEMS[name](*map(self.item, parts))
        if name in OF_TEXT:
            return OF_TEXT[name](*parts)
        others: dict[str, Callable[..., Any]] = {
            "made": self._made_with,
            "enum": self._member,
            "namedtuple": self._named_tuple,
        }
        if name not in others:
            raise ValueError(f"row is a {shown(name)}, which is unknown")
        return others[name](*parts)

    def _made_with(self, number: Any) -> Any:
        """Return an object that the owner was made with."""
        return self._made[_count(number)]

    def _member(self, name: Any, member: str) -> Enum:
        """Return a member of an Enum."""
        kind = self._find(name)
        if not issubclass(kind, Enum):
            raise ValueError(f"class {name!r} has no members")
        return kind.__members__[member]

    def _named_tuple(self, name: Any, *parts: Any) -> Any:
        """Return a NamedTuple."""
        kind = self._find(name)
        if not is_named_tuple(kind) or len(parts) != len(kind._fields):  # type: ignore[attr-defined]
            raise ValueError(f"class {name!r} has other items than {len(parts)}")
        return tuple.__new__(kind, map(self.item, parts))


#: Functions that make an empty container, some from the first part of the row.
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda _: [],
    "set": lambda _: set(),
    "dict": lambda _: {},
    "Counter": lambda _: Counter(),
    "deque": lambda most: deque(maxlen=most),
    "defaultdict": lambda name: defaultdict(None if name is None else FACTORIES[name]),
}


def _count(value: Any) -> int:
    """Return a whole number of at least 0; refuse any other value."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{shown(value)} is no number of anything")
    return value


def _float(digits: str) -> float:
    """Return the float of eight bytes in hexadecimal."""
    (found,) = struct.unpack(">d", bytes.fromhex(digits))
    return float(found)


def _scalar(kind: str, content: str) -> Any:
    """Return a NumPy scalar of its type and its bytes in base64."""
    return _array(kind, content)[()]


def _array(
    kind: str, content: str, order: Any = "C", writeable: bool = True, *shape: int
) -> np.ndarray[Any, Any]:
    """Return an array of its type, its bytes in base64, its order and its shape."""
    if not ARRAY_TYPE.fullmatch(kind) or order not in ("C", "F"):
        raise ValueError(f"an array of type {shown(kind)} and order {shown(order)}")
    raw = base64.b64decode(content, validate=True)
    if math.prod(map(_count, shape)) * np.dtype(kind).itemsize != len(raw):
        raise ValueError(f"an array of shape {shown(shape)} has {len(raw)} bytes")
    found = np.ndarray(shape, kind, raw, order=order).copy("K")
    found.flags.writeable = bool(writeable)
    return found


def _generator(kind: str, state: Any, seeds: dict[str, Any]) -> np.random.Generator:
    """Return a generator of a state and of the arguments of its seed sequence."""
    if kind not in BIT_GENERATORS or not 0 < seeds["pool_size"] <= LARGEST_POOL:
        raise ValueError(f"random numbers of {shown(kind)}")
    source = getattr(np.random, kind)(np.random.SeedSequence(**seeds))
    source.state = state
    return np.random.Generator(source)


def _random(state: Any) -> random.Random:
    """Return a generator of Python with a state."""
    found = random.Random(0)
    found.setstate(state)
    return found


#: Functions that make a value of the values of its items, or of the parts of its row themselves.
OF_ITEMS: dict[str, Callable[..., Any]] = {
    "tuple": lambda *items: items,
    "frozenset": lambda *items: frozenset(items),
    "Generator": _generator,
    "Random": _random,
}
OF_TEXT: dict[str, Callable[..., Any]] = {"float": _float, "scalar": _scalar, "array": _array}
