"""What the solver by prices asks of a round: its arrays, and the utilities of its choices.

A round in columns answers from a few kinds (`models/columns/utilities_by_kind.py`), one of job
objects from its table of utilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from goodalloc.formulations.gpu_rounds.knapsack import best_utilities
from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.columns.utilities_by_kind import ColumnUtilities
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.objective import utilities, utility_table

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class TabulatedUtilities:
    """Utilities of a round of job objects without modes.

    Parameters
    ----------
    columns
        The round.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models.columns import RoundColumns, column_utilities
    >>> from goodalloc.solvers.columns import TabulatedUtilities
    >>> instance = generate(seed=0, jobs=8, nodes=2, gpus_per_node=4, state="running")
    >>> utilities, whole = TabulatedUtilities(instance), slice(0, 8)
    >>> by_kind = column_utilities(RoundColumns.of(instance))
    >>> bool((utilities.best(whole) == by_kind.best(whole)).all())
    True
    """

    columns: Instance

    @property
    def kept(self) -> Float[Floats, " jobs"]:
        """Utility with exactly the present placement, or of holding nothing."""
        return utility_table(self.columns).kept

    @property
    def width(self) -> int:
        """Most GPUs that any job may have, and 1."""
        return int(self._best.shape[1])

    def moved(self, jobs: slice | Int[Indices, " some"]) -> Float[Floats, "jobs 2 gpus"]:
        """Return the utility of some jobs on *K* GPUs placed anew, as `UtilityTable.moved`."""
        return utility_table(self.columns).moved[jobs]

    def best(self, jobs: slice) -> Float[Floats, "jobs gpus"]:
        """Return the best utility of some jobs on *K* GPUs of any nodes; -inf if not allowed."""
        return self._best[jobs]

    def of(self, allocation: Allocation) -> Float[Floats, " jobs"]:
        """Return the utility of every job under an allocation."""
        return utilities(self.columns, allocation)

    @cached_property
    def _best(self) -> Float[Floats, "jobs gpus"]:
        return best_utilities(self.columns)


#: Round whose jobs are read as arrays.
ArrayRound: TypeAlias = RoundColumns | Instance

#: Utilities of a round's choices.
RoundUtilities: TypeAlias = ColumnUtilities | TabulatedUtilities
