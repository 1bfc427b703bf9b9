"""HiGHS on a program of choices, by counts where many jobs have the same choices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.counted_columns import count_columns, fix_counts
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import GRACE, run_mixed_integer, run_relaxation

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program
    from goodalloc.solvers.milp.highs_program import Outcome

#: Columns are counted where, on average, at least this many are the same.
SHARED = 50


def run_choices(program: Program, watch: Watch, *, gap: float) -> Outcome:
    """Minimise a program that `count_columns` takes; see `run_mixed_integer`.

    Parameters
    ----------
    program, watch, gap
        Arguments as of `run_mixed_integer`.
    """
    counted = count_columns(program)
    size = program.num_columns
    if size < SHARED * (counted.num_columns - size):
        return run_mixed_integer(program, watch, gap=gap)
    outcome = run_mixed_integer(counted, watch, gap=gap)
    if outcome.values is None:
        return outcome
    # the best whole columns for these counts take milliseconds, worth it however late it is
    fixed = fix_counts(counted, np.rint(outcome.values[counted.integer]))
    everything = np.ones(fixed.num_columns, dtype=bool)
    vertex = run_relaxation(fixed, everything, Watch(Stop(seconds=GRACE)))
    values = None if vertex.values is None else vertex.values[:size]
    return replace(outcome, values=values, objective=vertex.objective)
