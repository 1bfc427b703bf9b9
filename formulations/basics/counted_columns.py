r"""The same program with its columns counted: it branches on the number of jobs of a kind.

A program that chooses one column for every job, and for which columns of many jobs are the same but
for their cost, has

.. math::

    \min c x \quad \text{s.t.} \quad \sum_{i \in A_j} x_i = 1 \;\; \forall j, \qquad
    \sum_{i \in T_k} x_i = n_k \;\; \forall k, \qquad A n \le b, \qquad n \text{ whole}        (1)

with the kinds of columns :math:`T_k` and the count :math:`n_k` of each. *Exact*, with *x*
continuous: where the counts are whole the rest is a transportation problem, whose vertices are
whole. Ties among jobs then no longer keep a solver busy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.support.array_types import Floats


def count_columns(program: Program) -> Program:
    """Build program (1): the columns, now continuous, followed by their counts.

    Parameters
    ----------
    program
        A program in which every column is whole and in at most one row that chooses: a row of ones
        whose sum is one.

    Raises
    ------
    ValueError
        If some column is in several such rows, or not whole.

    Examples
    --------
    >>> from goodalloc.formulations.basics import ProgramBuilder, count_columns
    >>> builder = ProgramBuilder()
    >>> x = builder.add_columns("x", 2, cost=[1.0, 2.0], upper=1.0)
    >>> builder.add_entries(builder.add_rows("one", 1, lower=1.0, upper=1.0)[[0, 0]], x, 1.0)
    >>> builder.add_entries(builder.add_rows("room", 1, upper=3.0)[[0, 0]], x, 2.0)
    >>> counted = count_columns(builder.build())
    >>> counted.integer.tolist()  # two choices of one kind, and their count
    [False, False, True]
    """
    column = np.repeat(np.arange(program.num_columns), np.diff(program.starts))
    row, value = program.index, program.value
    chooses = (program.row_lower == 1.0) & (program.row_upper == 1.0)
    chooses &= np.bincount(row, value != 1.0, program.num_rows) == 0
    mine = chooses[row]
    if np.bincount(column[mine], minlength=1).max() > 1 or not program.integer.all():
        raise ValueError("Program: expected whole columns, each chosen in one row at most.")
    others = np.flatnonzero(~chooses)
    table = np.zeros((program.num_columns, others.size))
    table[column[~mine], np.searchsorted(others, row[~mine])] = value[~mine]
    kinds, kind = np.unique(table, axis=0, return_inverse=True)
    builder = ProgramBuilder()
    columns = builder.add_columns(
        "column", program.num_columns, cost=program.cost, upper=program.upper, integer=False
    )
    counts = builder.add_columns("count", len(kinds))
    rows = builder.add_rows(
        "row", program.num_rows, lower=program.row_lower, upper=program.row_upper
    )
    counted = builder.add_rows("counted", len(kinds), lower=0.0, upper=0.0)
    builder.add_entries(rows[row[mine]], columns[column[mine]], value[mine])
    builder.add_entries(counted[kind.reshape(-1)], columns, 1.0)
    builder.add_entries(counted, counts, -1.0)
    which, entry = np.nonzero(kinds)
    builder.add_entries(rows[others[entry]], counts[which], kinds[which, entry])
    built = builder.build(program.offset)
    return replace(built, lower=np.concatenate([program.lower, np.zeros(len(kinds))]))


def fix_counts(counted: Program, counts: Float[Floats, " counts"]) -> Program:
    """Return the counted program with its counts fixed to the given ones, shape (counts,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder, count_columns, fix_counts
    >>> builder = ProgramBuilder()
    >>> x = builder.add_columns("x", 2, cost=[1.0, 2.0], upper=1.0)
    >>> builder.add_entries(builder.add_rows("one", 1, lower=1.0, upper=1.0)[[0, 0]], x, 1.0)
    >>> fixed = fix_counts(count_columns(builder.build()), np.array([1.0]))
    >>> fixed.lower.tolist(), fixed.upper.tolist()
    ([0.0, 0.0, 1.0], [1.0, 1.0, 1.0])
    """
    lower, upper = counted.lower.copy(), counted.upper.copy()
    lower[counted.integer] = upper[counted.integer] = counts
    return replace(counted, lower=lower, upper=upper)
