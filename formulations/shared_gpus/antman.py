r"""Assignment of guests to hosts: a generalised assignment, by kinds of equal guests.

With :math:`n_k` guests of kind *k* that take :math:`g_k` GPUs each, the :math:`G_h` GPUs that host
*h* has left, and the part :math:`r_{kh} > 0` of its speed that a guest has there
(`models/shared_gpus/hosted_jobs.py`),

.. math::

    \max_x \sum_k \sum_h r_{kh} x_{kh} \quad \text{s.t.} \quad
    \sum_h x_{kh} \le n_k \;\; \forall k, \qquad
    \sum_k g_k x_{kh} \le G_h \;\; \forall h, \qquad x_{kh} \in \{0, 1, \dots\}.              (1)

Exact: equal guests are interchangeable. Time and memory of a GPU have only one guest to carry, so
that they are in :math:`r_{kh}`, and a column is left out where they are not enough.

References
----------
Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.shared_gpus.gandiva import jobs_by_kind

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.shared_gpus.hosted_jobs import Guests, Hosts
    from goodalloc.models.support.array_types import Indices


class GuestProgram(NamedTuple):
    """Program (1), to be minimised, and the meaning of its columns.

    Attributes
    ----------
    program
        The program, None where no guest gains anything.
    kind, host
        Kind and host of every column, shape (columns,).
    kind_of
        The kind of every guest, shape (guests,).
    """

    program: Program | None
    kind: Int[Indices, " columns"]
    host: Int[Indices, " columns"]
    kind_of: Int[Indices, " guests"]

    def hosts(self, number: Int[Indices, " columns"]) -> Hosts:
        """Return hosts of guests by the numbers of the first columns, the first guest of every kind
        first.
        """
        left = jobs_by_kind(self.kind_of)
        found: list[int | None] = [None] * self.kind_of.size
        for kind, host, count in zip(self.kind.tolist(), self.host.tolist(), number, strict=False):
            for _ in range(int(count)):
                found[left[kind].pop()] = host
        return tuple(found)


def build_guest_program(problem: Guests) -> GuestProgram:
    """Build program (1).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.shared_gpus import build_guest_program
    >>> from goodalloc.models.shared_gpus import Guests
    >>> problem = Guests(np.array([1, 2]), np.array([2]), np.array([[0.5], [0.9]]))
    >>> build_guest_program(problem).program.num_columns
    2
    """
    rows = np.column_stack([problem.gpus, problem.rate])
    _, first, kind_of, guests = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    gpus, rate = problem.gpus[first], problem.rate[first]
    most = np.minimum(guests[:, None], problem.room // gpus[:, None])
    kind, host = np.nonzero((rate > 0) & (most > 0))
    if not kind.size:
        return GuestProgram(None, kind, host, kind_of.ravel())
    builder = ProgramBuilder()
    column = builder.add_columns(
        "guests",
        kind.size,
        cost=-rate[kind, host],
        upper=most[kind, host],
        label=lambda i: f"{kind[i]}_{host[i]}",
    )
    guest_row = builder.add_rows("kind", guests.size, upper=guests)
    host_row = builder.add_rows("host", problem.num_hosts, upper=problem.room)
    builder.add_entries(guest_row[kind], column, 1.0)
    builder.add_entries(host_row[host], column, gpus[kind])
    return GuestProgram(builder.build(), kind, host, kind_of.ravel())
