"""Instance, allocation and result files: exact round trips, stable text, speed."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.data.files.allocation import read_allocation, write_allocation
from goodalloc.data.files.instance import (
    instance_from_dict,
    instance_text,
    instance_to_dict,
    read_instance,
    write_instance,
)
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import OSDI21, Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.interface.result import Incumbent, Limit, Result, Status
from goodalloc.solvers.interface.result_file import read_result, write_result
from tests.support.random_instances import random_mode_instance, random_share_instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLUSTER = Cluster((NodeGroup("node", 3, 4), NodeGroup("big", 1, 8)))

positive = st.floats(1e-9, 1e9)
tables = st.builds(
    SpeedupTable,
    st.lists(st.floats(0, 1e6), min_size=1, max_size=6).map(tuple),
    st.lists(st.floats(0, 1e6), max_size=6).map(tuple),
)
goodput_models = st.builds(
    GoodputModel,
    st.builds(ThroughputParameters, *[positive] * 6, st.floats(1, 10)),
    st.builds(GradientStatistics, st.floats(0, 1e9), st.floats(0, 1e9)),
    st.builds(
        BatchLimits,
        st.integers(1, 64),
        st.integers(64, 9999),
        st.integers(1, 8),
        st.integers(8, 64),
        st.booleans(),
    ),
)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """An instance with every kind of model, rule and placement."""
    models = draw(st.lists(st.none() | tables | goodput_models, min_size=1, max_size=5))
    free = CLUSTER.node_gpus.copy()
    jobs = []
    for index, model in enumerate(models):
        wanted = draw(st.dictionaries(st.integers(0, 3), st.integers(1, 2), max_size=2))
        pairs = tuple(sorted((n, g) for n, g in wanted.items() if g <= free[n]))
        for node, gpus in pairs:
            free[node] -= gpus
        jobs.append(
            Job(
                f"job-{index}",
                model,
                draw(st.floats(0, 1e7)),
                draw(st.integers(0, 99)),
                pairs,
                draw(st.integers(0, 2)),
                draw(st.integers(4, 64)),
                draw(st.just(True)),
                draw(st.floats(0, 1e9)),
                draw(st.sampled_from(["", "cifar10", "mein Netz é"])),
            )
        )
    power = draw(st.sampled_from([-1.0, 0.0, 0.1, math.inf, -math.inf]))
    rules = draw(st.sampled_from([Rules(), OSDI21])).replace(power=power)
    return Instance(CLUSTER, tuple(jobs), rules, draw(st.sampled_from(["x", "eine Runde ß"])))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("draw", [random_mode_instance, random_share_instance])
def test_modes_survive_json(draw: Callable[[int], Instance], seed: int, tmp_path: Path) -> None:
    """An instance with modes and an allocation of it: written and read back, both are equal."""
    instance = draw(seed)
    write_instance(instance, tmp_path / "instance.json")
    assert read_instance(tmp_path / "instance.json") == instance
    found = enumerate_allocations(instance)
    for index in range(0, len(found.row), max(len(found.row) // 5, 1)):
        allocation = found.allocation(index)
        write_allocation(allocation, instance, tmp_path / "allocation.json")
        assert read_allocation(tmp_path / "allocation.json", instance) == allocation
    result = solve(instance, "brute_force")
    write_result(result, instance, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json", instance).allocation == result.allocation


@given(instances())
def test_an_instance_survives_json(instance: Instance) -> None:
    """What is written and read back is equal, to the last bit of every float."""
    text = instance_text(instance)
    again = instance_from_dict(json.loads(text))
    assert again == instance
    assert instance_text(again) == text
    assert instance_from_dict(instance_to_dict(instance)) == instance


def test_an_instance_survives_a_file(tmp_path: Path) -> None:
    """A file gives the instance back; nothing else is left in the folder."""
    table = SpeedupTable((1.0, 1.9), (0.0, 1.5))
    jobs = (Job("a", table, 0.1 + 0.2, 3, ((0, 2), (3, 1)), preemptible=False), Job("b", table))
    instance = Instance(CLUSTER, jobs, OSDI21, "two")
    write_instance(instance, tmp_path / "two.json")
    assert read_instance(tmp_path / "two.json") == instance
    assert [path.name for path in tmp_path.iterdir()] == ["two.json"]


def test_equal_models_are_written_once() -> None:
    """Jobs share the entries of the table of models, by value and not by identity."""
    jobs = tuple(Job(f"j{i}", SpeedupTable((1.0, 2.0), (0.0, 2.0))) for i in range(5))
    document = instance_to_dict(Instance(CLUSTER, jobs))
    assert len(document["models"]) == 1


def test_numpy_numbers_are_written_as_plain_ones() -> None:
    """Counts and numbers of numpy's types read back as equal numbers."""
    job = Job("a", None, np.float64(3.5), np.int64(2), ((np.int64(1), np.int64(2)),))  # type: ignore[arg-type]
    instance = Instance(CLUSTER, (job,), Rules(max_nodes_per_job=np.int64(4)))  # type: ignore[arg-type]
    assert instance_from_dict(json.loads(instance_text(instance))) == instance


@pytest.mark.parametrize("application", application_names())
def test_an_application_may_stand_for_its_model(application: str) -> None:
    """The short form is resolved from the shipped profiles."""
    document = {
        "format": "goodalloc-instance",
        "version": 1,
        "cluster": [{"name": "node", "nodes": 1, "gpus": 4}],
        "models": {"m": {"application": application, "progress": 0.3}},
        "jobs": [{"name": "a", "model": "m"}],
    }
    model = instance_from_dict(document).jobs[0].model
    assert model == load_profile(application).goodput_model(0.3)


def test_a_preset_may_stand_for_the_rules() -> None:
    """The name of a preset and its values mean the same; left out, the default ones hold."""
    document = instance_to_dict(Instance(CLUSTER, (Job("a"),), OSDI21))
    document["rules"] = "osdi21"
    assert instance_from_dict(document).rules == OSDI21
    del document["rules"]
    assert instance_from_dict(document).rules == Rules()


def test_the_file_name_is_the_default_name(tmp_path: Path) -> None:
    """An instance without a name is called after its file."""
    document = instance_to_dict(Instance(CLUSTER, (Job("a"),)))
    del document["name"]
    (tmp_path / "round-7.json").write_text(json.dumps(document))
    assert read_instance(tmp_path / "round-7.json").name == "round-7"


def test_the_example_in_the_documentation_is_read(repository: Path) -> None:
    """FORMAT.md shows two instances and an allocation; all are what it says they are."""
    text = (repository / "data" / "FORMAT.md").read_text(encoding="utf-8")
    examples = [part.split("```")[0] for part in text.split("```json")[1:]]
    instance = instance_from_dict(json.loads(examples[0]))
    assert [job.name for job in instance.jobs] == ["a", "b", "c"]
    typed = instance_from_dict(json.loads(examples[1]))
    assert typed.jobs[0].modes[1].gpu_type == "a100"
    assert not violations(typed, typed.current)
    (allocation,) = (
        found
        for found in map(json.loads, examples[2:4])
        if found["format"] == "goodalloc-allocation"
    )
    assert allocation["instance"] == instance.name


def test_ten_thousand_jobs_are_read_and_written_fast(tmp_path: Path) -> None:
    """Large files take well under a second each way on any machine; the bound is generous."""
    table = SpeedupTable((1.0, 1.9), (0.0, 1.5))
    jobs = tuple(Job(f"job-{i}", table, float(i), i % 7) for i in range(10_000))
    instance = Instance(Cluster.uniform(1_000, 8), jobs)
    begin = time.perf_counter()
    write_instance(instance, tmp_path / "large.json")
    assert read_instance(tmp_path / "large.json") == instance
    assert time.perf_counter() - begin < 5


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Whatever goes wrong while writing, the file that was there stays whole."""
    path = tmp_path / "kept.json"
    path.write_text("old")
    broken = Instance(CLUSTER, (Job("a", SpeedupTable((1.0,), (0.0,))),))
    object.__setattr__(broken.jobs[0], "age", math.nan)
    with pytest.raises(ValueError, match="JSON"):
        write_instance(broken, path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture
def two_jobs() -> Instance:
    """A small instance."""
    return Instance(CLUSTER, (Job("a"), Job("b")), name="two")


def test_an_allocation_survives_a_file(two_jobs: Instance, tmp_path: Path) -> None:
    """Placements by name give the same matrix back."""
    allocation = Allocation.from_placements([((0, 2), (3, 5)), ()], 4)
    write_allocation(allocation, two_jobs, tmp_path / "a.json")
    assert read_allocation(tmp_path / "a.json", two_jobs) == allocation


@pytest.mark.parametrize("found", [True, False])
def test_a_result_survives_a_file(two_jobs: Instance, tmp_path: Path, found: bool) -> None:
    """Every field comes back, also infinities, history and a missing allocation."""
    allocation = Allocation.from_placements([((1, 1),), ((3, 8),)], 4) if found else None
    result = Result(
        "some solver",
        "two",
        allocation,
        0.1 if found else math.nan,
        math.inf,
        "",
        Status.FEASIBLE,
        Limit.TIME,
        7,
        0.1,
        1.5,
        1 / 3,
        0.2,
        0.0,
        12,
        (Incumbent(0.5, 1, 0.05), Incumbent(1.5, 9, 0.1, 0.25)),
        "two\nlines",
    )
    path = tmp_path / "r.json"
    write_result(result, two_jobs, path)
    again = read_result(path, two_jobs)
    assert repr(again) == repr(result)
    if found:
        assert read_allocation(path, two_jobs) == allocation
