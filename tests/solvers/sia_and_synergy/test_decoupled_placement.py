"""Decoupled placement: whole-node shapes always fit, what is kept stays, nothing breaks a rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.sia_and_synergy.sia import Configurations
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import SIA
from goodalloc.solvers.sia_and_synergy.decoupled_placement import place_by_type

LINEAR = SpeedupTable(tuple(range(1, 65)), tuple(range(1, 65)))


def chosen(instance: Instance, *rows: tuple[Kind, int]) -> Configurations:
    """One configuration a job: its kind and GPUs, of its first mode and that mode's type."""
    kinds, gpus = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    types = instance.cluster.gpu_types
    kind = np.array([types.index(instance.modes[m].gpu_type) for m in instance.first_mode])
    demand = gpus[:, None] * (kind[:, None] == np.arange(len(types)))
    return Configurations(
        np.arange(len(rows)), instance.first_mode, kinds, kind, gpus, np.ones(len(rows)), demand
    )


def typed(name: str, gpu_type: str, **state: object) -> Job:
    """A job for one type of GPU."""
    mode = Mode("only", LINEAR, gpu_type)
    running = "only" if state.get("placement") else ""
    return Job(name, modes=(mode,), age=1e4, mode=running, **state)  # type: ignore[arg-type]


@given(seed=st.integers(0, 10**6))
def test_whole_node_shapes_that_need_no_more_gpus_than_there_are_always_fit(seed: int) -> None:
    """Nodes of a power of two of GPUs, any whole-node shapes, some of them kept: all get GPUs."""
    generator = np.random.default_rng(seed)
    sizes = {
        name: (int(generator.choice([1, 2, 4, 8])), int(generator.integers(1, 6)))
        for name in ("a", "b")
    }
    cluster = Cluster(tuple(NodeGroup(n, count, gpus, n) for n, (gpus, count) in sizes.items()))
    jobs: list[Job] = []
    rows: list[tuple[Kind, int]] = []
    offset = 0
    for name, (gpus, count) in sizes.items():
        free, left = np.full(count, gpus), gpus * count
        while left:
            shapes = [2**k for k in range(gpus.bit_length()) if 2**k <= left]
            shapes += [gpus * n for n in range(2, left // gpus + 1)]
            size = int(generator.choice(shapes))
            left -= size
            # some run where they are to stay, scattered without any plan
            nodes = np.flatnonzero(free >= min(size, gpus))[: max(size // gpus, 1)]
            runs = generator.random() < 0.5 and nodes.size == max(size // gpus, 1)
            held = tuple((offset + int(node), min(size, gpus)) for node in nodes) if runs else ()
            if runs:
                free[nodes] -= min(size, gpus)
            jobs.append(typed(f"job{len(jobs)}", name, placement=held))
            several = Kind.SEVERAL_NODES if size > gpus else Kind.ONE_NODE
            rows.append((Kind.KEEP if runs else several, size))
        offset += count
    instance = Instance(cluster, tuple(jobs), SIA)
    found = place_by_type(instance, chosen(instance, *rows))
    assert violations(instance, found) == ()
    assert found.job_replicas.tolist() == [size for _, size in rows]


def test_what_is_kept_stays_where_it_is() -> None:
    """A new job of four takes the node that nobody is to keep; one of eight moves the smallest."""
    cluster = Cluster((NodeGroup("n", 3, 4, "t4"),))
    jobs = (
        typed("small", "t4", placement=((0, 1),)),
        typed("half", "t4", placement=((1, 2),)),
        typed("new", "t4"),
    )
    instance = Instance(cluster, jobs, SIA)
    keep = ((Kind.KEEP, 1), (Kind.KEEP, 2))
    found = place_by_type(instance, chosen(instance, *keep, (Kind.ONE_NODE, 4)))
    assert found.placements() == [((0, 1),), ((1, 2),), ((2, 4),)]
    found = place_by_type(instance, chosen(instance, *keep, (Kind.SEVERAL_NODES, 8)))
    assert found.placements() == [((1, 1),), ((1, 2),), ((0, 4), (2, 4))]


def test_a_job_whose_cpus_fit_nowhere_stays_idle() -> None:
    """GPUs enough, cores not: the later job gets nothing, and nothing breaks a rule."""
    cluster = Cluster((NodeGroup("n", 1, 4, "t4", resources({"cpu": 5})),))
    mode = Mode("greedy", LINEAR, "t4", resources({"cpu": 2}))
    jobs = tuple(Job(name, modes=(mode,), age=1e4) for name in "ab")
    instance = Instance(cluster, jobs, SIA)
    shapes = chosen(instance, (Kind.ONE_NODE, 2), (Kind.ONE_NODE, 2))
    found = place_by_type(instance, shapes)
    assert found.job_replicas.tolist() == [2, 0]
    assert violations(instance, found) == ()


@pytest.mark.parametrize(("exclusive", "served"), [(False, [3, 3]), (True, [3, 0])])
def test_distributed_jobs_share_a_node_unless_that_is_avoided(
    exclusive: bool, served: list[int]
) -> None:
    """Three GPUs each on nodes of two: the middle node would be shared."""
    cluster = Cluster((NodeGroup("n", 3, 2, "t4"),))
    rules = SIA.replace(interference_avoidance=exclusive)
    instance = Instance(cluster, (typed("a", "t4"), typed("b", "t4")), rules)
    shapes = chosen(instance, (Kind.SEVERAL_NODES, 3), (Kind.SEVERAL_NODES, 3))
    found = place_by_type(instance, shapes)
    assert violations(instance, found) == ()
    assert found.job_replicas.tolist() == served


def test_a_place_that_is_worth_less_than_idling_is_not_taken() -> None:
    """What was to sit on one node would have to be spread, where it runs at no speed."""
    cluster = Cluster((NodeGroup("n", 2, 2, "t4"),))
    mode = Mode("only", SpeedupTable((1.0, 2.0), ()), "t4")
    pinned = [
        typed(name, "t4", placement=((node, 1),), preemptible=False)
        for node, name in enumerate("ab")
    ]
    jobs = (*pinned, Job("c", modes=(mode,), age=1e4))
    instance = Instance(cluster, jobs, SIA)
    shapes = chosen(instance, (Kind.KEEP, 1), (Kind.KEEP, 1), (Kind.ONE_NODE, 2))
    assert place_by_type(instance, shapes).job_replicas.tolist() == [1, 1, 0]
