"""Cluster, job, rules and instance: frozen, replaceable, and refused where they make no sense."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.rules import OSDI21, PRESETS, SIA, Rules

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = GoodputModel(
    ThroughputParameters(0.1, 0.01, 0.1, 0.01, 0.2, 0.02, 1.5),
    GradientStatistics(1.0, 2.0),
    BatchLimits(8, 64, 2, 16, True),
)

MIXED = Cluster((NodeGroup("big", 2, 8), NodeGroup("small", 3, 4)))


def test_nodes_are_numbered_through() -> None:
    """Group after group, with names and GPUs."""
    assert MIXED.node_gpus.tolist() == [8, 8, 4, 4, 4]
    assert MIXED.node_names == ("big-0", "big-1", "small-0", "small-1", "small-2")
    assert MIXED.node_index["small-1"] == 3
    assert (MIXED.num_nodes, MIXED.num_gpus) == (5, 28)
    assert Cluster.uniform(2, 4) == Cluster((NodeGroup("node", 2, 4),))


def test_defaults_are_the_published_values() -> None:
    """Harmonic mean, floor 0.001, 30 s, 16 nodes, interference avoided; the grid for OSDI'21."""
    rules = Rules()
    assert (rules.power, rules.floor, rules.restart_delay) == (-1.0, 1e-3, 30.0)
    assert (rules.max_nodes_per_job, rules.interference_avoidance) == (16, True)
    assert (rules.fair_share, rules.speedup_scale) == ("one_node", "node")
    assert rules.replace(batch_search="grid") == OSDI21
    assert OSDI21.grid_points == 50
    assert {"default": Rules(), "osdi21": OSDI21, "sia": SIA} == PRESETS


def test_columns_are_those_of_the_jobs() -> None:
    """Arrays of what the jobs say, and where they run."""
    jobs = (
        Job("a", age=5.0, restarts=2, placement=((0, 1), (1, 2)), max_replicas=99),
        Job("b", min_replicas=2, max_replicas=3),
        Job("c", placement=((4, 4),), preemptible=False),
    )
    instance = Instance(MIXED, jobs)
    assert instance.num_jobs == 3
    assert instance.fair_share == 10
    assert instance.current.matrix().tolist() == [[1, 2, 0, 0, 0], [0] * 5, [0, 0, 0, 0, 4]]
    assert instance.min_replicas.tolist() == [1, 2, 1]
    assert instance.max_replicas.tolist() == [28, 3, 28]
    assert instance.pinned.tolist() == [False, False, True]
    assert (instance.age.tolist(), instance.restarts.tolist()) == ([5.0, 0.0, 0.0], [2, 0, 0])
    assert [job.replicas for job in jobs] == [3, 0, 4]


@pytest.mark.parametrize(
    ("item", "field", "value"),
    [
        (NodeGroup("node", 1, 1), "gpus", 2),
        (Cluster.uniform(1, 1), "groups", ()),
        (Job("job"), "age", 1.0),
        (Rules(), "power", 1.0),
        (Instance(Cluster.uniform(1, 1), (Job("job"),)), "name", "other"),
    ],
)
def test_nothing_can_be_changed(item: object, field: str, value: object) -> None:
    """All of them are frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(item, field, value)


def test_replace_makes_a_checked_copy() -> None:
    """Another object with one value changed; a value that makes no sense is refused again."""
    job, rules = Job("job", age=1.0), Rules()
    instance = Instance(Cluster.uniform(1, 1), (job,), rules)
    assert job.replace(age=2.0) == Job("job", age=2.0)
    assert rules.replace(power=0.0) == Rules(power=0.0)
    assert instance.replace(name="other").name == "other"
    assert (job.age, rules.power, instance.name) == (1.0, -1.0, "instance")
    for change in (
        lambda: job.replace(age=-1.0),
        lambda: rules.replace(power=math.nan),
        lambda: instance.replace(jobs=()),
    ):
        with pytest.raises(ValueError, match="expected"):
            change()


def changed(part: str, **values: object) -> GoodputModel:
    """The good model with some numbers changed."""
    return MODEL._replace(**{part: getattr(MODEL, part)._replace(**values)})


ONE = Instance(Cluster.uniform(2, 2), (Job("job"),))
SPREAD = ((0, 1), (1, 1))

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: NodeGroup(" ", 1, 1), "Node group: name is ' '"),
    (lambda: NodeGroup("n", 0, 1), "Node group 'n': nodes is 0; expected .* at least 1"),
    (lambda: NodeGroup("n", 1, -1), "Node group 'n': gpus is -1"),
    (lambda: Cluster((NodeGroup("n", 1, 0),)), "Cluster: no node has a GPU"),
    (lambda: NodeGroup("n", 1, 2.0), "gpus is 2.0"),  # type: ignore[arg-type]
    (lambda: NodeGroup("n", True, 1), "nodes is true"),
    (lambda: Cluster(()), "at least one node group"),
    (lambda: Cluster((NodeGroup("n", 1, 1),) * 2), "node group 'n' is named twice"),
    (
        lambda: Cluster((NodeGroup("n", 1, 1), NodeGroup("n-0", 1, 1), NodeGroup("n", 1, 1))),
        "named twice",
    ),
    (lambda: Rules(power=math.nan), "Rules: power is nan"),
    (lambda: Rules(power="1"), "Rules: power is '1'"),  # type: ignore[arg-type]
    (lambda: Rules(floor=0.0), "floor is 0.0; expected .* above 0"),
    (lambda: Rules(restart_delay=-1.0), "restart_delay is -1.0"),
    (lambda: Rules(max_nodes_per_job=0), "max_nodes_per_job is 0"),
    (lambda: Rules(interference_avoidance=1), "interference_avoidance is 1"),  # type: ignore[arg-type]
    (lambda: Rules(fair_share="all"), "fair_share is 'all'; expected one of one_node, packed"),  # type: ignore[arg-type]
    (lambda: Rules(speedup_scale="gpu"), "speedup_scale is 'gpu'"),  # type: ignore[arg-type]
    (lambda: Rules(batch_search="fast"), "batch_search is 'fast'"),  # type: ignore[arg-type]
    (lambda: Rules(grid_points=1), "grid_points is 1"),
    (lambda: Job(""), "Job: name is ''"),
    (lambda: Job("a\n"), "Job: name is"),
    (lambda: Job("a", age=-1.0), "Job 'a': age is -1.0; expected .* at least 0"),
    (lambda: Job("a", age=math.nan), "Job 'a': age is nan"),
    (lambda: Job("a", restarts=-1), "Job 'a': restarts is -1"),
    (lambda: Job("a", restarts=0.5), "Job 'a': restarts is 0.5"),  # type: ignore[arg-type]
    (lambda: Job("a", min_replicas=5, max_replicas=4), "min_replicas is 5; expected at most .* 4"),
    (lambda: Job("a", max_replicas=0), "Job 'a': max_replicas is 0"),
    (lambda: Job("a", preemptible=None), "Job 'a': preemptible is null"),  # type: ignore[arg-type]
    (lambda: Job("a", attained_service=-1.0), "Job 'a': attained_service is -1.0"),
    (lambda: Job("a", application=3), "Job 'a': application is 3; expected a string"),  # type: ignore[arg-type]
    (lambda: Job("a", placement=((0, 0),)), "Job 'a': GPUs on node 0 is 0"),
    (lambda: Job("a", placement=((-1, 1),)), "Job 'a': node of its placement is -1"),
    (lambda: Job("a", placement=((1, 1), (0, 1))), "names node 0 after node 1"),
    (lambda: Job("a", placement=((1, 1), (1, 1))), "names node 1 after node 1"),
    (lambda: Job("a", placement=((1, 1, 1),)), "Job 'a': placement is .* pairs"),  # type: ignore[arg-type]
    (lambda: Job("a", placement=5), "Job 'a': placement is 5; expected a tuple"),  # type: ignore[arg-type]
    (lambda: Job("a", placement={0: 1}), "Job 'a': placement is {0: 1}"),  # type: ignore[arg-type]
    (lambda: Job("a", "fast"), "Job 'a': model is of type str; expected a GoodputModel"),  # type: ignore[arg-type]
    (lambda: Job("a", 1.0), "Job 'a': model is of type float"),  # type: ignore[arg-type]
    (lambda: Job("a", GoodputModel(1, 2, 3)), "Job 'a': throughput of its model is of type int"),  # type: ignore[arg-type]
    (lambda: Job("a", changed("throughput", alpha_grad=math.nan)), "Job 'a': alpha_grad is nan"),
    (lambda: Job("a", changed("throughput", beta_node=math.inf)), "Job 'a': beta_node is inf"),
    (lambda: Job("a", changed("throughput", gamma=0.5)), "Job 'a': gamma is 0.5; expected 1 or"),
    (lambda: Job("a", changed("throughput", alpha_grad=0.0, beta_grad=0.0)), "a positive time"),
    (lambda: Job("a", changed("throughput", gamma="2")), "Job 'a': gamma"),
    (lambda: Job("a", changed("gradient", variance=-1.0)), "Job 'a': variance is -1.0"),
    (lambda: Job("a", changed("gradient", square=None)), "Job 'a': square is"),
    (lambda: Job("a", changed("batch", initial=0)), "Job 'a': initial is 0"),
    (lambda: Job("a", changed("batch", initial=8.5)), "Job 'a': initial is 8.5"),
    (lambda: Job("a", changed("batch", initial=65)), "initial is 65; expected at most maximum"),
    (lambda: Job("a", changed("batch", atomic_minimum=17)), "atomic_minimum is 17; expected at m"),
    (lambda: Job("a", changed("batch", atomic_minimum=65, atomic_maximum=99)), "at most maximum"),
    (lambda: Job("a", changed("batch", accumulation=2)), "accumulation is 2"),
    (lambda: Job("a", changed("throughput", gamma=np.array([1.0, 2.0]))), "gamma of its model is"),
    (lambda: Job("a", SpeedupTable((), ())), "Job 'a': one_node speedups are empty"),
    (lambda: Job("a", SpeedupTable((1.0, -1.0), ())), "one_node speedup on 2 GPUs is -1.0"),
    (lambda: Job("a", SpeedupTable((1.0,), (math.nan,))), "several_nodes speedup on 1 GPUs is nan"),
    (lambda: Job("a", SpeedupTable(2.0, ())), "Job 'a': one_node speedups are of type float"),  # type: ignore[arg-type]
    (lambda: ONE.replace(jobs=()), "at least one job"),
    (lambda: ONE.replace(name=""), "Instance: name is ''"),
    (lambda: ONE.replace(jobs=(Job("a"), Job("a"))), "Job 'a' is named twice"),
    (
        lambda: ONE.replace(jobs=(Job("a", placement=((2, 1),)),)),
        "Job 'a': placement names node 2; the cluster has nodes 0 to 1",
    ),
    (
        lambda: ONE.replace(jobs=(Job("a", placement=((0, 2),)), Job("b", placement=((0, 1),)))),
        "Node 'node-0': current placements hold 3 GPUs; the node has 2",
    ),
    (
        lambda: ONE.replace(jobs=(Job("a", placement=SPREAD, preemptible=False, max_replicas=1),)),
        "Job 'a' is not preemptible and holds 2 GPUs; expected 0 to 1",
    ),
    (
        lambda: Instance(
            Cluster.uniform(2, 2),
            (Job("a", placement=SPREAD, preemptible=False),),
            Rules(max_nodes_per_job=1),
        ),
        "Job 'a' is not preemptible and spans 2 nodes; expected at most 1",
    ),
    (
        lambda: ONE.replace(
            jobs=tuple(Job(name, placement=SPREAD, preemptible=False) for name in "ab")
        ),
        "Job 'b' is not preemptible and shares node 'node-0' with 'a'",
    ),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(call: Callable[[], object], words: str) -> None:
    """ValueError with one sentence that has the item, its value and what was expected."""
    with pytest.raises(ValueError, match=words) as caught:
        call()
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_numbers_of_numpy_are_numbers() -> None:
    """Whatever a reader of data hands over."""
    model = changed("throughput", gamma=np.float64(2.0), alpha_grad=np.float32(0.1))
    initial, maximum, accumulation = np.array(8)[()], np.array(64)[()], np.array(True)[()]
    model = model._replace(batch=BatchLimits(initial, maximum, 2, 16, accumulation))
    assert Job("a", model, age=np.float64(1.0), restarts=np.int64(2)).model == model  # type: ignore[arg-type]


def test_a_list_of_jobs_makes_the_same_instance_as_a_tuple() -> None:
    """Which can be hashed, as every other one."""
    instance = load_benchmark("tiny-cold")
    same = dataclasses.replace(instance, jobs=list(instance.jobs))  # type: ignore[arg-type]
    assert (same, hash(same)) == (instance, hash(instance))


def test_a_copy_by_pickle_holds_the_fields_alone() -> None:
    """What was worked out from an instance stays with it; the copy is equal all the same."""
    instance = load_benchmark("tiny-cold")
    table = mode_utilities(instance)
    assert mode_utilities(instance) is table
    copy = pickle.loads(pickle.dumps(instance))
    assert copy == instance
    assert copy.memo == {}
    np.testing.assert_array_equal(mode_utilities(copy).moved, table.moved)
