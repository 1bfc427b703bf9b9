"""Optimus's greedy: best where gains are concave on one axis, and only there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.parameter_servers.tabulated_service import ServiceTable
from goodalloc.solvers.parameter_servers.marginal_gain import greedy_by_gain
from goodalloc.solvers.parameter_servers.service_optimum import least_service
from tests.support.policies.service_rounds import random_round

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.tabulated_service import Cell


def concave_table(name: str, random: np.random.Generator, length: int) -> ServiceTable:
    """Remaining time that falls by less and less with every unit of one axis."""
    falls = np.sort(random.random(length - 1))[::-1]
    service = 100.0 - np.concatenate([[0.0], np.cumsum(falls)])
    return ServiceTable(name, service, np.arange(1.0, length + 1)[:, None])


@pytest.mark.parametrize("seed", range(40))
def test_with_concave_gains_on_one_axis_the_greedy_is_optimal(seed: int) -> None:
    """All jobs take the same for a step."""
    random = np.random.default_rng(seed)
    tables = [concave_table(f"job{i}", random, 6) for i in range(5)]
    capacity = np.array([float(random.integers(5, 31))])
    cells = greedy_by_gain(tables, [(0,)] * 5, capacity, axes=(0,))
    total = sum(float(t.service[cell]) for t, cell in zip(tables, cells, strict=True))
    assert total == pytest.approx(least_service(tables, capacity).total)


@pytest.mark.parametrize("seed", range(60))
def test_steps_fit_and_only_lower_what_remains(seed: int) -> None:
    """And at the end no single step that fits gains anything."""
    tables, cells, capacity = random_round(seed)
    axes = tuple(range(len(cells[0])))[:2]
    found = greedy_by_gain(tables, cells, capacity, axes=axes)
    taken = sum(t.demand[cell] for t, cell in zip(tables, found, strict=True))
    assert (taken <= capacity + 1e-6).all()
    for table, begin, end in zip(tables, cells, found, strict=True):
        assert table.service[end] <= table.service[begin]
        for axis in axes:
            further = table.after(end, axis, 1)
            if further is not None and table.service[further] < table.service[end]:
                change = table.demand[further] - table.demand[end]
                assert (taken + change > capacity).any()


def test_coupled_axes_stop_the_greedy_short_of_the_optimum() -> None:
    """A worker helps only with a server beside it; neither alone gains anything."""
    service = np.array([[10.0, 10.0], [10.0, 4.0]])
    demand = np.add(*np.indices((2, 2)))[..., None] + 2.0
    table = ServiceTable("a", service, demand)
    cells: list[Cell] = [(0, 0)]
    assert greedy_by_gain([table], cells, np.array([4.0])) == ((0, 0),)
    assert least_service([table], np.array([4.0])).total == 4.0


def test_the_gain_is_per_dominant_share_so_that_scarce_resources_count() -> None:
    """Two jobs gain the same by the one core that is left; the one that takes no GPU has it."""
    service = np.array([10.0, 5.0])
    plain = ServiceTable("plain", service, np.array([[1.0, 0.0], [2.0, 0.0]]))
    greedy = ServiceTable("greedy", service, np.array([[1.0, 0.0], [2.0, 1.0]]))
    for order in itertools.permutations([plain, greedy]):
        found = greedy_by_gain(list(order), [(0,), (0,)], np.array([3.0, 2.0]), axes=(0,))
        assert found[order.index(plain)] == (1,)
        assert found[order.index(greedy)] == (0,)
