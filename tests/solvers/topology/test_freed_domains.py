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
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags

#: Two racks of two nodes of two GPUs.
RACKS = Topology.regular(4, [(Level("rack"), 2)], slowdown=4.0)


def round_of(*jobs: Job, requires: str = "") -> TopologyRound:
    """Running jobs, and one gang of two whole nodes, in two racks."""
    speeds = SpeedupTable((1.0, 1.8), (0.0, 1.7, 2.3, 2.9))
    gang = Job("gang", speeds, min_replicas=4, max_replicas=4, age=3600.0)
    instance = Instance(Cluster.uniform(nodes=4, gpus=2), (*jobs, gang))
    return TopologyRound(instance, RACKS, ("",) * len(jobs) + (requires,))


def freed(round_: TopologyRound, *, keep: set[str]) -> Allocation | None:
    """What is found where these jobs are to stay, all others to run on as many GPUs elsewhere."""
    choices = topology_choices(round_)
    taken = np.zeros(len(choices), dtype=bool)
    for index, job in enumerate(round_.instance.jobs):
        own = choices.job == index
        gpus = sum(part for _, part in job.placement) or job.min_replicas
        kind = Kind.KEEP if job.name in keep else Kind.ONE_NODE
        kind = Kind.SEVERAL_NODES if gpus > 2 else kind
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
