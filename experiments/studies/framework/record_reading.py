"""Records of a study, read back from the cells that `records.columns_of` made of them."""

from __future__ import annotations

import math
import types
import typing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from goodalloc.data.workloads.generator import Requests
from goodalloc.experiments.reporting.estimates import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Types of columns, by the names that records have for them where only type checkers import these.
NAMES: Mapping[str, Any] = {"Estimate": Estimate, "Requests": Requests}

RecordT = TypeVar("RecordT", bound=tuple[Any, ...])


def row_type(rows: Callable[..., Any], shown: Callable[..., Any] | None = None) -> Any:
    """Return the type of the rows that a function is annotated to return: ``list[TYPE]``.

    Parameters
    ----------
    rows
        The function.
    shown
        Function that is annotated to take them as ``rows``, where `rows` is a lambda.
    """
    function: Any = rows.func if isinstance(rows, partial) else rows
    annotation = function.__annotations__.get("return")
    if annotation is None:
        function = shown
        annotation = function.__annotations__["rows"]
    return function.__globals__[annotation.removeprefix("list[").removesuffix("]")]


def read_record(kind: type[RecordT], cells: Mapping[str, str]) -> RecordT:
    """Return a record whose columns are cells of text, as `columns_of` made them.

    Parameters
    ----------
    kind
        Type of the record, a named tuple.
    cells
        Its cells by column; other columns are left out, and one that the study had not yet when the
        result was stored is blank.

    Raises
    ------
    ValueError
        If a cell is none of its type.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from goodalloc.experiments.reporting import Estimate
    >>> from goodalloc.experiments.studies.framework.record_reading import read_record
    >>> class Row(NamedTuple):
    ...     policy: str
    ...     hours: Estimate
    ...     published_hours: float | None
    ...
    >>> cells = {"policy": "fifo", "hours": "2.0", "hours_half_width": "0.5", "published_hours": ""}
    >>> read_record(Row, cells)
    Row(policy='fifo', hours=Estimate(mean=2.0, half_width=0.5), published_hours=None)
    """
    values = {}
    records = (type(value) for value in getattr(kind, "_field_defaults", {}).values())
    known = dict(NAMES) | {of.__name__: of for of in records if hasattr(of, "_fields")}
    for name, of in typing.get_type_hints(kind, localns=known).items():
        if hasattr(of, "_fields"):
            values[name] = of(
                *(
                    _value(part_of, cells.get(column, ""), column)
                    for column, part_of in _columns(name, of)
                )
            )
        else:
            values[name] = _value(of, cells.get(name, ""), name)
    return kind(**values)


def _columns(name: str, of: type) -> Iterator[tuple[str, Any]]:
    """Yield the column and the type of each part of a record inside a record."""
    for index, (part, part_of) in enumerate(typing.get_type_hints(of).items()):
        yield (f"{name}_{part}" if index else name), part_of


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _value(of: Any, text: str, name: str) -> Any:
    """Return the value of a cell of a type: text, a number, a truth value, or None."""
    if isinstance(of, types.UnionType):
        others = [one for one in typing.get_args(of) if one is not type(None)]
        return None if text == "" else _value(others[0], text, name)
    if of is bool:
        return text == "True"
    if of is float:
        return _number(text)
    try:
        return of(text) if of is int else text
    except ValueError as error:
        raise ValueError(f"Stored row: {name} is '{text}'; expected a whole number.") from error
