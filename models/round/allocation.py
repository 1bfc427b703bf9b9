"""Allocation: the number of replicas of each job on each node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Bool, Int
    from numpy.typing import ArrayLike, NDArray

    from goodalloc.models.support.array_types import Flags, Indices

#: Most replicas in one entry: far beyond any node, and far from overflowing.
MOST_REPLICAS = 1_000_000

#: Placement of a job: pairs (node, GPUs), both integers.
Placement = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Sparse integer matrix (jobs × nodes) of replicas.

    A replica is one GPU, or the part of one that its mode says.

    Large clusters have few entries a job, so the matrix is stored as its non-zero entries, sorted
    by job and node. Build one with `from_matrix`, `from_placements` or `empty`.

    Parameters
    ----------
    job, node, replicas
        The entries: row, column and value, each of shape (entries,).
    num_jobs, num_nodes
        Shape of the matrix.
    modes
        Index of every job's mode, shape (jobs,); the first mode of all jobs if None.

    Examples
    --------
    >>> from goodalloc.models import Allocation
    >>> allocation = Allocation.from_placements([((0, 2), (1, 1)), ()], num_nodes=2)
    >>> allocation.matrix()
    array([[2, 1],
           [0, 0]])
    """

    job: Int[Indices, " entries"]
    node: Int[Indices, " entries"]
    replicas: Int[Indices, " entries"]
    num_jobs: int
    num_nodes: int
    modes: Int[Indices, " jobs"] | None = None

    def __post_init__(self) -> None:
        for array in (self.job, self.node, self.replicas):
            array.flags.writeable = False

    @classmethod
    def from_entries(
        cls,
        job: ArrayLike,
        node: ArrayLike,
        replicas: ArrayLike,
        num_jobs: int,
        num_nodes: int,
        modes: ArrayLike | None = None,
    ) -> Allocation:
        """Build an allocation from entries in any order; entries of one cell are summed.

        Raises
        ------
        ValueError
            If an entry is negative, not whole, or outside the matrix.
        """
        rows, columns, values = (np.asarray(a).reshape(-1) for a in (job, node, replicas))
        if values.dtype.kind not in "biuf":  # also whole numbers of more than 64 bits
            for value in values.tolist():
                require_count("Allocation: an entry", value, 0, MOST_REPLICAS)
            values = values.astype(np.int64)
        with np.errstate(invalid="ignore"):
            whole = np.equal(np.mod(values, 1), 0)
        if not whole.all():
            raise ValueError(
                f"Allocation: an entry is {values[~whole][0]}; expected whole replicas."
            )
        if values.size and values.max() > MOST_REPLICAS:
            raise ValueError(
                f"Allocation: an entry is {values.max():g}; expected at most {MOST_REPLICAS}."
            )
        if values.size and values.min() < 0:
            raise ValueError(
                f"Allocation: an entry is {values.min()}; expected 0 or more replicas."
            )
        for name, index, size in (("job", rows, num_jobs), ("node", columns, num_nodes)):
            if index.size and (index.min() < 0 or index.max() >= size):
                bad = index[(index < 0) | (index >= size)][0]
                raise ValueError(f"Allocation: {name} {bad} is unknown; there are {size} {name}s.")
        cell = rows.astype(np.int64) * num_nodes + columns.astype(np.int64)
        cells, where = np.unique(cell, return_inverse=True)
        sums = np.bincount(where, weights=values, minlength=cells.size).astype(np.int64)
        cells, sums = cells[sums > 0], sums[sums > 0]
        chosen = None if modes is None else cls._checked_modes(modes, num_jobs)
        return cls(
            cells // max(num_nodes, 1), cells % max(num_nodes, 1), sums, num_jobs, num_nodes, chosen
        )

    @staticmethod
    def _checked_modes(modes: ArrayLike, num_jobs: int) -> NDArray[np.int64]:
        found = np.asarray(modes)
        if found.shape != (num_jobs,) or found.dtype.kind not in "iu" or (found < 0).any():
            raise ValueError(
                f"Allocation: modes are of shape {found.shape} and type {found.dtype}; "
                f"expected {num_jobs} whole numbers of at least 0, one a job."
            )
        return found.astype(np.int64)

    @cached_property
    def mode(self) -> Int[Indices, " jobs"]:
        """Index of every job's mode, 0 where it does not run; shape (jobs,)."""
        if self.modes is None:
            return np.zeros(self.num_jobs, dtype=np.int64)
        return np.where(self.job_nodes > 0, self.modes, 0)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, modes: ArrayLike | None = None) -> Allocation:
        """Build an allocation from a dense (jobs × nodes) matrix of whole numbers.

        Parameters
        ----------
        matrix
            Replicas of every job on every node.
        modes
            Index of every job's mode among its `Job.modes`, shape (jobs,); that of a job that does
            not run says nothing. The first mode of all jobs if None.

        Raises
        ------
        ValueError
            If `matrix` is not two-dimensional, an entry is not a non-negative whole number, or
            `modes` are not one non-negative whole number a job.

        Examples
        --------
        >>> from goodalloc.models import Allocation
        >>> Allocation.from_matrix([[2, 0], [0, 1]], modes=[1, 0]).mode
        array([1, 0])
        """
        try:
            dense = np.asarray(matrix)
        except ValueError:
            raise ValueError(
                "Allocation: got rows of different lengths; expected a matrix, jobs by nodes."
            ) from None
        if dense.ndim != 2 or dense.dtype.kind not in "iuf":
            raise ValueError(
                f"Allocation: got an array of shape {dense.shape} and type {dense.dtype}; "
                "expected a matrix of whole numbers, jobs by nodes."
            )
        if dense.dtype.kind == "f" and not np.isfinite(dense).all():
            raise ValueError("Allocation: an entry is not finite; expected whole replicas.")
        job, node = np.nonzero(dense)
        num_jobs, num_nodes = dense.shape
        return cls.from_entries(job, node, dense[job, node], num_jobs, num_nodes, modes)

    @classmethod
    def from_placements(
        cls, placements: Sequence[Placement], num_nodes: int, modes: ArrayLike | None = None
    ) -> Allocation:
        """Build an allocation from one placement, (node, GPUs) pairs, for every job."""
        triples = [(j, n, g) for j, pairs in enumerate(placements) for n, g in pairs]
        job, node, replicas = zip(*triples, strict=True) if triples else ((), (), ())
        return cls.from_entries(job, node, replicas, len(placements), num_nodes, modes)

    @classmethod
    def empty(cls, num_jobs: int, num_nodes: int) -> Allocation:
        """Return the allocation without any replicas."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing.copy(), nothing.copy(), num_jobs, num_nodes)

    def matrix(self) -> Int[Indices, "jobs nodes"]:
        """Return the dense matrix, shape (jobs, nodes)."""
        dense = np.zeros((self.num_jobs, self.num_nodes), dtype=np.int64)
        dense[self.job, self.node] = self.replicas
        return dense

    @cached_property
    def job_replicas(self) -> Int[Indices, " jobs"]:
        """Replicas of every job, shape (jobs,)."""
        return np.bincount(self.job, weights=self.replicas, minlength=self.num_jobs).astype(
            np.int64
        )

    @cached_property
    def job_nodes(self) -> Int[Indices, " jobs"]:
        """Nodes of every job, shape (jobs,)."""
        return np.bincount(self.job, minlength=self.num_jobs)

    @cached_property
    def node_replicas(self) -> Int[Indices, " nodes"]:
        """Replicas on every node, shape (nodes,)."""
        return np.bincount(self.node, weights=self.replicas, minlength=self.num_nodes).astype(
            np.int64
        )

    @cached_property
    def _row_start(self) -> NDArray[np.int64]:
        return np.searchsorted(self.job, np.arange(self.num_jobs + 1))

    def placement(self, job: int) -> Placement:
        """Return the (node, GPUs) pairs of one job, in node order."""
        rows = slice(self._row_start[job], self._row_start[job + 1])
        return tuple(zip(self.node[rows].tolist(), self.replicas[rows].tolist(), strict=True))

    def placements(self) -> list[Placement]:
        """Return the placement of every job."""
        return [self.placement(job) for job in range(self.num_jobs)]

    def rows(self, jobs: Iterable[int]) -> Allocation:
        """Return the allocation with only the rows of `jobs`; the others are empty."""
        chosen = np.isin(self.job, np.fromiter(jobs, dtype=np.int64))
        return Allocation(
            self.job[chosen],
            self.node[chosen],
            self.replicas[chosen],
            self.num_jobs,
            self.num_nodes,
            self.modes,
        )

    def unchanged(self, other: Allocation) -> Bool[Flags, " jobs"]:
        """Return flags of the jobs with the same row and mode in `other`, shape (jobs,)."""
        mine = self.job * self.num_nodes + self.node
        theirs = other.job * other.num_nodes + other.node
        cell_sizes = np.concatenate([self.replicas, -other.replicas])
        cells, where = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
        difference = np.bincount(where, weights=cell_sizes, minlength=cells.size)
        same: NDArray[np.bool_] = self.mode == other.mode
        same[(cells // max(self.num_nodes, 1))[difference != 0]] = False
        return same

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allocation):
            return NotImplemented
        return (
            (self.num_jobs, self.num_nodes) == (other.num_jobs, other.num_nodes)
            and np.array_equal(self.job, other.job)
            and np.array_equal(self.node, other.node)
            and np.array_equal(self.replicas, other.replicas)
            and np.array_equal(self.mode, other.mode)
        )

    def __hash__(self) -> int:
        return hash((self.job.tobytes(), self.node.tobytes(), self.replicas.tobytes()))
