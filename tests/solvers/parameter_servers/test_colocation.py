"""Servers and workers on nodes as Optimus places them: few nodes, even shares, what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.tabulated_service import Pods, ServiceTable
from goodalloc.solvers.parameter_servers.colocation import place_together, share_between_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def job(name: str, servers: int, workers: int, gpus: float = 1.0) -> ServiceTable:
    """One cell: servers of two cores, workers of four and a GPU."""
    pods = (
        Pods(np.array([servers]), np.array([[2.0, 0.0]])),
        Pods(np.array([workers]), np.array([[4.0, gpus]])),
    )
    demand = np.array([[2.0 * servers + 4.0 * workers, gpus * workers]])
    return ServiceTable(name, np.ones(1), demand, pods)


def nodes(*rows: tuple[float, float]) -> NDArray[np.float64]:
    return np.array(rows)


def test_a_job_that_fits_on_one_node_is_there_whole() -> None:
    """On that with the most left."""
    pods, placed = place_together([job("a", 2, 2)], [(0,)], nodes((8, 2), (16, 2)))
    assert placed.tolist() == [True]
    assert pods[0].tolist() == [[0, 2], [0, 2]]


def test_a_job_that_does_not_is_dealt_evenly_to_the_fewest_nodes() -> None:
    """Four workers with a GPU each on nodes of two: two and two, a server beside each pair."""
    pods, placed = place_together([job("a", 2, 4)], [(0,)], nodes((16, 2), (16, 2), (16, 2)))
    assert placed.all()
    assert pods[0].tolist() == [[1, 1, 0], [2, 2, 0]]


def test_small_jobs_are_placed_first_and_what_does_not_fit_is_left_out() -> None:
    """The large job would have had the node to itself."""
    pods, placed = place_together(
        [job("large", 1, 3), job("small", 1, 1)], [(0,), (0,)], nodes((16, 3))
    )
    assert placed.tolist() == [False, True]
    assert pods[0].sum() == 0


def test_where_no_even_deal_fits_pods_go_one_by_one() -> None:
    """Three GPU workers on nodes of two GPUs and one that are both almost full."""
    free = nodes((8, 2), (4, 1), (2, 0))
    pods, placed = place_together([job("a", 1, 3)], [(0,)], free)
    assert placed.all()
    assert not pod_violations([job("a", 1, 3)], [(0,)], pods, free)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_placed_passes_the_checker(seed: int) -> None:
    """Random jobs on random nodes, some not to run."""
    random = np.random.default_rng(seed)
    drawn = random.integers((1, 1, 0), (6, 6, 2), (8, 3)).tolist()
    tables = [job(f"job{i}", pods, more, float(g)) for i, (pods, more, g) in enumerate(drawn)]
    cells = [(0,) if random.random() < 0.8 else None for _ in tables]
    free = np.column_stack([random.integers(4, 33, 5), random.integers(0, 5, 5)]).astype(float)
    pods, placed = place_together(tables, cells, free)
    kept = np.flatnonzero(placed).tolist()
    assert all(cells[index] is not None for index in kept)
    assert not pod_violations([tables[i] for i in kept], [(0,)] * len(kept), pods[kept], free)
    assert pods[~placed].sum() == 0


def test_what_crosses_between_nodes_is_all_but_the_pairs_on_one() -> None:
    """None on one node, half of it in two even halves."""
    assert share_between_nodes(np.array([2, 0]), np.array([3, 0])) == 0.0
    assert share_between_nodes(np.array([1, 1]), np.array([2, 2])) == 0.5
    assert share_between_nodes(np.array([2, 0]), np.array([0, 3])) == 1.0
    assert share_between_nodes(np.array([0, 0]), np.array([0, 0])) == 0.0


def test_no_jobs_are_placed_nowhere() -> None:
    """Empty arrays, no error."""
    pods, placed = place_together([], [], nodes((4, 1)))
    assert pods.shape == (0, 0, 1)
    assert placed.size == 0
