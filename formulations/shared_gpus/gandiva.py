r"""Packing of jobs in pairs: a matching of greatest weight, by kinds of equal jobs.

With :math:`n_a` jobs of kind *a* and the gain :math:`w_{ab}` of a pair
(`models/shared_gpus/pairing.py`), for :math:`a \le b` with :math:`w_{ab} > 0`,

.. math::

    \max_y \sum_{a \le b} w_{ab} y_{ab} \quad \text{s.t.} \quad
    2 y_{aa} + \sum_{b \ne a} y_{ab} \le n_a \;\; \forall a, \qquad
    y_{ab} \in \{0, 1, \dots\}.                                                               (1)

Exact: equal jobs are interchangeable, so that numbers of pairs are all that counts; of jobs that
all differ it is the matching program of one 0/1 variable a pair. Its relaxation is half-integral
(Edmonds, 1965): what it misses are the inequalities of odd sets, left to branch and bound.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.shared_gpus.pairing import Pair, Pairing
    from goodalloc.models.support.array_types import Indices


class PairingProgram(NamedTuple):
    """Program (1), to be minimised, and the meaning of its columns.

    Attributes
    ----------
    program
        The program, None where no pair gains anything.
    one, other
        The kinds of every column, shape (columns,).
    kind_of
        The kind of every job, shape (jobs,).
    """

    program: Program | None
    one: Int[Indices, " columns"]
    other: Int[Indices, " columns"]
    kind_of: Int[Indices, " jobs"]

    def pairs(self, number: Int[Indices, " columns"]) -> tuple[Pair, ...]:
        """Return pairs of jobs by the numbers of the first columns, the first of every kind
        first.
        """
        left = jobs_by_kind(self.kind_of)
        found = []
        for one, other, count in zip(self.one, self.other, number, strict=False):
            for _ in range(int(count)):
                first = left[one].pop()
                found.append((first, left[other].pop()))
        return tuple(found)


def jobs_by_kind(kind_of: Int[Indices, " jobs"]) -> list[list[int]]:
    """Return the jobs of every kind, the first one last."""
    return [
        np.flatnonzero(kind_of == kind).tolist()[::-1] for kind in range(int(kind_of.max()) + 1)
    ]


def build_pairing_program(problem: Pairing) -> PairingProgram:
    """Build program (1).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.shared_gpus import build_pairing_program
    >>> from goodalloc.models.shared_gpus import Pairing
    >>> problem = Pairing(np.array([0, 0, 1]), np.array([[0.1, 0.5], [0.5, 0.2]]))
    >>> build_pairing_program(problem).program.num_columns  # kinds 0 and 0, 0 and 1
    2
    """
    jobs = np.bincount(problem.kind, minlength=len(problem.gain))
    one, other = np.triu_indices(len(jobs))
    most = np.where(one == other, jobs[one] // 2, np.minimum(jobs[one], jobs[other]))
    useful = (problem.gain[one, other] > 0) & (most > 0)
    one, other, most = one[useful], other[useful], most[useful]
    if not one.size:
        return PairingProgram(None, one, other, problem.kind)
    builder = ProgramBuilder()
    column = builder.add_columns(
        "pairs",
        one.size,
        cost=-problem.gain[one, other],
        upper=most,
        label=lambda i: f"{one[i]}_{other[i]}",
    )
    row = builder.add_rows("jobs", len(jobs), upper=jobs)
    builder.add_entries(row[one], column, 1.0)
    builder.add_entries(row[other], column, 1.0)
    return PairingProgram(builder.build(), one, other, problem.kind)
