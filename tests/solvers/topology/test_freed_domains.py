"""Gangs placed by freeing nodes of one domain: who moves, and what cannot be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.nested_patterns import build_nested
from goodalloc.formulations.topology.served_jobs import served_limits
from goodalloc.formulations.topology.tree_choices import topology_choices
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound, topology_fitness
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.topology.exact_tree import solve_tree
from goodalloc.solvers.topology.freed_domains import free_domains

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation, Placement
    from goodalloc.models.support.array_types import Flags

#: Two racks of two nodes of two GPUs.
RACKS = Topology.regular(4, [(Level("rack"), 2)], slowdown=4.0)


def round_of(*jobs: Job, requires: str = "") -> TopologyRound:
    """Running jobs, and one gang of two whole nodes, in two racks."""
    speeds = SpeedupTable((1.0, 1.8), (0.0, 1.7, 2.3, 2.9))
    gang = Job("gang", speeds, min_replicas=4, max_replicas=4, age=3600.0)
    instance = Instance(Cluster.uniform(nodes=4, gpus=2), (*jobs, gang))
    return TopologyRound(instance, RACKS, ("",) * len(jobs) + (requires,))


def freed(round_: TopologyRound, *, keep: set[str], whole: int = 2) -> Allocation | None:
    """What is found where these jobs are to stay, all others to run on as many GPUs elsewhere.

    Those of more than `whole` GPUs run on several nodes.
    """
    choices = topology_choices(round_)
    taken = np.zeros(len(choices), dtype=bool)
    for index, job in enumerate(round_.instance.jobs):
        own = choices.job == index
        gpus = sum(part for _, part in job.placement) or job.min_replicas
        kind = Kind.KEEP if job.name in keep else Kind.ONE_NODE
        kind = Kind.SEVERAL_NODES if gpus > whole else kind
        taken[np.flatnonzero(own & (choices.kind == kind) & (choices.replicas == gpus))[0]] = True
    return free_domains(round_, choices, power_cost(choices.utility, -1.0), taken)


def running(name: str, node: int, *, preemptible: bool = True) -> Job:
    """A job on one GPU."""
    return Job(
        name,
        SpeedupTable((1.0,), (0.0,)),
        placement=((node, 1),),
        max_replicas=1,
        age=3600.0,
        preemptible=preemptible,
    )


def test_the_rack_is_freed_in_which_least_is_lost() -> None:
    """Two jobs move out of one rack, rather than three out of the other."""
    jobs = [running(name, node) for name, node in (("a", 0), ("b", 0), ("c", 1), ("d", 2))]
    found = freed(round_of(*jobs), keep=set("abcd"))
    assert found is not None
    assert found.placement(4) == ((2, 2), (3, 2))
    assert [found.placement(job) for job in range(3)] == [((0, 1),), ((0, 1),), ((1, 1),)]
    assert found.placement(3) == ((1, 1),)


def test_a_job_that_may_not_be_moved_keeps_its_rack() -> None:
    """The other rack is freed, though more is lost there."""
    jobs = [running(name, node) for name, node in (("a", 0), ("b", 1))]
    found = freed(round_of(*jobs, running("c", 2, preemptible=False)), keep=set("abc"))
    assert found is not None
    assert found.placement(3) == ((0, 2), (1, 2))
    assert found.placement(2) == ((2, 1),)


@pytest.mark.parametrize(("requires", "gpus"), [("", 4), ("rack", 0)])
def test_where_both_racks_have_such_jobs_a_gang_is_in_neither(requires: str, gpus: int) -> None:
    """It is on nodes of both, or waits if it requires one."""
    jobs = [running(name, node, preemptible=False) for name, node in (("a", 0), ("b", 2))]
    found = freed(round_of(*jobs, requires=requires), keep=set("ab"))
    assert found is not None
    assert [found.placement(job) for job in range(2)] == [((0, 1),), ((2, 1),)]
    assert int(found.job_replicas[2]) == gpus


@pytest.mark.parametrize("seed", range(4))
def test_all_jobs_of_the_relaxation_are_served_at_little_loss(seed: int) -> None:
    """On 64 nodes with more gangs than fit: near the proven bound."""
    round_ = generate_on_tree(seed, 64, jobs=250, gangs=0.05)
    choices = topology_choices(round_)
    cost = power_cost(choices.utility, -1.0, 0.02)
    limits = served_limits(choices, round_.instance.cluster.num_gpus)
    program = build_nested(round_, choices, cost, merged=True, limits=limits).program
    outcome = run_mixed_integer(program, Watch(Stop(seconds=60.0)), gap=1e-3)
    assert outcome.values is not None
    taken: Flags = outcome.values[: len(choices)] > 0.5
    found = free_domains(round_, choices, cost, taken)
    assert found is not None
    assert not topology_violations(round_, found)
    assert np.count_nonzero(found.job_replicas) == np.count_nonzero(choices.replicas[taken])
    bound = solve_tree(round_, stop=Stop(seconds=60.0, gap=1e-4)).bound
    assert topology_fitness(round_, found) >= bound * (1 - 1e-3)


def test_room_is_made_on_a_node_for_a_job_of_several_gpus() -> None:
    """The job moves that loses least, to where a GPU is left; others stay."""
    jobs = [running(name, node) for name, node in (("a", 0), ("b", 1), ("c", 2), ("d", 3))]
    speeds = SpeedupTable((1.0, 1.8), (0.0, 0.1))
    pair = Job("pair", speeds, min_replicas=2, max_replicas=2, age=3600.0)
    instance = Instance(Cluster.uniform(nodes=4, gpus=2), (*jobs, pair))
    found = freed(TopologyRound(instance, RACKS), keep=set("abcd"))
    assert found is not None
    assert [gpus for _, gpus in found.placement(4)] == [2]
    stay = [found.placement(job) == ((job, 1),) for job in range(4)]
    assert sum(stay) == 3
    assert found.job_replicas.tolist() == [1, 1, 1, 1, 2]


def test_a_job_that_leaves_a_node_has_room_made_in_turn() -> None:
    """One of two GPUs leaves for one of four, and one of one GPU for that."""
    speeds = SpeedupTable((1.0, 1.8, 2.5, 3.2), (0.0, 0.1, 0.1, 0.1))

    def job(name: str, gpus: int, node: int | None = None) -> Job:
        placement = () if node is None else ((node, gpus),)
        return Job(
            name,
            speeds,
            placement=placement,
            min_replicas=gpus,
            max_replicas=gpus,
            age=3600.0,
        )

    jobs = (job("a", 2, 0), job("b", 1, 1), job("c", 3, 2), job("whole", 4), job("d", 2, 1))
    instance = Instance(Cluster.uniform(nodes=3, gpus=4), jobs)
    tree = Topology.regular(3, [(Level("rack"), 3)], slowdown=4.0)
    found = freed(TopologyRound(instance, tree), keep={"a", "b", "c", "d"}, whole=4)
    assert found is not None
    assert found.job_replicas.tolist() == [2, 1, 3, 4, 2]
    assert [len(found.placement(index)) for index in range(5)] == [1] * 5


@pytest.mark.parametrize("seed", range(6))
def test_what_a_relaxation_serves_of_recorded_kinds_of_gangs_is_placed(seed: int) -> None:
    """Jobs of 1, 2, 4 and 8 GPUs that want all of a full cluster: each that is chosen runs."""
    random = np.random.default_rng(seed)
    nodes, speeds = (
        16,
        SpeedupTable(tuple(map(float, range(1, 5))), (0.0, *map(float, range(2, 9)))),
    )
    jobs: list[tuple[int, Placement]] = []
    node, left = 0, 4
    while node < nodes:
        gpus = int(random.choice([1, 2])) if left >= 2 else 1
        jobs.append((gpus, ((node, gpus),)))
        left -= gpus
        if not left:
            node, left = node + 1, 4
    jobs += [(int(gpus), ()) for gpus in random.choice([1, 2, 4, 8], 12)]
    made = tuple(
        Job(f"{i}", speeds, placement=at, min_replicas=k, max_replicas=k, age=3600.0)
        for i, (k, at) in enumerate(jobs)
    )
    instance = Instance(Cluster.uniform(nodes=nodes, gpus=4), made)
    round_ = TopologyRound(instance, Topology.regular(nodes, [(Level("rack"), 4)], slowdown=4.0))
    choices = topology_choices(round_)
    cost = power_cost(choices.utility, -1.0)
    served = served_limits(choices, instance.cluster.num_gpus)
    program = build_nested(round_, choices, cost, merged=True, limits=served).program
    values = run_mixed_integer(program, Watch(Stop(seconds=20.0)), gap=1e-9).values
    assert values is not None
    taken = values[: len(choices)] > 0.5
    found = free_domains(round_, choices, cost, taken)
    assert found is not None
    wanted = np.zeros(len(made), dtype=int)
    wanted[choices.job[taken]] = choices.replicas[taken]
    assert found.job_replicas.tolist() == wanted.tolist()
