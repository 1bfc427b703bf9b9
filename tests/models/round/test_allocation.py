"""The allocation: a matrix that is kept sparse, and whatever is no such matrix refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from goodalloc.models.round.allocation import Allocation

MATRICES = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: arrays.arrays(np.int64, shape, elements=st.integers(0, 4))
)


@given(matrix=MATRICES)
def test_dense_and_sparse_are_the_same(matrix: np.ndarray) -> None:
    """From a matrix, from placements and from shuffled entries, and back."""
    allocation = Allocation.from_matrix(matrix)
    np.testing.assert_array_equal(allocation.matrix(), matrix)
    assert allocation.replicas.min(initial=1) > 0
    assert (np.diff(allocation.job * matrix.shape[1] + allocation.node) > 0).all()
    assert Allocation.from_placements(allocation.placements(), matrix.shape[1]) == allocation
    order = np.random.default_rng(0).permutation(allocation.job.size)
    shuffled = Allocation.from_entries(
        allocation.job[order], allocation.node[order], allocation.replicas[order], *matrix.shape
    )
    assert shuffled == allocation
    assert hash(shuffled) == hash(allocation)
    assert Allocation.from_matrix(matrix.astype(float)) == allocation
    assert Allocation.from_matrix(matrix.tolist()) == allocation


@given(matrix=MATRICES)
def test_sums_are_those_of_the_matrix(matrix: np.ndarray) -> None:
    """Replicas and nodes of every job, replicas on every node, placements and rows."""
    allocation = Allocation.from_matrix(matrix)
    np.testing.assert_array_equal(allocation.job_replicas, matrix.sum(axis=1))
    np.testing.assert_array_equal(allocation.job_nodes, np.count_nonzero(matrix, axis=1))
    np.testing.assert_array_equal(allocation.node_replicas, matrix.sum(axis=0))
    for job, row in enumerate(matrix.tolist()):
        expected = tuple((node, count) for node, count in enumerate(row) if count)
        assert allocation.placement(job) == expected
    some = matrix.copy()
    some[1::2] = 0
    np.testing.assert_array_equal(allocation.rows(range(0, len(matrix), 2)).matrix(), some)


@given(matrix=MATRICES, seed=st.integers(0, 2**32 - 1))
def test_unchanged_rows_are_the_equal_ones(matrix: np.ndarray, seed: int) -> None:
    """Row by row, against a matrix in which some entries differ."""
    generator = np.random.default_rng(seed)
    other = np.where(generator.random(matrix.shape) < 0.2, generator.integers(0, 3), matrix)
    found = Allocation.from_matrix(matrix).unchanged(Allocation.from_matrix(other))
    np.testing.assert_array_equal(found, (matrix == other).all(axis=1))


def test_entries_of_one_cell_are_summed_and_zeros_dropped() -> None:
    """Whatever the order they come in."""
    allocation = Allocation.from_entries([1, 0, 1, 0], [2, 0, 2, 1], [1, 3, 2, 0], 2, 3)
    assert allocation.matrix().tolist() == [[3, 0, 0], [0, 0, 3]]
    assert allocation.job.tolist() == [0, 1]


def test_an_empty_allocation_has_a_shape() -> None:
    """Nothing runs; the shape is known all the same."""
    empty = Allocation.empty(2, 3)
    assert empty.matrix().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert empty == Allocation.from_matrix(np.zeros((2, 3)))
    assert empty == Allocation.from_placements([(), ()], 3)
    assert empty != Allocation.empty(3, 2)
    assert empty != "nothing"


def test_an_allocation_cannot_be_changed() -> None:
    """Neither its parts nor their entries."""
    allocation = Allocation.from_matrix([[1, 2]])
    with pytest.raises(dataclasses.FrozenInstanceError):
        allocation.num_jobs = 5  # type: ignore[misc]
    for array in (allocation.job, allocation.node, allocation.replicas):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5]], "an entry is 0.5; expected whole replicas"),
        ([[1, -2]], "an entry is -2; expected 0 or more"),
        ([[math.nan]], "an entry is not finite"),
        ([[math.inf]], "an entry is not finite"),
        ([1, 2], r"an array of shape \(2,\)"),
        ([[[1]]], r"an array of shape \(1, 1, 1\)"),
        ([["a"]], "expected a matrix of whole numbers"),
        ([[True]], "expected a matrix of whole numbers"),
        ([[1], [1, 0]], "rows of different lengths; expected a matrix, jobs by nodes"),
        ([[1j]], "expected a matrix of whole numbers"),
    ],
)
def test_what_is_no_matrix_of_whole_numbers_is_refused(matrix: Any, words: str) -> None:
    """The sentence has the entry or the shape."""
    with pytest.raises(ValueError, match=words):
        Allocation.from_matrix(matrix)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ((2, 0, 1), "job 2 is unknown; there are 2 jobs"),
        ((-1, 0, 1), "job -1 is unknown"),
        ((0, 3, 1), "node 3 is unknown; there are 3 nodes"),
        ((0, -1, 1), "node -1 is unknown"),
        ((0, 0, -1), "an entry is -1; expected 0 or more"),
        ((0, 0, 1.5), "an entry is 1.5; expected whole"),
    ],
)
def test_entries_outside_are_refused(entry: tuple[Any, Any, Any], words: str) -> None:
    """The sentence names the job, the node or the value."""
    job, node, replicas = entry
    with pytest.raises(ValueError, match=words):
        Allocation.from_entries([job], [node], [replicas], 2, 3)
