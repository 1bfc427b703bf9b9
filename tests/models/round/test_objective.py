"""The objective against a plain-Python reading of the OSDI'21 artifact, and option by option.

The reference below uses nothing of goodalloc but the numbers of the jobs: throughput, efficiency,
the grid of 50 batch sizes, the fair share, the restart penalty and the mean are written out anew.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.rounds.generator import generate
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, speedup_table, utilities, utility_table
from goodalloc.models.round.rules import OSDI21, Rules


def reference_throughput(
    model: GoodputModel, nodes: int, gpus: int, atomic: int, more: int
) -> float:
    """Examples a second of K GPUs on N nodes at atomic batch m with s accumulation passes."""
    alpha_c, beta_c, alpha_r, beta_r, alpha_n, beta_n, gamma = map(float, model.throughput)
    gradient = alpha_c + beta_c * atomic
    if gpus == 1:
        synchronisation = 1e-8
    elif nodes == 1:
        synchronisation = alpha_r + beta_r * max(gpus - 2, 1e-8)
    else:
        synchronisation = alpha_n + beta_n * max(gpus - 2, 1e-8)
    last = (gradient**gamma + synchronisation**gamma) ** (1 / gamma)
    return float(gpus * atomic * (more + 1) / (more * gradient + last))


def reference_efficiency(model: GoodputModel, batch: int) -> float:
    """AdaScale gain over the growth of the batch."""
    square, variance = model.gradient
    ratio = batch / model.batch.initial
    denominator = variance / ratio + square
    gain = (variance + square) / denominator if denominator > 0 else 1.0
    return float(gain / ratio)


def reference_goodput(model: GoodputModel, nodes: int, gpus: int) -> float:
    """Best goodput on the geometric grid of 50 batch sizes; 0 where none is allowed."""
    initial, maximum, lowest, highest, accumulates = model.batch
    first, best = max(initial, lowest * gpus), 0.0
    for point in range(50):
        batch = maximum if point == 49 else first * (maximum / first) ** (point / 49)
        local = batch / gpus
        more = 0
        if accumulates:
            more = math.ceil(local / highest - 1e-8) - 1
            if gpus == 1 and local > initial + 1e-8:
                more = max(more, 1)
        atomic = math.ceil(local / (more + 1) - 1e-8)
        if lowest <= atomic <= highest:
            rate = reference_throughput(model, nodes, gpus, atomic, more)
            best = max(best, rate * reference_efficiency(model, gpus * atomic * (more + 1)))
    return best


def reference_fitness(instance: Instance, matrix: np.ndarray) -> float:
    """The artifact's first objective."""
    gpus, jobs = instance.cluster.num_gpus, instance.num_jobs
    fair = math.ceil(gpus / jobs)
    scale = instance.cluster.num_nodes / gpus
    total = 0.0
    for job, row in zip(instance.jobs, matrix.tolist(), strict=True):
        held, nodes = sum(row), sum(1 for count in row if count > 0)
        if held == 0:
            speedup = 0.0
        elif job.model is None:
            speedup = held / fair
        else:
            assert isinstance(job.model, GoodputModel)
            base = reference_goodput(job.model, 1, fair)
            speedup = reference_goodput(job.model, 1 if nodes == 1 else 2, held) / base
        current = [0] * len(row)
        for node, count in job.placement:
            current[node] = count
        kept = max(job.age - 30 * job.restarts, 0) / (job.age + 30)
        factor = 1.0 if row == current else kept
        total += 1 / (speedup * scale * factor + 0.001)
    return 1 / (total / jobs)


def random_matrix(instance: Instance, generator: np.random.Generator) -> np.ndarray:
    """Rows within every node's GPUs and every job's limit; about half of the running jobs stay."""
    free = instance.cluster.node_gpus.copy()
    matrix = np.zeros((instance.num_jobs, free.size), dtype=int)
    for index, job in enumerate(instance.jobs):
        if job.placement and generator.random() < 0.5:
            for node, count in job.placement:
                matrix[index, node] = count
    free = free - matrix.sum(axis=0)
    for index in generator.permutation(instance.num_jobs):
        if matrix[index].any():
            continue
        left = min(int(generator.integers(0, 9)), instance.jobs[index].max_replicas)
        for node in generator.permutation(free.size):
            taken = min(left, int(generator.integers(0, free[node] + 1)))
            matrix[index, node], left = taken, left - taken
            free[node] -= taken
    return matrix


@pytest.mark.parametrize("state", ["cold", "running", "disturbed", "settled"])
@pytest.mark.parametrize("jobs", [3, 12, 40])
def test_fitness_is_that_of_the_artifact(state: str, jobs: int) -> None:
    """Random allocations of generated rounds, with a fair share below and above a node."""
    instance = generate(jobs, jobs, 6, state=state, rules=OSDI21)  # type: ignore[arg-type]
    utility_table(instance)
    generator = np.random.default_rng(jobs)
    for _ in range(6):
        matrix = random_matrix(instance, generator)
        expected = reference_fitness(instance, matrix)
        found = fitness(instance, Allocation.from_matrix(matrix))
        assert found == pytest.approx(expected, rel=1e-9, abs=0)


TABLE = SpeedupTable((1.0, 1.8, 2.4), (0.0, 1.5, 2.0))


def pair(**options: object) -> Instance:
    """Two jobs of known speedups on two nodes of two GPUs; the first runs on one GPU of each."""
    jobs = (
        Job("runs", TABLE, age=270.0, restarts=3, placement=((0, 1), (1, 1))),
        Job("new", TABLE, age=30.0),
    )
    instance = Instance(Cluster.uniform(2, 2), jobs, Rules(**options))  # type: ignore[arg-type]
    utility_table(instance)
    return instance


def utility_of(instance: Instance, matrix: list[list[int]]) -> list[float]:
    """Utilities as a list."""
    return [float(u) for u in utilities(instance, Allocation.from_matrix(matrix))]


STAY, MOVE = [[1, 1], [1, 0]], [[2, 0], [0, 1]]


def test_utilities_of_a_known_round() -> None:
    """Kept without a penalty; moved at (270 - 90) / 300 and 30 / 60 of the speedup; half a node."""
    stay = [0.5 * 1.5 + 0.001, 0.5 * 0.5 * 1.0 + 0.001]
    move = [0.5 * 0.6 * 1.8 + 0.001, 0.5 * 0.5 * 1.0 + 0.001]
    assert utility_of(pair(), STAY) == pytest.approx(stay, rel=1e-12)
    assert utility_of(pair(), MOVE) == pytest.approx(move, rel=1e-12)
    assert utility_of(pair(), [[0, 0], [0, 0]]) == [0.001, 0.001]


def test_scale_floor_and_delay_change_what_they_say() -> None:
    """No scale, another floor, free restarts: each alone."""
    assert utility_of(pair(speedup_scale="job"), STAY) == pytest.approx([1.501, 0.501])
    assert utility_of(pair(floor=0.1), STAY) == pytest.approx([0.85, 0.35])
    assert utility_of(pair(restart_delay=0.0), MOVE) == pytest.approx([0.901, 0.501])
    slow = [0.5 * 1.8 * max(270 - 3 * 80, 0) / 350 + 0.001, 0.5 * 30 / 110 + 0.001]
    assert utility_of(pair(restart_delay=80.0), MOVE) == pytest.approx(slow)
    assert utility_of(pair(restart_delay=100.0), MOVE)[0] == 0.001


@pytest.mark.parametrize(
    ("power", "mean"),
    [
        (-1.0, 2 / (1 / 0.751 + 1 / 0.251)),
        (0.0, math.sqrt(0.751 * 0.251)),
        (1.0, 0.501),
        (2.0, math.sqrt((0.751**2 + 0.251**2) / 2)),
        (math.inf, 0.751),
        (-math.inf, 0.251),
    ],
)
def test_every_power_is_its_mean(power: float, mean: float) -> None:
    """Harmonic, geometric, arithmetic, quadratic, largest and least."""
    instance = pair(power=power)
    assert fitness(instance, Allocation.from_matrix(STAY)) == pytest.approx(mean, rel=1e-12)


def wide_round(fair_share: str) -> Instance:
    """One job with a goodput model on three nodes of two GPUs: its fair share is all six."""
    model = next(job.model for job in generate(0, 8, 4).jobs if isinstance(job.model, GoodputModel))
    rules = Rules(fair_share=fair_share, speedup_scale="job")  # type: ignore[arg-type]
    return Instance(Cluster.uniform(3, 2), (Job("job", model, age=1e9),), rules)


def test_a_packed_fair_share_is_priced_on_several_nodes() -> None:
    """All its GPUs are worth 1 on several nodes, or 1 on the one node that there is not."""
    packed, one_node = (
        speedup_table(wide_round(share), "numpy")[0] for share in ("packed", "one_node")
    )
    assert packed[1, 6] == pytest.approx(1.0)
    assert one_node[0, 6] == pytest.approx(1.0)
    ratio = packed[:, 2:] / one_node[:, 2:]
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
    assert ratio[0, 0] > 1


def test_a_fair_share_within_a_node_is_the_same_either_way() -> None:
    """As many jobs as nodes: packed or not, the share sits on one node."""
    for rules in (Rules(), Rules(fair_share="packed")):
        instance = generate(2, 6, 6, rules=rules)
        assert instance.fair_share == 4
        rows = [i for i, job in enumerate(instance.jobs) if isinstance(job.model, GoodputModel)]
        assert speedup_table(instance, "numpy")[rows, 0, 4] == pytest.approx(1.0)


def test_a_job_that_never_ran_is_taken_as_linear() -> None:
    """K over the fair share, wherever the K are."""
    instance = Instance(Cluster.uniform(2, 4), (Job("a", age=1.0), Job("b", max_replicas=2)))
    table = speedup_table(instance, "numpy")
    assert instance.fair_share == 4
    assert table[0, 0].tolist() == [k / 4 for k in range(9)]
    assert table[0, 1].tolist() == [0.0, 0.0, *(k / 4 for k in range(2, 9))]


def test_gpus_beyond_a_table_are_worth_nothing() -> None:
    """What nobody measured is not made up."""
    instance = Instance(Cluster.uniform(2, 4), (Job("a", SpeedupTable((1.0, 2.0), (5.0,))),))
    table = speedup_table(instance, "numpy")
    assert table[0, 0].tolist() == [0.0, 1.0, 2.0, *[0.0] * 6]
    assert table[0, 1].tolist() == [0.0] * 9  # one GPU is on one node


@given(seed=st.integers(0, 10**6))
def test_permuting_jobs_or_equal_nodes_permutes_utilities(seed: int) -> None:
    """Nothing depends on the order of the jobs, nor on which of equal nodes is which."""
    generator = np.random.default_rng(seed)
    jobs = tuple(
        Job(
            f"job{i}",
            TABLE if i % 2 else None,
            age=float(generator.integers(1, 500)),
            restarts=int(generator.integers(3)),
            placement=((int(generator.integers(3)), 1),) if i % 3 else (),
        )
        for i in range(4)
    )
    cluster = Cluster((NodeGroup("large", 3, 4), NodeGroup("small", 1, 2)))
    instance = Instance(cluster, jobs)
    matrix = random_matrix(instance, generator)
    before = utilities(instance, Allocation.from_matrix(matrix))
    order = generator.permutation(4)
    shuffled = instance.replace(jobs=tuple(jobs[i] for i in order))
    after = utilities(shuffled, Allocation.from_matrix(matrix[order]))
    assert after.tolist() == before[order].tolist()
    nodes = [*generator.permutation(3).tolist(), 3]
    renumbered = tuple(
        job.replace(placement=tuple((nodes[node], count) for node, count in job.placement))
        for job in jobs
    )
    moved = np.zeros_like(matrix)
    moved[:, nodes] = matrix
    after = utilities(instance.replace(jobs=renumbered), Allocation.from_matrix(moved))
    assert after.tolist() == before.tolist()


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (1, 2)])
def test_an_allocation_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    """The sentence has both shapes."""
    words = f"Allocation has {shape[0]} jobs and {shape[1]} nodes; the instance has 2 and 2"
    with pytest.raises(ValueError, match=words):
        utilities(pair(), Allocation.empty(*shape))
    with pytest.raises(ValueError, match=words):
        fitness(pair(), Allocation.empty(*shape))


def test_the_table_is_computed_once_and_cannot_be_changed() -> None:
    """One table an instance, shared and read-only."""
    instance = pair()
    table = utility_table(instance)
    assert utility_table(instance) is table
    for array in (table.moved, table.kept):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_a_weight_multiplies_the_speedup_of_its_job() -> None:
    """And nothing else: the floor and the other jobs stay as they are."""
    plain = generate(0, 8, 4)
    jobs = (plain.jobs[0].replace(weight=3.0), *plain.jobs[1:])
    heavy = Instance(plain.cluster, jobs, plain.rules)
    floor = plain.rules.floor
    once, thrice = utility_table(plain).moved - floor, utility_table(heavy).moved - floor
    np.testing.assert_allclose(thrice[0], 3.0 * once[0], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(thrice[1:], once[1:])


def test_against_one_gpu_the_speedup_on_one_gpu_is_one() -> None:
    """For jobs with a model and for those that never ran, whatever the fair share."""
    instance = wide_round("one_gpu")
    assert instance.fair_share > 1
    instance = Instance(instance.cluster, (*instance.jobs, Job("new")), instance.rules)
    np.testing.assert_allclose(speedup_table(instance)[:, 0, 1], 1.0)
