"""Tests of the state that an agent publishes and of the allocation that it reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.files.job_state import (
    JobState,
    read_job_state,
    read_placement,
    read_placements,
    write_job_state,
)
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.solvers import solve

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = Cluster.uniform(2, 4)
NODE = CLUSTER.node_names[0]
STATE = JobState(
    "digits",
    BatchLimits(32, 1024, 4, 64, True),
    1000.0,
    1600.0,
    replicas=2,
    placement={NODE: 2},
    restarts=1,
    attained_service=1200.0,
    most_replicas=2,
    atomic=16,
    steps=5,
    examples=160,
    scale_invariant_steps=5.0,
    gradient=GradientStatistics(1.0, 5.0),
    throughput=ThroughputParameters(0.1, 0.01, 0.02, 0.001, 0.03, 0.002, 1.5),
)


@pytest.mark.parametrize("known", [("gradient", "throughput"), ("gradient",), ("throughput",), ()])
def test_what_is_written_and_read_back_is_equal(tmp_path: Path, known: tuple[str, ...]) -> None:
    """Also before statistics or a fit are there."""
    unknown: dict[str, Any] = {
        name: None for name in ("gradient", "throughput") if name not in known
    }
    state = replace(STATE, **unknown)
    write_job_state(tmp_path / "state.json", state)
    assert read_job_state(tmp_path / "state.json") == state
    assert (state.model is None) == (len(known) < 2)


def test_fits_on_other_types_of_gpu_are_written_and_read_back(tmp_path: Path) -> None:
    """Files of before know nothing of types."""
    path, fit = tmp_path / "state.json", ThroughputParameters(0.2, 0.02, 0.0, 0.0, 0.0, 0.0, 1.0)
    state = replace(STATE, gpu_type="T4", elsewhere={"A100": fit})
    write_job_state(path, state)
    assert read_job_state(path) == state
    assert list(state.fits.items()) == [("T4", STATE.throughput), ("A100", fit)]
    assert replace(state, throughput=None).fits == {"A100": fit}
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["gpu_type"], document["elsewhere"]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_job_state(path) == STATE


def test_the_state_makes_a_job_that_a_solver_decides_and_the_agent_reads_back(
    tmp_path: Path,
) -> None:
    """State to instance to allocation to placement, by the files that are there."""
    job = STATE.job(CLUSTER)
    assert (job.age, job.restarts, job.max_replicas) == (600.0, 1, 4)
    instance = Instance(CLUSTER, (job,))
    found = solve(instance, "highs")
    assert found.allocation is not None
    write_allocation(found.allocation, instance, tmp_path / "best.json")
    placement = read_placement(tmp_path / "best.json", "digits")
    assert 1 <= sum(placement.values()) <= 4
    assert read_placement(tmp_path / "best.json", "another") == {}
    assert read_placements(tmp_path / "best.json") == {"digits": placement}


def test_a_job_may_take_twice_what_it_had_but_no_more_than_its_batch_can_be_shared_by() -> None:
    """M_max / m_min = 256 replicas."""
    assert replace(STATE, most_replicas=100).max_replicas == 200
    assert replace(STATE, most_replicas=200).max_replicas == 256


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": ""}, "name is ''"),
        ({"replicas": 0}, "'digits': replicas is 0"),
        ({"replicas": 1.5}, "replicas is 1.5"),
        ({"steps": -1}, "steps is -1"),
        ({"examples": math.nan}, "examples is nan"),
        ({"restarts": True}, "restarts is true"),
        ({"submitted": -1.0}, "submitted is -1.0"),
        ({"published": math.inf}, "published is inf"),
        ({"placement": {NODE: 0}}, "GPUs on node 'node-0' is 0"),
        ({"placement": 3}, "placement is 3; expected an object of node names"),
        ({"scale_invariant_steps": math.nan}, "scale_invariant_steps is nan"),
        ({"finished": 1}, "finished is 1; expected true or false"),
        ({"gpu_type": 4}, "gpu_type is 4; expected a string"),
        (
            {"gpu_type": "T4", "elsewhere": {"T4": STATE.throughput}},
            "elsewhere names the type 'T4'",
        ),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(fields: dict[str, Any], sentence: str) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        replace(STATE, **fields)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "other"}, "format is 'other'"),
        ({"colour": 1}, "key 'colour' is unknown"),
        ({"name": 3}, "name is 3"),
        ({"submitted": "now"}, "submitted is 'now'"),
        ({"gradient": {"square": 1.0}}, "key 'variance' is missing"),
        ({"gradient": {"square": -1.0, "variance": 1.0}}, "square is -1.0"),
        ({"throughput": 3}, "is 3; expected an object"),
        ({"batch": None}, "expected an object"),
        ({"atomic": None}, "atomic is null"),
        ({"finished": None}, "finished is null"),
        ({"elsewhere": 3}, "elsewhere is 3; expected an object of GPU types"),
        ({"elsewhere": {"T4": {"gamma": 1.0}}}, "is missing"),
    ],
)
def test_a_state_file_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """With the name of the file."""
    path = tmp_path / "state.json"
    write_job_state(path, STATE)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))
    with pytest.raises(ValueError, match=sentence) as raised:
        read_job_state(path)
    assert str(raised.value).startswith(f"File '{path}'")


@pytest.mark.parametrize(
    ("placements", "sentence"),
    [
        (None, "placements is null"),
        ({"digits": 2}, "placement is 2"),
        ({"digits": {"a": 0}}, "GPUs on node 'a' is 0"),
        ({"digits": {"": 1}}, "name is ''"),
        ({"digits": {"a": 1.5}}, "GPUs on node 'a' is 1.5"),
    ],
)
def test_an_allocation_that_makes_no_sense_is_refused(
    tmp_path: Path, placements: object, sentence: str
) -> None:
    """With the name of the file."""
    path = tmp_path / "allocation.json"
    document = {"format": "goodalloc-allocation", "version": 1, "placements": placements}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_placement(path, "digits")
    with pytest.raises(ValueError, match=sentence):
        read_placements(path)
