"""Agreement of exact solvers with each other, on rounds and on reordered ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.formulations.gpu_rounds.concave_relaxation import solve_concave_relaxation
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.result import Status
from tests.support.random_instances import (
    random_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Relative difference at which two roads still agree.
AGREE = 1e-9


def check_exact(
    seed: int,
    names: tuple[str, ...],
    power: float | None = None,
    draw: Callable[[int, float | None], Instance] = random_instance,
    concave: bool = True,
) -> None:
    """Exact solvers find the enumeration's optimum and prove it; bounds are on the right side."""
    instance = draw(seed, power)
    optimum = solve_brute_force(instance).bound
    for name in names:
        result = solve(instance, name)
        what = f"{name} on {instance.name} at p = {instance.rules.power:g}"
        assert result.allocation is not None, f"{what}: {result.message}"
        assert not violations(instance, result.allocation), what
        assert result.fitness == pytest.approx(optimum, rel=AGREE), what
        assert result.status is Status.OPTIMAL, what
        assert optimum * (1 - 1e-12) <= result.bound <= optimum * (1 + 2 * AGREE), what
    integer, linear = knapsack_bound(instance, exact=True), knapsack_bound(instance)
    assert optimum <= integer <= linear, instance.name
    if concave and instance.rules.power <= 1:
        assert solve_concave_relaxation(instance).bound >= optimum, instance.name


def reordered(instance: Instance) -> Instance:
    """The same round with jobs and nodes in the opposite order."""
    cluster = instance.cluster
    nodes = cluster.num_nodes
    groups = tuple(reversed(cluster.groups))
    jobs = tuple(
        job.replace(
            placement=tuple(sorted((nodes - 1 - node, held) for node, held in job.placement))
        )
        for job in reversed(instance.jobs)
    )
    return Instance(type(cluster)(groups), jobs, instance.rules, name=f"{instance.name}-reordered")
