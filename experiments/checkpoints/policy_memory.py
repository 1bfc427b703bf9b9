"""Memory of a policy as JSON, and its restoration in a policy that was made the same way.

Arguments of the policy are kept: functions, and of the dataclasses of goodalloc all that their
`__init__` takes, so that no file can determine the code that runs. Objects of the policy are
identified by their order, and get their fields back. A new object is of

- a class of objects that a user's policy was made with, or a dataclass, NamedTuple or Enum of the
  modules of these classes;
- a dataclass of `goodalloc.models` or `goodalloc.data`, or a NamedTuple or an Enum of goodalloc.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from enum import Enum
from logging import Logger
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import check_keys, check_list, shown
from goodalloc.experiments.checkpoints.object_fields import (
    class_name,
    field_values,
    is_data_class,
    is_named_tuple,
    is_plain,
    set_fields,
)
from goodalloc.experiments.checkpoints.row_reader import RowReader
from goodalloc.experiments.checkpoints.row_writer import RowWriter

if TYPE_CHECKING:
    from goodalloc.data.documents.json_file import Document

#: Modules of goodalloc.
OURS = re.compile(r"goodalloc\.(models|data|formulations|solvers|experiments)(\.\w+)+")

#: Modules whose dataclasses hold data; those of solvers may hold names of functions.
DATA = re.compile(r"goodalloc\.(models|data)(\.\w+)+")


class Memory:
    """Memory of an object.

    Parameters
    ----------
    owner
        The object, just made.
    """

    def __init__(self, owner: object) -> None:
        self._made: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._classes: dict[str, type] = {}
        self._meet(owner, set())
        self._owners = {
            number: _taken(made) for number, made in enumerate(self._made) if not _is_fixed(made)
        }

    def pack(self) -> Document:
        """Return the present memory in terms of JSON.

        Raises
        ------
        ValueError
            If a value cannot be stored; the message begins with the field.
        """
        writer = RowWriter(lambda value: self._numbers.get(id(value)), self._name)
        owners = []
        for number, taken in self._owners.items():
            owner = self._made[number]
            row: list[Any] = [class_name(type(owner))]
            for name, value in field_values(owner).items():
                try:
                    if name not in taken:
                        row += [name, writer.item(value)]
                    elif value is not taken[name]:
                        raise ValueError("another value than it was made with")
                except RecursionError as error:
                    raise ValueError(f"'{name}' is nested too deeply") from error
                except ValueError as error:
                    raise ValueError(f"'{name}' is or holds {error}") from error
            owners.append(row)
        return {"owners": owners, "rows": writer.rows}

    def unpack(self, document: object) -> None:
        """Restore a memory that `pack` returned.

        Raises
        ------
        ValueError
            If the document has other keys, objects or fields than the owner, or a class or value
            that is not allowed; or another error of Python's own, as in `RowReader.item`.
        """
        found = check_keys("Memory", document, ("owners", "rows"))
        owners = check_list("Memory: owners", found["owners"])
        reader = RowReader(check_list("Memory: rows", found["rows"]), self._made, self._class)
        for (number, taken), (kind, *parts) in zip(self._owners.items(), owners, strict=True):
            owner, names = self._made[number], parts[::2]
            if kind != class_name(type(owner)) or not taken.keys().isdisjoint(names):
                raise ValueError(f"fields of class {shown(kind)} are others than may be remembered")
            items = map(reader.item, parts[1::2])
            set_fields(owner, dict(zip(names, items, strict=True)), taken)

    def _meet(self, value: Any, met: set[int]) -> None:
        """Number the objects and functions that a value holds, in order of discovery."""
        kind = type(value)
        if id(value) in met:
            return
        met.add(id(value))
        parts: list[Any] = []
        if kind in (dict, MappingProxyType):
            parts = [part for pair in value.items() for part in pair]
        elif isinstance(value, (list, tuple)):
            parts = [*value]
        elif _is_fixed(value) or (is_plain(kind) and not isinstance(value, Enum)):
            self._numbers[id(value)] = len(self._made)
            self._made.append(value)
            parts = [] if _is_fixed(value) else [*field_values(value).values()]
        plain = is_plain(kind) or is_named_tuple(kind) or isinstance(value, Enum)
        if plain and not _is_fixed(value) and not OURS.fullmatch(kind.__module__):
            self._classes[class_name(kind)] = kind
        for part in parts:
            self._meet(part, met)

    def _name(self, kind: type) -> str:
        """Return the name by which `_class` finds a class."""
        name = class_name(kind)
        if self._find(name) is not kind:
            raise ValueError(f"a {kind.__name__}")
        return name

    def _class(self, name: object) -> type:
        """Return the class of a name, if new objects may be of it."""
        kind = self._find(name) if isinstance(name, str) else None
        if kind is None:
            raise ValueError(f"class {shown(name)} is none that a policy may remember")
        return kind

    def _find(self, name: str) -> type | None:
        """Return the class of a name, None if new objects may not be of it."""
        if name in self._classes:
            return self._classes[name]
        module, _, path = name.partition(":")
        ours = OURS.fullmatch(module) is not None
        if not ours and module not in {kind.__module__ for kind in self._classes.values()}:
            return None
        try:
            found: Any = importlib.import_module(module) if ours else sys.modules[module]
        except ImportError:
            return None
        for part in path.split("."):
            found = vars(found).get(part) if isinstance(found, (ModuleType, type)) else None
        if not isinstance(found, type) or class_name(found) != name or not is_data_class(found):
            return None
        harmless = not ours or DATA.fullmatch(module) or not dataclasses.is_dataclass(found)
        return found if harmless else None


def _is_fixed(value: object) -> bool:
    """Return whether a value cannot change: a function without closure, a class, a path."""
    if isinstance(value, FunctionType):
        return not value.__closure__
    if isinstance(value, BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    return isinstance(value, (type, ModuleType, PurePath, Logger))


def _taken(owner: object) -> dict[str, Any]:
    """Return the fields that `__init__` of dataclasses of goodalloc takes, which are kept."""
    ours = [base for base in type(owner).__mro__ if OURS.fullmatch(base.__module__)]
    names = {
        field.name
        for base in ours
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
        if field.init
    }
    return {name: value for name, value in field_values(owner).items() if name in names}
