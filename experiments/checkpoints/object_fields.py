"""Fields of Python objects, read and set without running any code of their classes.

An object is plain if it consists of its fields: `object.__new__` makes one, and properties,
`__init__`, `__setattr__`, `__reduce__` and the like are not involved.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from functools import cached_property
from inspect import getattr_static
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def class_name(kind: type) -> str:
    """Return module and name of a class as ``package.module:Name``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_plain(kind: type) -> bool:
    """Return whether objects of a class consist of their fields, without hidden state in C."""
    makers = [vars(base)["__new__"] for base in kind.__mro__[:-1] if "__new__" in vars(base)]
    in_python = all(isinstance(maker, staticmethod) for maker in makers)
    return in_python and (bool(kind.__dictoffset__) or bool(_slots(kind)))


def is_named_tuple(kind: type) -> bool:
    """Return whether a class is a NamedTuple."""
    return issubclass(kind, tuple) and isinstance(getattr_static(kind, "_fields", None), tuple)


def is_data_class(kind: type) -> bool:
    """Return whether a class is a plain dataclass, a NamedTuple or an Enum."""
    if issubclass(kind, Enum) or is_named_tuple(kind):
        return True
    return dataclasses.is_dataclass(kind) and is_plain(kind)


def field_values(owner: object) -> dict[str, Any]:
    """Return the fields of a plain object that have a value, without cached properties."""
    kind, found = type(owner), {}
    for name, slot in _slots(kind).items():
        try:
            found[name] = slot.__get__(owner, kind)
        except AttributeError:  # the slot has no value yet
            continue
    for name, value in _dict(owner).items():
        if not isinstance(getattr_static(kind, name, None), cached_property):
            found[name] = value
    return found


def check_declared(kind: type, names: Iterable[str]) -> None:
    """Refuse fields that a dataclass does not declare, or too few for its `__init__`.

    Raises
    ------
    ValueError
        If a name is not declared, or a field that `__init__` takes is missing.
    """
    if dataclasses.is_dataclass(kind):
        fields = {field.name: field.init for field in dataclasses.fields(kind)}
        odd = sorted({*names} - {*fields})
        odd += [name for name, taken in fields.items() if taken and name not in names]
        if odd:
            raise ValueError(
                f"field {odd[0]!r} is in only one of class '{class_name(kind)}' and its object"
            )


def set_fields(owner: object, values: Mapping[str, Any], kept: Iterable[str] = ()) -> None:
    """Set the fields of a plain object, and delete its other fields.

    Parameters
    ----------
    owner
        The object.
    values
        Its fields.
    kept
        Names of further fields, which are kept.

    Raises
    ------
    ValueError
        If a name is no identifier, or that of a method or property.
    """
    kind = type(owner)
    for name in values:
        if not _may_be_field(kind, name):
            raise ValueError(f"class '{class_name(kind)}' cannot have a field {name!r}")
    for name in {*field_values(owner), *_dict(owner)} - {*values, *kept}:
        object.__delattr__(owner, name)
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def _dict(owner: object) -> dict[str, Any]:
    """Return the `__dict__` of an object, empty if it has none."""
    return vars(owner) if type(owner).__dictoffset__ else {}


def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    """Return the slots that a class and its bases declare."""
    return {
        name: found
        for base in reversed(kind.__mro__)
        if "__slots__" in vars(base)
        for name, found in vars(base).items()
        if isinstance(found, MemberDescriptorType)
    }


def _may_be_field(kind: type, name: str) -> bool:
    """Return whether objects may have a field `name`, which hides no method and no property."""
    if not name.isidentifier() or (name.startswith("__") and name.endswith("__")):
        return False
    if name in _slots(kind):
        return True
    hidden = type(getattr_static(kind, name, None))
    return bool(kind.__dictoffset__) and not any(
        hasattr(hidden, method) for method in ("__get__", "__set__", "__delete__")
    )
