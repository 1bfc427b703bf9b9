"""The oracle itself: it must see every feasible allocation and no other."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import (
    count_matrices,
    enumerate_allocations,
    log_matrices,
    optimal_allocations,
    solve_brute_force,
)
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("seed", range(40))
def test_enumeration_holds_exactly_what_the_checker_passes(seed: int) -> None:
    """Of all matrices, built without any rule, those without violations are the enumerated ones."""
    instance = random_instance(seed)
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    columns = [
        [c for c in itertools.product(range(gpus + 1), repeat=shape[0]) if sum(c) <= gpus]
        for gpus in instance.cluster.node_gpus.tolist()
    ]
    if math.prod(len(column) for column in columns) > 1_000:
        columns = [column[:: 1 + len(column) // 10] for column in columns]  # a sample
    found = enumerate_allocations(instance)
    enumerated = {found.allocation(i).matrix().tobytes() for i in range(len(found.row))}
    for matrix in itertools.product(*columns):
        allocation = Allocation.from_matrix(np.array(matrix).T.reshape(shape))
        feasible = not violations(instance, allocation)
        assert (allocation.matrix().tobytes() in enumerated) == feasible


@pytest.mark.parametrize("seed", range(20))
def test_utilities_are_those_of_the_objective(seed: int) -> None:
    """The enumeration's utilities are the objective's, kept placements included."""
    instance = random_instance(seed)
    found = enumerate_allocations(instance)
    for index in range(0, len(found.row), 1 + len(found.row) // 50):
        expected = utilities(instance, found.allocation(index))
        np.testing.assert_array_equal(found.utility[index], expected)


def test_number_of_matrices_is_counted_before_any_is_built() -> None:
    """One job on two nodes of 2 and 1 GPUs: 3 times 2 matrices."""
    cluster = Cluster((NodeGroup("large", 1, 2), NodeGroup("small", 1, 1)))
    instance = Instance(cluster, (Job("job"),))
    assert count_matrices(instance) == 6
    assert len(enumerate_allocations(instance).row) == 6


def test_a_known_optimum_is_found_with_its_proof() -> None:
    """Two linear jobs on three GPUs at p = 1: the one that gains more takes all."""
    jobs = (
        Job("slow", SpeedupTable((1.0, 2.0, 3.0), ()), age=1e9),
        Job("fast", SpeedupTable((2.0, 4.0, 6.0), ()), age=1e9),
    )
    rules = Rules(power=1.0, restart_delay=0.0, speedup_scale="job")
    instance = Instance(Cluster.uniform(1, 3), jobs, rules)
    answer = solve_brute_force(instance)
    assert answer.allocation is not None
    assert answer.allocation.matrix().tolist() == [[0], [3]]
    assert answer.proven
    assert answer.bound == fitness(instance, answer.allocation)


def test_all_optimal_allocations_are_returned() -> None:
    """One job of one GPU on three equal nodes may sit on any of them."""
    rules = Rules(restart_delay=0.0)
    job = Job("job", age=1.0, max_replicas=1)
    instance = Instance(Cluster.uniform(3, 1), (job,), rules)
    found = {a.matrix().tobytes() for a in optimal_allocations(instance)}
    assert len(found) == 3


@pytest.mark.parametrize("draw", [random_instance, random_mode_instance, random_share_instance])
def test_the_logarithm_of_the_number_is_right(draw: Callable[[int], Instance]) -> None:
    """Of tiny rounds, whose matrices can be counted."""
    for seed in range(20):
        instance = draw(seed)
        assert log_matrices(instance) == pytest.approx(math.log10(count_matrices(instance)))


def test_a_round_with_more_matrices_than_numbers_can_say_is_refused_at_once() -> None:
    """10,000 jobs on 2,500 nodes."""
    jobs = tuple(Job(f"job{i}") for i in range(10_000))
    instance = Instance(Cluster.uniform(2500, 4), jobs, name="huge")
    with pytest.raises(ValueError, match=r"'huge' has about 10\^36550\.\d allocation matrices"):
        solve_brute_force(instance)


def test_no_more_time_is_taken_than_there_is() -> None:
    """Two million matrices in a tenth of a second: no allocation, and the limit."""
    jobs = tuple(Job(f"job{i}") for i in range(5))
    instance = Instance(Cluster.uniform(3, 4), jobs, Rules(interference_avoidance=False))
    answer = solve_brute_force(instance, stop=Stop(seconds=0.1))
    assert (answer.allocation, answer.bound, answer.limit) == (None, math.inf, "time")


def test_the_limit_holds_in_other_threads() -> None:
    """Where no alarm can ring."""
    jobs = tuple(Job(f"job{i}") for i in range(5))
    instance = Instance(Cluster.uniform(3, 4), jobs, Rules(interference_avoidance=False))
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(solve_brute_force, instance, stop=Stop(seconds=0.1)).result()
    assert (answer.allocation, answer.bound, answer.limit) == (None, math.inf, "time")


def test_large_instances_are_refused() -> None:
    """Brute force says how large is too large."""
    instance = Instance(Cluster.uniform(8, 4), tuple(Job(f"job{i}") for i in range(8)), name="big")
    with pytest.raises(ValueError, match=r"Instance 'big' has .* allocation matrices; .* at most"):
        solve_brute_force(instance)
