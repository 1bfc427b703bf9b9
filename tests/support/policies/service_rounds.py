"""Drawn rounds of jobs with parameter servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.parameter_servers.tabulated_service import ServiceTable

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.tabulated_service import Cell
    from goodalloc.models.support.array_types import Floats


def random_table(name: str, random: np.random.Generator, shape: tuple[int, ...]) -> ServiceTable:
    """Service without any order, some cells forbidden; every step takes whole units."""
    service = random.integers(1, 30, shape).astype(float)
    service[random.random(shape) < 0.15] = np.inf
    service[(0,) * len(shape)] = 30.0
    steps = random.integers(0, 3, (len(shape), 2))
    demand = np.moveaxis(np.indices(shape), 0, -1) @ steps + 1.0
    return ServiceTable(name, service, demand.astype(float))


def random_round(
    seed: int, jobs: int | None = None
) -> tuple[list[ServiceTable], list[Cell], Floats]:
    """So many jobs, or two or three, at their least cells, and what there is."""
    random = np.random.default_rng(seed)
    shape = ((2, 2, 2), (3, 2), (4,))[seed % 3]
    tables = [random_table(f"job{i}", random, shape) for i in range(jobs or 2 + seed % 2)]
    capacity = len(tables) + random.integers(0, 7, 2).astype(float)
    return tables, [(0,) * len(shape)] * len(tables), capacity
