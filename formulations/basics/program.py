"""Mixed-integer linear programs in matrix form, and their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtyping import Bool, Float, Int
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Flags, Floats, Indices


Label = Callable[[int], str]


class NotFiniteError(ValueError):
    """A program holds numbers on which no solver is sure to end: an error of its builder.

    `goodalloc.solvers.certificates.solve.solve` makes a message of it.
    """


def require_finite(item: str, values: ArrayLike, *, unbounded: bool = False) -> None:
    """Refuse infinite costs and NaN, on which HiGHS's simplex method does not return.

    Parameters
    ----------
    item
        Name of the numbers, for the message.
    values
        The numbers.
    unbounded
        Infinities are allowed, as of bounds.

    Raises
    ------
    NotFiniteError
        If a number is NaN or infinite.

    Examples
    --------
    >>> from goodalloc.formulations.basics import require_finite
    >>> require_finite("Cost of a column", [1.0, 2.0])
    >>> require_finite("Bound of a row", [0.0, float("inf")], unbounded=True)
    """
    numbers = np.asarray(values, dtype=float)
    right = ~np.isnan(numbers) if unbounded else np.isfinite(numbers)
    if not right.all():
        expected = "a number" if unbounded else "a finite number"
        raise NotFiniteError(f"{item} is {numbers[~right].flat[0]:g}; expected {expected}.")


class Family(NamedTuple):
    """Columns or rows of one kind: ``cut_4_1`` is the family *cut* and a label.

    Attributes
    ----------
    name, size
        Name of the family, and number of its members.
    label
        What the name of number *i* of the family ends in; worked out only when names are written.
    """

    name: str
    size: int
    label: Label = str


@dataclass(frozen=True)
class Program:
    """``minimise cost @ x + offset`` subject to row and column bounds, some columns integer.

    Parameters
    ----------
    cost, lower, upper, integer
        Objective, bounds and integrality of the columns, each of shape (columns,).
    row_lower, row_upper
        Bounds of the rows, each of shape (rows,).
    starts, index, value
        The matrix by columns (compressed sparse column): shapes (columns + 1,), (entries,) twice.
    offset
        Constant term of the objective.
    column_names, row_names
        The families of the columns and of the rows, in order.

    Raises
    ------
    NotFiniteError
        If a cost, an entry or the offset is NaN or infinite, or a bound is NaN.
    """

    cost: Float[Floats, " columns"]
    lower: Float[Floats, " columns"]
    upper: Float[Floats, " columns"]
    integer: Bool[Flags, " columns"]
    row_lower: Float[Floats, " rows"]
    row_upper: Float[Floats, " rows"]
    starts: Int[Indices, " columns+1"]
    index: Int[Indices, " entries"]
    value: Float[Floats, " entries"]
    offset: float = 0.0
    column_names: tuple[Family, ...] = ()
    row_names: tuple[Family, ...] = ()

    def __post_init__(self) -> None:
        require_finite("Program: a cost", self.cost)
        require_finite("Program: an entry of the matrix", self.value)
        require_finite("Program: the offset", self.offset)
        for bounds in (self.lower, self.upper, self.row_lower, self.row_upper):
            require_finite("Program: a bound", bounds, unbounded=True)

    @property
    def num_columns(self) -> int:
        """Number of columns (variables)."""
        return self.cost.size

    @property
    def num_rows(self) -> int:
        """Number of rows (constraints)."""
        return self.row_lower.size

    def highs_model(self, *, relaxed: bool = False) -> Any:
        """Return the program as a ``highspy.HighsLp``; `relaxed` drops the integrality."""
        import highspy

        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.num_columns, self.num_rows
        lp.col_cost_, lp.offset_ = self.cost, self.offset
        lp.col_lower_, lp.col_upper_ = self.lower, self.upper
        lp.row_lower_, lp.row_upper_ = self.row_lower, self.row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = self.starts.astype(np.int32)
        lp.a_matrix_.index_ = self.index.astype(np.int32)
        lp.a_matrix_.value_ = self.value
        if not relaxed:
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [kinds[flag] for flag in self.integer.tolist()]
        return lp

    def columns(self, chosen: Bool[Flags, " columns"]) -> Program:
        """Return the program restricted to some columns (the others fixed at zero)."""
        lengths = np.diff(self.starts)
        entries = np.repeat(chosen, lengths)
        return Program(
            cost=self.cost[chosen],
            lower=self.lower[chosen],
            upper=self.upper[chosen],
            integer=self.integer[chosen],
            row_lower=self.row_lower,
            row_upper=self.row_upper,
            starts=np.concatenate([[0], np.cumsum(lengths[chosen])]),
            index=self.index[entries],
            value=self.value[entries],
            offset=self.offset,
        )

    def widen(
        self, values: Float[Floats, " chosen"], chosen: Bool[Flags, " columns"]
    ) -> Float[Floats, " columns"]:
        """Return values of all columns from those of some of them, the others zero."""
        wide = np.zeros(self.num_columns)
        wide[chosen] = values
        return wide

    def rows_of(self, name: str) -> Int[Indices, " rows"]:
        """Return the indices of the rows of a family; none if there is no such family."""
        first = 0
        for family in self.row_names:
            if family.name == name:
                return np.arange(first, first + family.size)
            first += family.size
        return np.arange(0)

    def reduced_costs(self, duals: Float[Floats, " rows"]) -> Float[Floats, " columns"]:
        """Return the reduced costs ``cost - A' duals``, shape (columns,)."""
        column = np.repeat(np.arange(self.num_columns), np.diff(self.starts))
        priced = np.bincount(column, duals[self.index] * self.value, self.num_columns)
        return self.cost - priced

    def write(self, path: Path) -> None:
        """Write the program as ``.mps`` or ``.lp``, with names that tell families and labels.

        Raises
        ------
        ValueError
            If the file name ends in neither, or cannot be written.
        """
        import highspy

        if path.suffix not in {".mps", ".lp"}:
            raise ValueError(f"File '{path}': expected a name that ends in .mps or .lp.")
        try:
            path.open("wb").close()  # HiGHS crashes where it cannot write
        except OSError as error:
            raise ValueError(f"File '{path}' cannot be written ({error.strerror}).") from error
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        lp = self.highs_model()
        lp.col_names_ = _names(self.column_names, self.num_columns, "x")
        lp.row_names_ = _names(self.row_names, self.num_rows, "row")
        solver.passModel(lp)
        if solver.writeModel(str(path)) == highspy.HighsStatus.kError:
            raise ValueError(f"File '{path}' cannot be written.")


def _names(families: tuple[Family, ...], count: int, default: str) -> list[str]:
    """Return one name for every column or row: its family and its label within the family.

    HiGHS drops all names as soon as two are equal; plain numbers then say at least which is which.
    """
    names = [f"{name}_{label(i)}" for name, size, label in families for i in range(size)]
    unique = len(set(names)) == len(names) == count
    return names if unique else [f"{default}_{i}" for i in range(count)]


@dataclass
class ProgramBuilder:
    """Builder that collects columns, rows and entries by families."""

    _columns: list[tuple[Floats, Floats, Floats, Flags]] = field(default_factory=list)
    _rows: list[tuple[Floats, Floats]] = field(default_factory=list)
    _entries: list[tuple[Indices, Indices, Floats]] = field(default_factory=list)
    _column_names: list[Family] = field(default_factory=list)
    _row_names: list[Family] = field(default_factory=list)
    num_columns: int = 0
    num_rows: int = 0

    @classmethod
    def extending(cls, program: Program) -> ProgramBuilder:
        """Return a builder that holds a program already; its offset is for `build` to repeat."""
        column = np.repeat(np.arange(program.num_columns), np.diff(program.starts))
        return cls(
            _columns=[(program.cost, program.lower, program.upper, program.integer)],
            _rows=[(program.row_lower, program.row_upper)],
            _entries=[(program.index, column, program.value)],
            _column_names=list(program.column_names),
            _row_names=list(program.row_names),
            num_columns=program.num_columns,
            num_rows=program.num_rows,
        )

    def add_columns(
        self,
        name: str,
        count: int,
        *,
        cost: ArrayLike = 0.0,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        integer: bool = True,
        label: Label = str,
    ) -> Int[Indices, " count"]:
        """Add columns and return their indices."""
        self._columns.append(
            (
                np.broadcast_to(np.asarray(cost, dtype=float), count),
                np.broadcast_to(np.asarray(lower, dtype=float), count),
                np.broadcast_to(np.asarray(upper, dtype=float), count),
                np.full(count, integer),
            )
        )
        self._column_names.append(Family(name, count, label))
        self.num_columns += count
        return np.arange(self.num_columns - count, self.num_columns)

    def add_rows(
        self,
        name: str,
        count: int,
        *,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        label: Label = str,
    ) -> Int[Indices, " count"]:
        """Add rows with these bounds and return their indices."""
        bounds = (
            np.broadcast_to(np.asarray(lower, dtype=float), count),
            np.broadcast_to(np.asarray(upper, dtype=float), count),
        )
        self._rows.append(bounds)
        self._row_names.append(Family(name, count, label))
        self.num_rows += count
        return np.arange(self.num_rows - count, self.num_rows)

    def add_entries(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Add matrix entries; the three broadcast; entries of one cell are summed."""
        row, column, value = np.broadcast_arrays(rows, columns, values)
        indices = (row.ravel().astype(np.int64), column.ravel().astype(np.int64))
        self._entries.append((*indices, value.ravel().astype(float)))

    def build(self, offset: float = 0.0) -> Program:
        """Return the finished program."""
        cost, lower, upper, integer = (
            np.concatenate(part) for part in zip(*self._columns, strict=True)
        )
        row_lower, row_upper = (np.concatenate(part) for part in zip(*self._rows, strict=True))
        row, column, value = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        cells, where = np.unique(column * self.num_rows + row, return_inverse=True)
        value = np.asarray(np.bincount(where, value, cells.size), dtype=np.float64)
        starts = np.searchsorted(cells // self.num_rows, np.arange(self.num_columns + 1))
        return Program(
            cost=cost,
            lower=lower,
            upper=upper,
            integer=integer,
            row_lower=row_lower,
            row_upper=row_upper,
            starts=starts,
            index=cells % self.num_rows,
            value=value,
            offset=offset,
            column_names=tuple(self._column_names),
            row_names=tuple(self._row_names),
        )
