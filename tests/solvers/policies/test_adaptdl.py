"""AdaptDL's calling convention: its jobs and nodes in, its allocations out."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.models.round.rules import Rules
from goodalloc.solvers.policies.adaptdl import PolluxPolicy, build_instance

if TYPE_CHECKING:
    from collections.abc import Callable

GPU = "nvidia.com/gpu"


def linear(nodes: Any, replicas: Any) -> Any:
    """A job that scales perfectly."""
    return np.asarray(replicas, dtype=float)


def saturating(nodes: Any, replicas: Any) -> Any:
    """A job that gains nothing beyond two replicas, and less on several nodes."""
    return np.minimum(replicas, 2) * np.where(np.asarray(nodes) > 1, 0.5, 1.0)


def job(speedup: Callable[..., Any] = linear, **changes: Any) -> Any:
    """A job as AdaptDL describes one."""
    created = datetime.now(UTC) - timedelta(hours=2)
    plain = {
        "resources": {GPU: 1, "pods": 1},
        "speedup_fn": speedup,
        "creation_timestamp": created,
        "min_replicas": 0,
        "max_replicas": 8,
        "preemptible": True,
    }
    return SimpleNamespace(**(plain | changes))


def nodes(count: int = 2, gpus: int = 4, pods: int = 32) -> dict[Any, Any]:
    """Nodes as AdaptDL describes them."""
    resources = {GPU: gpus, "pods": pods}
    return {f"n{i}": SimpleNamespace(resources=resources, preemptible=False) for i in range(count)}


def test_every_gpu_is_used_once_and_everyone_is_served() -> None:
    """Keys may be tuples, as namespace and name are; nodes are those that exist."""
    jobs = {("space", f"job{i}"): job() for i in range(4)}
    allocations, wanted = PolluxPolicy().optimize(jobs, nodes(), {}, nodes()["n0"])
    assert set(allocations) == set(jobs)
    assert wanted == 4  # what scales perfectly could use twice as many
    assert [len(held) for held in allocations.values()] == [2, 2, 2, 2]
    used = Counter(node for held in allocations.values() for node in held)
    assert used == {"n0": 4, "n1": 4}


def test_replicas_go_where_they_speed_something_up() -> None:
    """The job that saturates at two replicas gets two, on one node; the other gets what it can."""
    jobs = {"flat": job(saturating), "steep": job()}
    allocations, _ = PolluxPolicy().optimize(jobs, nodes(), {}, None)
    assert len(allocations["flat"]) == 2
    assert len(set(allocations["flat"])) == 1
    assert len(allocations["steep"]) == 6


def test_a_job_that_may_not_be_moved_stays() -> None:
    """Not preemptible and running: exactly as it was, though others could use the room."""
    jobs = {"pinned": job(saturating, preemptible=False), "new": job()}
    base = {"pinned": ["n1", "n1", "n1"]}
    allocations, _ = PolluxPolicy().optimize(jobs, nodes(), base, None)
    assert allocations["pinned"] == base["pinned"]
    assert "n0" in allocations["new"]


def test_a_good_allocation_stays_in_place() -> None:
    """Restarting costs, so an optimal allocation is kept."""
    jobs = {f"job{i}": job() for i in range(2)}
    base = {"job0": ["n1"] * 4, "job1": ["n0"] * 4}
    assert PolluxPolicy().optimize(jobs, nodes(), base, None)[0] == base


def strict(nodes: Any, replicas: Any) -> Any:
    """A job whose speedup refuses more nodes than replicas, as AdaptDL's does."""
    assert np.all(np.less_equal(nodes, replicas))
    return np.asarray(replicas, dtype=float)


def test_no_speedup_is_asked_for_that_cannot_be() -> None:
    """One replica is on one node."""
    allocations, _ = PolluxPolicy().optimize({"a": job(strict)}, nodes(4, gpus=1), {}, None)
    assert len(allocations["a"]) == 4


def test_a_job_that_was_created_this_moment_is_started() -> None:
    """Though its restart penalty is as large as can be; also if its clock is ahead."""
    for ahead in (0, 120):
        created = datetime.now(UTC) + timedelta(seconds=ahead)
        jobs = {"new": job(creation_timestamp=created)}
        assert PolluxPolicy().optimize(jobs, nodes(1), {}, None)[0]["new"]


def concave(nodes: Any, replicas: Any) -> Any:
    """A job that gains the root of its replicas: of four GPUs half a GPU's worth each."""
    return np.sqrt(np.asarray(replicas, dtype=float))


@pytest.mark.parametrize(
    ("there", "speedup", "wanted"),
    [
        (1, concave, 1),  # 2 of 4 GPUs' worth: between 0.35 and 0.65
        (4, concave, 1),  # the root of 16 is a quarter of 16
        (2, linear, 4),  # all there could be
        (4, saturating, 1),  # two replicas of a node of four
    ],
)
def test_wanted_are_the_nodes_whose_best_allocation_is_half_used(
    there: int, speedup: Callable[..., Any], wanted: int
) -> None:
    """Those beyond are left empty."""
    known = nodes(there)
    only = {"a": job(speedup, max_replicas=64)}
    allocations, found = PolluxPolicy().optimize(only, known, {}, known["n0"])
    assert found == wanted
    assert set(allocations["a"]) <= set(list(known)[:wanted])


def test_nodes_that_may_be_taken_away_are_the_last_to_be_used() -> None:
    """Also by a job that arrives; a job that may not be moved keeps them."""
    known = nodes(2)
    known["n0"].preemptible = True
    assert PolluxPolicy().allocate_job(job(), known) == ["n1"]
    jobs = {"a": job(saturating)}
    assert set(PolluxPolicy().optimize(jobs, known, {}, known["n0"])[0]["a"]) == {"n1"}
    pinned = {"a": job(saturating, preemptible=False)}
    base = {"a": ["n0", "n0"]}
    assert PolluxPolicy().optimize(pinned, known, base, known["n0"])[0] == base


def test_another_solver_takes_its_place() -> None:
    """The heuristics obey the same convention."""
    jobs = {f"job{i}": job() for i in range(3)}
    allocations, _ = PolluxPolicy("greedy").optimize(jobs, nodes(), {}, None)
    assert sum(map(len, allocations.values())) == 8


def test_nodes_that_are_gone_are_forgotten_and_no_jobs_need_nothing() -> None:
    """A replica on an unknown node does not run any more."""
    allocations, _ = PolluxPolicy().optimize({"a": job()}, nodes(1), {"a": ["n7", "n7"]}, None)
    assert allocations["a"] == ["n0"] * 4
    assert PolluxPolicy().optimize({}, nodes(), {}, None) == ({}, 2)


def test_nodes_without_room_are_passed_over() -> None:
    """A node without GPUs, or full of other pods, takes no part, and counts as a node."""
    plain: Any = SimpleNamespace(resources={"pods": 9}, preemptible=False)
    there = nodes(1) | {"cpu": plain}
    assert PolluxPolicy().optimize({"a": job()}, there, {}, None) == ({"a": ["n0"] * 4}, 2)


def test_a_job_that_arrives_starts_on_the_first_node_with_room() -> None:
    """On its fewest replicas, or nowhere."""
    full: Any = SimpleNamespace(resources={GPU: 0, "pods": 3}, preemptible=False)
    there = {"full": full} | nodes(1)
    assert PolluxPolicy().allocate_job(job(), there) == ["n0"]
    assert PolluxPolicy().allocate_job(job(min_replicas=3), there) == ["n0"] * 3
    assert PolluxPolicy().allocate_job(job(min_replicas=5), there) == []


def test_ages_come_from_the_job_or_its_creation() -> None:
    """Attributes first, then the creation time, then an hour."""
    jobs = {
        "told": job(age=12.0, num_restarts=3),
        "created": job(),
        "unknown": job(creation_timestamp=None),
    }
    told, created, unknown = build_instance(jobs, nodes(), {}, Rules()).jobs
    assert (told.age, told.restarts) == (12.0, 3)
    assert created.age == pytest.approx(7200.0, abs=60.0)
    assert unknown.age == 3600.0


@pytest.mark.parametrize(
    ("jobs", "there", "complaint"),
    [
        ({"a": job()}, {}, "no node has room"),
        ({"a": job(resources={GPU: 8})}, nodes(), "no node has room"),
        ({"a": job(), "b": job(resources={GPU: 2})}, nodes(), "'n0' holds 2 to 4 replicas"),
        ({"a": job(resources={})}, nodes(), "need no resource at all"),
    ],
)
def test_what_cannot_be_stated_is_refused(
    jobs: dict[Any, Any], there: dict[Any, Any], complaint: str
) -> None:
    """One sentence that names the node and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        PolluxPolicy().optimize(jobs, there, {}, None)
