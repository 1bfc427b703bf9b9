"""The least service on nodes: that of all ways to place pods, and the pool is a bound on it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.parameter_servers.rounds import ps_round
from goodalloc.models.parameter_servers.job import PsChoices, service_table
from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.tabulated_service import Pods, ServiceTable
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.parameter_servers.service_on_nodes import least_service_on_nodes
from goodalloc.solvers.parameter_servers.service_optimum import least_service
from tests.support.few import few

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

SEEDS = range(150)


def random_table(name: str, random: np.random.Generator) -> ServiceTable:
    """One or two servers and workers of some sizes; service without any order."""
    shape = (2, 2, 2)
    servers, workers, size = (np.indices(shape)[axis] + 1 for axis in range(3))
    cores = size.astype(np.float64)
    service = random.integers(1, 40, shape).astype(float)
    service[random.random(shape) < 0.1] = np.inf
    service[0, 0, 0] = 40.0
    core, gpus = float(random.integers(1, 4)), float(random.integers(0, 2))
    zero, each = np.zeros(shape), np.ones(shape)
    pods = (
        Pods(servers, np.stack([each * core, zero], axis=-1)),
        Pods(workers, np.stack([cores, each * gpus], axis=-1)),
    )
    demand = servers[..., None] * pods[0].each + workers[..., None] * pods[1].each
    return ServiceTable(name, service, demand, pods)


def random_round(seed: int) -> tuple[list[ServiceTable], Floats]:
    """Two or three jobs on two or three small nodes."""
    random = np.random.default_rng(seed)
    tables = [random_table(f"job{i}", random) for i in range(2 + seed % 2)]
    nodes = np.column_stack(
        [random.integers(2, 7, 2 + seed % 2), random.integers(0, 3, 2 + seed % 2)]
    )
    return tables, nodes.astype(float)


def fits(pods: list[Floats], nodes: Floats) -> bool:
    """Whether pods find nodes, by trying all."""
    if not pods:
        return True
    for node in range(len(nodes)):
        left = nodes.copy()
        left[node] -= pods[0]
        if (left[node] >= 0).all() and fits(pods[1:], left):
            return True
    return False


def brute_force(tables: list[ServiceTable], nodes: Floats) -> float:
    """The least total over all combinations of cells whose pods find nodes."""
    best = np.inf
    for cells in itertools.product(*(np.ndindex(table.service.shape) for table in tables)):
        total = sum(table.service[cell] for table, cell in zip(tables, cells, strict=True))
        if total >= best:
            continue
        pods = [
            pods.each[cell]
            for table, cell in zip(tables, cells, strict=True)
            for pods in table.pods
            for _ in range(int(pods.number[cell]))
        ]
        if fits(sorted(pods, key=lambda pod: -float(pod.sum())), nodes):
            best = float(total)
    return best


@pytest.mark.parametrize("seed", few(SEEDS, 60))
def test_the_least_service_on_nodes_is_that_of_all_ways_to_place_pods(seed: int) -> None:
    """What is found is checked independently; the bound is never above the optimum."""
    tables, nodes = random_round(seed)
    found, best = least_service_on_nodes(tables, nodes), brute_force(tables, nodes)
    assert found.bound <= best + 1e-9
    if found.cells is not None and found.pods is not None:
        assert not pod_violations(tables, found.cells, found.pods, nodes)
        totals = [table.service[cell] for table, cell in zip(tables, found.cells, strict=True)]
        assert found.total == pytest.approx(sum(totals))
        assert found.total >= best - 1e-9
    if np.isinf(best):
        assert found.cells is None
    else:
        assert found.total == pytest.approx(best)
        assert found.gap <= 1e-9


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_one_pool_is_never_worse_than_nodes(seed: int) -> None:
    """The nodes taken together; and nodes in another order are the same."""
    tables, nodes = random_round(seed)
    pool, on_nodes = least_service(tables, nodes.sum(axis=0)), least_service_on_nodes(tables, nodes)
    again = least_service_on_nodes(tables, nodes[::-1])
    assert again.total == pytest.approx(on_nodes.total) or np.isinf(on_nodes.total)
    if np.isfinite(on_nodes.total):
        assert pool.total <= on_nodes.total + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_workers_that_do_not_fill_nodes_are_decided_all_the_same(seed: int) -> None:
    """5 and 7 cores on nodes of 16: nodes cost something, and that is proved."""
    choices = PsChoices((1, 2, 3, 4), (1, 2, 3, 4), (3,), (5, 7), (0.0, 1.0))
    drawn = ps_round(seed, 20, num_nodes=20, choices=choices)
    tables = [service_table(job, "time") for job in drawn.jobs]
    pool = least_service(tables, drawn.nodes.sum(axis=0))
    found = least_service_on_nodes(tables, drawn.nodes, stop=Stop(gap=1e-6))
    assert found.gap <= 2e-6
    assert pool.total * (1 + 1e-4) < found.total < pool.total * 1.02
    assert found.cells is not None
    assert found.pods is not None
    assert not pod_violations(tables, found.cells, found.pods, drawn.nodes)


def test_a_job_too_large_for_any_node_has_no_allocation_and_an_infinite_bound() -> None:
    """Proved without a search."""
    service, demand = np.array([1.0]), np.array([[5.0, 0.0]])
    found = least_service_on_nodes([ServiceTable("a", service, demand)], np.full((3, 2), 4.0))
    assert found.cells is None
    assert found.bound == np.inf


def test_time_runs_out_with_a_bound_or_nothing() -> None:
    """A limit is no error."""
    tables, nodes = random_round(0)
    found = least_service_on_nodes(tables, nodes, stop=Stop(seconds=1e-9))
    assert found.limit is Limit.TIME
    assert found.bound <= brute_force(tables, nodes) + 1e-9


def test_the_checker_tells_missing_pods_and_full_nodes_and_cells_that_cannot_be() -> None:
    """A sentence for each."""
    service, demand = np.array([1.0, np.inf]), np.array([[2.0, 1.0], [2.0, 1.0]])
    table = ServiceTable("a", service, demand)
    nodes = np.array([[1.0, 1.0]])
    wrong = pod_violations([table], [(1,)], np.array([[[2]]]), nodes)
    assert len(wrong) == 4
    assert "cannot be" in wrong[0]
    assert "expected 1 in all" in wrong[1]
    assert "Node 0: 4 of resource 0" in wrong[2]
