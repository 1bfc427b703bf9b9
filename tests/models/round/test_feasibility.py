"""The checker: each rule, broken by itself, is named once with the job or node and the amount."""

from __future__ import annotations

import pytest

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import Violation, violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, resources
from goodalloc.models.round.rules import Rules

CLUSTER = Cluster((NodeGroup("big", 2, 4), NodeGroup("small", 1, 2)))
JOBS = (
    Job("wide", max_replicas=6),
    Job("greedy", min_replicas=2, max_replicas=3),
    Job("pinned", placement=((2, 1),), preemptible=False),
)
INSTANCE = Instance(CLUSTER, JOBS, Rules(max_nodes_per_job=2))

FEASIBLE = [
    [[0, 0, 0], [0, 0, 0], [0, 0, 1]],
    [[2, 2, 0], [2, 0, 0], [0, 0, 1]],
    [[4, 0, 0], [0, 2, 1], [0, 0, 1]],
    [[0, 4, 1], [3, 0, 0], [0, 0, 1]],
]

BROKEN = [
    (
        [[4, 0, 0], [2, 0, 0], [0, 0, 1]],
        "capacity",
        "Node 'big-0' holds 6 replicas; it has 4 GPUs.",
    ),
    (
        [[0, 0, 2], [0, 0, 0], [0, 0, 1]],
        "capacity",
        "Node 'small-0' holds 3 replicas; it has 2 GPUs.",
    ),
    (
        [[4, 3, 0], [0, 0, 0], [0, 0, 1]],
        "max_replicas",
        "Job 'wide' has 7 replicas; max_replicas is 6.",
    ),
    (
        [[0, 0, 0], [1, 0, 0], [0, 0, 1]],
        "min_replicas",
        "Job 'greedy' has 1 replicas; min_replicas is 2.",
    ),
    (
        [[1, 1, 1], [0, 0, 0], [0, 0, 1]],
        "max_nodes_per_job",
        "Job 'wide' spans 3 nodes; max_nodes_per_job is 2.",
    ),
    (
        [[1, 1, 0], [1, 1, 0], [0, 0, 1]],
        "interference",
        "Node 'big-0' is shared by distributed jobs wide, greedy.",
    ),
    (
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        "pinned",
        "Job 'pinned' is not preemptible and was moved or stopped.",
    ),
    (
        [[0, 0, 0], [0, 0, 0], [1, 0, 0]],
        "pinned",
        "Job 'pinned' is not preemptible and was moved or stopped.",
    ),
    (
        [[0, 0, 0], [0, 0, 0], [0, 0, 2]],
        "pinned",
        "Job 'pinned' is not preemptible and was moved or stopped.",
    ),
]


@pytest.mark.parametrize("matrix", FEASIBLE)
def test_a_feasible_allocation_breaks_no_rule(matrix: list[list[int]]) -> None:
    """Idle, packed, beside a distributed job and on all GPUs."""
    assert violations(INSTANCE, Allocation.from_matrix(matrix)) == ()


@pytest.mark.parametrize(("matrix", "rule", "message"), BROKEN)
def test_a_broken_rule_is_named_with_its_culprit(
    matrix: list[list[int]], rule: str, message: str
) -> None:
    """The rule, and a sentence with the name and the amount; interference once a node."""
    found = violations(INSTANCE, Allocation.from_matrix(matrix))
    assert Violation(rule, message) in found
    assert {violation.rule for violation in found} == {rule}
    assert len(found) == (2 if rule == "interference" else 1)
    assert str(found[0]) == found[0].message


def test_all_broken_rules_are_listed() -> None:
    """Jobs first, then nodes, each in order."""
    found = violations(INSTANCE, Allocation.from_matrix([[5, 1, 1], [1, 0, 0], [0, 1, 0]]))
    assert [violation.rule for violation in found] == [
        "max_replicas",
        "max_nodes_per_job",
        "min_replicas",
        "pinned",
        "capacity",
    ]


def test_interference_is_a_rule_that_can_be_off() -> None:
    """Without it distributed jobs share nodes."""
    together = INSTANCE.replace(rules=Rules(interference_avoidance=False))
    allocation = Allocation.from_matrix([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert violations(together, allocation) == ()


def test_a_distributed_job_may_share_nodes_with_others() -> None:
    """One distributed job and any number of local ones."""
    allocation = Allocation.from_matrix([[1, 1, 0], [0, 3, 0], [0, 0, 1]])
    assert violations(INSTANCE, allocation) == ()


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (0, 0)])
def test_another_shape_is_the_only_violation(shape: tuple[int, int]) -> None:
    """Nothing else can be told."""
    (found,) = violations(INSTANCE, Allocation.empty(*shape))
    assert found.rule == "shape"
    assert found.message == (
        f"The allocation is {shape[0]} jobs by {shape[1]} nodes; the instance is 3 by 3."
    )


def test_a_job_that_is_not_preemptible_but_idle_is_free() -> None:
    """Only running jobs are pinned."""
    instance = Instance(CLUSTER, (Job("idle", preemptible=False),))
    for matrix in ([[0, 0, 0]], [[2, 0, 0]]):
        assert violations(instance, Allocation.from_matrix(matrix)) == ()


MIXED = Cluster(
    (
        NodeGroup("old", 2, 4, "t4", resources({"cpu": 8, "memory": 10})),
        NodeGroup("new", 1, 4, "a100"),
    )
)
MODES = (
    Mode("slim", None, "t4", resources({"cpu": 1})),
    Mode("fat", resources=resources({"cpu": 3})),
)
EQUIPPED = Instance(
    MIXED,
    (
        Job("free", modes=MODES, max_replicas=8),
        Job("stays", modes=MODES, placement=((0, 1),), mode="fat", preemptible=False),
        Job("plain"),
    ),
)


@pytest.mark.parametrize(
    ("free", "modes", "rule", "message"),
    [
        ([3, 0, 0], [0, 1, 0], None, ""),
        ([0, 2, 0], [1, 1, 0], None, ""),
        ([2, 0, 0], [1, 1, 0], "resource", "Node 'old-0' gives 9 of cpu; it has 8."),
        ([0, 0, 1], [1, 1, 0], "resource", "Node 'new-0' gives 3 of cpu; it has 0."),
        (
            [0, 0, 1],
            [0, 1, 0],
            "gpu_type",
            "Job 'free' is on node 'new-0', whose GPUs are 'a100'; its mode is for 't4'.",
        ),
        ([1, 0, 0], [2, 1, 0], "mode", "Job 'free' runs in mode 2; it has 2, from 0."),
        ([1, 0, 0], [0, 0, 0], "pinned", "Job 'stays' is not preemptible and changed its mode."),
    ],
)
def test_what_modes_break_is_named(
    free: list[int], modes: list[int], rule: str | None, message: str
) -> None:
    """Resources, types of GPU, modes that there are not, and pinned ones."""
    allocation = Allocation.from_matrix([free, [1, 0, 0], [0, 0, 1]], modes)
    found = violations(EQUIPPED, allocation)
    if rule is None:
        assert not found
    else:
        assert Violation(rule, message) in found


def test_a_mode_of_its_own_for_every_allocation() -> None:
    """Modes tell allocations apart, but not where nothing runs."""
    one = Allocation.from_matrix([[1, 0], [0, 0]], [0, 1])
    other = Allocation.from_matrix([[1, 0], [0, 0]], [1, 0])
    assert one.mode.tolist() == [0, 0]
    assert one != other
    assert one.unchanged(other).tolist() == [False, True]
    assert one == Allocation.from_matrix([[1, 0], [0, 0]])
    with pytest.raises(ValueError, match="expected 2 whole numbers of at least 0"):
        Allocation.from_matrix([[1, 0], [0, 0]], [0, -1])
