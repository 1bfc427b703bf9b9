"""The choices: all that the rules allow, and none lost by pruning that an optimum needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices, may_keep
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.exact.highs import solve_highs
from tests.support.random_instances import random_instance
from tests.support.shapes import choices_of

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices


def listed(choices: Choices) -> list[tuple[int, str, int]]:
    """Choices as (job, kind, GPUs)."""
    columns = (choices.job.tolist(), choices.kind.tolist(), choices.replicas.tolist())
    return [(job, Kind(kind).name, replicas) for job, kind, replicas in zip(*columns, strict=True)]


def check_pruning(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The optimum is the same whether dominated choices are dropped or not; how many these are."""
    instance = random_instance(seed)
    pruned = solve_highs(instance, break_ties=False, by_price=False)
    listings: list[int] = []

    def all_choices(instance: Instance) -> Choices:
        listings.append(enumerate_choices(instance, prune=False).job.size)
        return enumerate_choices(instance, prune=False)

    with monkeypatch.context() as patch:
        patch.setattr("goodalloc.solvers.exact.highs.enumerate_choices", all_choices)
        whole = solve_highs(instance, break_ties=False, by_price=False)
    assert listings, instance.name
    assert pruned.proven, instance.name
    assert whole.proven, instance.name
    assert pruned.bound == pytest.approx(whole.bound, rel=2e-9), instance.name
    return listings[0] - enumerate_choices(instance).job.size


def test_pruning_never_changes_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of random instances, all powers."""
    dropped = [check_pruning(seed, monkeypatch) for seed in range(20_000, 20_020)]
    assert sum(number > 0 for number in dropped) > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(21_000, 23_000, 250))
def test_pruning_never_changes_the_optimum_of_thousands(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 random instances, all powers."""
    for seed in range(first, first + 250):
        check_pruning(seed, monkeypatch)


@pytest.mark.parametrize("seed", range(30))
def test_every_feasible_allocation_is_made_of_choices(seed: int) -> None:
    """Without pruning each row of each feasible allocation is a choice, worth what it is worth."""
    instance = random_instance(seed)
    choices = enumerate_choices(instance, prune=False)
    found = enumerate_allocations(instance)
    for index in range(0, len(found.row), 1 + len(found.row) // 40):
        at = choices_of(instance, choices, found.allocation(index))
        assert at.min() >= 0
        assert choices.job[at].tolist() == list(range(instance.num_jobs))
        np.testing.assert_array_equal(choices.utility[at], found.utility[index])


@pytest.mark.parametrize("seed", range(30))
def test_every_choice_is_in_order_and_allowed(seed: int) -> None:
    """Sorted by job, kind and GPUs, none twice; pruned ones are among all; each job has one."""
    instance = random_instance(seed)
    all_of_them, pruned = (enumerate_choices(instance, prune=prune) for prune in (False, True))
    for choices in (all_of_them, pruned):
        keys = list(zip(choices.job, choices.kind, choices.replicas, strict=True))
        assert keys == sorted(set(keys))
        assert set(choices.job.tolist()) == set(range(instance.num_jobs))
        assert (choices.utility >= instance.rules.floor).all()
    assert set(listed(pruned)) <= set(listed(all_of_them))


def test_choices_of_known_jobs_are_the_expected_ones() -> None:
    """Sizes of nodes, limits of the job, pinning and the node limit show in the choices."""
    jobs = (
        Job("free", min_replicas=2, max_replicas=3),
        Job("pinned", placement=((0, 1),), preemptible=False),
        Job("wide", placement=((0, 1), (1, 1)), max_replicas=1),
    )
    instance = Instance(Cluster.uniform(2, 2), jobs, Rules(max_nodes_per_job=2))
    expected = [
        (0, "IDLE", 0),
        (0, "ONE_NODE", 2),
        (0, "SEVERAL_NODES", 2),
        (0, "SEVERAL_NODES", 3),
        (1, "KEEP", 1),
        (2, "IDLE", 0),
        (2, "ONE_NODE", 1),
    ]
    assert listed(enumerate_choices(instance, prune=False)) == expected
    narrow = instance.replace(rules=Rules(max_nodes_per_job=1))
    found = listed(enumerate_choices(narrow, prune=False))
    assert found == [choice for choice in expected if choice[1] != "SEVERAL_NODES"]


def test_two_gpus_on_two_nodes_survive_four_on_one() -> None:
    """Pieces of one fit where a four does not: more GPUs on one node dominate nothing."""
    cluster = Cluster((NodeGroup("large", 1, 4), NodeGroup("small", 2, 1)))
    job = Job("job", SpeedupTable((1.0, 1.0, 1.0, 9.0), (0.0, 2.0)), age=1e9)
    found = listed(enumerate_choices(Instance(cluster, (job,))))
    assert (0, "SEVERAL_NODES", 2) in found
    assert (0, "ONE_NODE", 4) in found
    assert (0, "ONE_NODE", 2) not in found  # one GPU is worth as much


def test_a_job_that_may_not_keep_what_it_has_has_no_such_choice() -> None:
    """Too many or too few GPUs, too many nodes, or beside a pinned distributed job."""
    jobs = (
        Job("pinned", placement=((0, 1), (1, 1)), preemptible=False),
        Job("beside", placement=((1, 1), (2, 1))),
        Job("local", placement=((2, 1),)),
        Job("few", placement=((3, 1),), min_replicas=2),
        Job("many", placement=((3, 2),), max_replicas=1),
        Job("idle"),
    )
    instance = Instance(Cluster.uniform(4, 4), jobs)
    assert may_keep(instance).tolist() == [True, False, True, False, False, False]
    together = instance.replace(rules=Rules(interference_avoidance=False))
    assert may_keep(together).tolist() == [True, True, True, False, False, False]


def test_labels_say_what_a_choice_is() -> None:
    """Job, kind and GPUs."""
    instance = Instance(Cluster.uniform(1, 2), (Job("job", placement=((0, 2),)),))
    choices = enumerate_choices(instance, prune=False)
    labels = [choices.label(index) for index in range(len(choices))]
    assert labels == ["0_keep_2", "0_idle_0", "0_one_node_1", "0_one_node_2"]
