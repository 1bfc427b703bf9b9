"""The fields of Python objects, read and set without running anything of their classes.

Plain are objects that consist of their fields: `object.__new__` makes one, and properties,
`__init__`, `__setattr__`, `__reduce__` and the like play no part.
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
    """Module and name of a class, as ``package.module:Name``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_plain(kind: type) -> bool:
    """Whether objects of a class consist of their fields, and nothing of them is hidden in C."""
    makers = [vars(base)["__new__"] for base in kind.__mro__[:-1] if "__new__" in vars(base)]
    in_python = all(isinstance(maker, staticmethod) for maker in makers)
    return in_python and (bool(kind.__dictoffset__) or bool(_slots(kind)))


def is_named_tuple(kind: type) -> bool:
    """Whether a class is a NamedTuple."""
    return issubclass(kind, tuple) and isinstance(getattr_static(kind, "_fields", None), tuple)


def is_data_class(kind: type) -> bool:
    """Whether a class is a dataclass, a NamedTuple or an Enum."""
    if issubclass(kind, Enum) or is_named_tuple(kind):
        return True
    return dataclasses.is_dataclass(kind) and is_plain(kind)


def field_values(owner: object) -> dict[str, Any]:
    """The fields of a plain object that have a value, without what cached properties keep."""
    kind, found = type(owner), {}
    for name, slot in _slots(kind).items():
        try:
            found[name] = slot.__get__(owner, kind)
        except AttributeError:  # it has no value yet
            continue
    for name, value in _dict(owner).items():
        if not isinstance(getattr_static(kind, name, None), cached_property):
            found[name] = value
    return found


def check_declared(kind: type, names: Iterable[str]) -> None:
    """Refuse, of a dataclass, other fields than it declares, or too few for its `__init__`.

    Raises
    ------
    ValueError
        With the class and the field.
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
    """Give a plain object these fields and no others.

    Parameters
    ----------
    owner
        The object.
    values
        Its fields.
    kept
        Names of further ones, which stay as they are.

    Raises
    ------
    ValueError
        If a name cannot be that of a field.
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
    return vars(owner) if type(owner).__dictoffset__ else {}


def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    """The slots that a class and its bases declare."""
    return {
        name: found
        for base in reversed(kind.__mro__)
        if "__slots__" in vars(base)
        for name, found in vars(base).items()
        if isinstance(found, MemberDescriptorType)
    }


def _may_be_field(kind: type, name: str) -> bool:
    """Whether objects may have a field of that name: one that hides no method and no property."""
    if not name.isidentifier() or (name.startswith("__") and name.endswith("__")):
        return False
    if name in _slots(kind):
        return True
    hidden = type(getattr_static(kind, name, None))
    return bool(kind.__dictoffset__) and not any(
        hasattr(hidden, method) for method in ("__get__", "__set__", "__delete__")
    )
