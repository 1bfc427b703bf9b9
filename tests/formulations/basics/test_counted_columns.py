"""Counting columns that are the same but for their cost: nothing changes but the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.formulations.basics.counted_columns import count_columns
from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp import counted_program
from goodalloc.solvers.milp.counted_program import run_choices
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program


def draw_choices(seed: int, jobs: int = 12, kinds: int = 4) -> Program:
    """Jobs that idle or take one of a few demands of two resources, at costs of one decimal."""
    generator = np.random.default_rng(seed)
    demand = np.vstack([np.zeros(2), generator.integers(0, 6, (kinds, 2))])
    builder = ProgramBuilder()
    cost = np.round(generator.uniform(-3.0, 0.0, (jobs, kinds + 1)), 1)
    cost[:, 0] = 0.0
    columns = builder.add_columns("choice", cost.size, cost=cost.ravel(), upper=1.0)
    one = builder.add_rows("one", jobs, lower=1.0, upper=1.0)
    builder.add_entries(np.repeat(one, kinds + 1), columns, 1.0)
    rows = builder.add_rows("capacity", 2, upper=generator.integers(5, 25, 2))
    column, resource = np.nonzero(np.tile(demand, (jobs, 1)))
    builder.add_entries(
        rows[resource], columns[column], np.tile(demand, (jobs, 1))[column, resource]
    )
    return builder.build()


@pytest.mark.parametrize("seed", range(40))
def test_counting_finds_the_optimum_in_whole_columns(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As HiGHS on the program itself; the columns fit and cost what is said."""
    monkeypatch.setattr(counted_program, "SHARED", 0)
    program = draw_choices(seed)
    plain = run_mixed_integer(program, Watch(Stop()), gap=1e-9)
    found = run_choices(program, Watch(Stop()), gap=1e-9)
    assert found.values is not None
    assert found.objective == pytest.approx(plain.objective, abs=1e-7)
    assert found.bound <= plain.objective + 1e-7
    chosen = np.rint(found.values)
    assert np.abs(found.values - chosen).max() <= 1e-7
    assert program.cost @ chosen == pytest.approx(found.objective, abs=1e-7)
    column = np.repeat(np.arange(program.num_columns), np.diff(program.starts))
    rows = np.bincount(program.index, program.value * chosen[column], program.num_rows)
    assert (program.row_lower - 1e-9 <= rows).all()
    assert (rows <= program.row_upper + 1e-9).all()


def test_one_count_stands_for_all_that_are_the_same() -> None:
    """As many counts as demands, the only whole columns."""
    program = draw_choices(2)
    counted = count_columns(program)
    assert counted.num_columns == program.num_columns + 5
    assert np.flatnonzero(counted.integer).tolist() == list(range(program.num_columns, 65))


def test_other_programs_are_refused() -> None:
    """A column that two rows choose is no choice of one job."""
    builder = ProgramBuilder()
    column = builder.add_columns("x", 1, upper=1.0)
    rows = builder.add_rows("one", 2, lower=1.0, upper=1.0)
    builder.add_entries(rows, column, 1.0)
    with pytest.raises(ValueError, match="each chosen in one row at most"):
        count_columns(builder.build())
