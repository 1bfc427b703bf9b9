r"""Max-min fairness over classes of equal jobs: a small linear program, solved again and again.

Jobs with the same rates that take as many GPUs are a class *c* of :math:`n_c` jobs. The program of
max-min fairness (`models/gavel/share_goal.py`, the level (4)) does not change if two jobs of a
class change places, and its feasible set is convex, so the mean of an optimal solution over all
such changes is optimal, too: some optimal solution gives all jobs of a class the same shares
:math:`X_{cw}`, those of

.. math::

    \max_{X, t} t \quad \text{s.t.} \quad \sum_w T_{cw} X_{cw} \ge t \, b_c \;\; (n_c > 0), \quad
    \sum_w X_{cw} \le 1, \quad \sum_c n_c s_c X_{cw} \le N_w, \quad X \ge 0,                     (1)

with one row for each class, however many jobs there are. What the level leaves is not decided by
(1). Of all shares with the largest level, those are taken that have the largest sum of the levels
of all jobs,

.. math:: \max_X \sum_c n_c \sum_w T_{cw} X_{cw} / b_c.                                         (2)

That is our reading: the paper leaves it open, and its code takes what an interior-point solver
finds, some shares amid all that have the largest level (`interior`). From one call to the next only
the numbers of jobs change, so that HiGHS starts from its last basis.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import highspy
import numpy as np
from scipy.sparse import coo_array

from goodalloc.models.gavel.share_goal import max_min
from goodalloc.models.gavel.time_sharing import TimeSharing
from goodalloc.solvers.milp.highs_program import new_solver

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices

#: Part of the largest level that (2) may give up, so that rounding leaves it feasible.
GIVEN_UP = 1e-9


class ClassShares(NamedTuple):
    """Shares of the jobs of every class.

    Attributes
    ----------
    shares
        X of each job of a class, shape (classes, types); 0 for classes without jobs.
    level
        Level *t* of all jobs that are there; 0 without jobs.
    """

    shares: Float[Floats, "classes types"]
    level: float


@dataclass
class ClassLevels:
    """Programs (1) and (2) of given classes, for any numbers of jobs.

    Parameters
    ----------
    rate
        T: steps per second of a job on every type, shape (classes, types); 0 where it cannot run.
    gpus
        N: GPUs of every type, shape (types,).
    replicas
        s: GPUs that a job takes, shape (classes,).
    interior
        Whether the shares are those that an interior-point solver finds for (1), without (2).

    Raises
    ------
    ValueError
        As by `TimeSharing`.

    Examples
    --------
    >>> import numpy as np
    >>> levels = ClassLevels(np.array([[2.0], [1.0]]), np.array([1]), np.array([1, 1]))
    >>> levels.solve(np.array([1, 3])).shares.round(3).tolist()
    [[0.25], [0.25]]
    """

    rate: Float[Floats, "classes types"]
    gpus: Int[Indices, " types"]
    replicas: Int[Indices, " classes"]
    interior: bool = False
    _worth: Floats = field(init=False, repr=False)
    _first: Any = field(init=False, repr=False)
    _second: Any = field(init=False, repr=False)
    _counts: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [f"class {place}" for place in range(len(self.rate))]
        sharing = TimeSharing(names, self.rate, self.gpus, self.replicas)
        self._worth = sharing.line_rate[:, :, 0] / max_min(sharing).step[:, None]
        inside = {"solver": "ipm", "run_crossover": "off"} if self.interior else {}
        self._first, self._second = self._program(inside), self._program({})
        self._counts = np.zeros(len(self.rate))

    def _program(self, options: dict[str, str]) -> Any:
        """Return (1) in HiGHS as it is without jobs; rows of levels, then of time, then of GPUs."""
        classes, types = self.rate.shape
        columns = np.arange(classes * types)
        parts = (
            (columns // types, columns, self._worth.ravel()),
            (classes + columns // types, columns, np.ones(columns.size)),
        )
        row, column, value = (np.concatenate(one) for one in zip(*parts, strict=True))
        size = (2 * classes + types, columns.size + 1)
        matrix = coo_array((value, (row, column)), shape=size).tocsc()
        program = highspy.HighsLp()
        program.num_row_, program.num_col_ = size
        program.col_cost_, program.col_lower_ = np.zeros(size[1]), np.zeros(size[1])
        program.col_upper_ = np.full(size[1], np.inf)
        program.row_lower_ = np.concatenate([np.zeros(classes), np.full(classes + types, -np.inf)])
        program.row_upper_ = np.concatenate([np.full(classes, np.inf), np.ones(classes + types)])
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_, program.a_matrix_.index_ = matrix.indptr, matrix.indices
        program.a_matrix_.value_ = matrix.data
        solver = new_solver(presolve="off", **options)
        solver.passModel(program)
        solver.changeColCost(columns.size, -1.0)
        return solver

    def solve(self, counts: Int[Indices, " classes"]) -> ClassShares:
        """Return the shares (1), (2) of these numbers of jobs.

        Parameters
        ----------
        counts
            n: jobs of every class, shape (classes,).

        Raises
        ------
        ValueError
            If HiGHS finds no optimum.
        """
        shares = np.zeros(self.rate.shape)
        if not counts.any():
            return ClassShares(shares, 0.0)
        self._update(np.asarray(counts, dtype=float))
        found = _solved(self._first)
        if not self.interior:
            found = self._most(found[-1])
        there = self._counts > 0
        shares = np.maximum(found[:-1].reshape(self.rate.shape), 0.0)
        shares = np.where(there[:, None] & (self._worth > 0), shares, 0.0)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        taken = (self._counts * self.replicas) @ shares
        shares /= np.maximum(taken / self.gpus, 1.0)
        return ClassShares(shares, float((self._worth * shares).sum(axis=1)[there].min()))

    def _most(self, level: float) -> Floats:
        """Return an optimum of (2), given the largest level."""
        columns = self.rate.size
        self._second.changeColBounds(columns, level * (1.0 - GIVEN_UP), np.inf)
        worth = np.append((-self._worth * self._counts[:, None] / self._counts.sum()).ravel(), 0.0)
        self._second.changeColsCost(columns + 1, np.arange(columns + 1, dtype=np.int32), worth)
        return _solved(self._second)

    def _update(self, counts: Floats) -> None:
        """Tell the programs which numbers of jobs have changed."""
        classes, types = self.rate.shape
        for place in np.flatnonzero(counts != self._counts).tolist():
            for solver in (self._first, self._second):
                solver.changeCoeff(place, classes * types, -float(counts[place] > 0))
                for kind in range(types):
                    taken = counts[place] * self.replicas[place] / self.gpus[kind]
                    solver.changeCoeff(2 * classes + kind, place * types + kind, float(taken))
        self._counts = counts


def _solved(solver: Any) -> Floats:
    """Return the values of the columns of an optimum."""
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise ValueError(f"Levels of classes: HiGHS found {status}; expected an optimum.")
    return np.array(solver.getSolution().col_value)
