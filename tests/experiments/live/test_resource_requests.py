"""Cores and memory of real jobs: requests, decisions within them, and the command line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.allocation import write_placements
from goodalloc.data.files.job_state import read_placements
from goodalloc.experiments.agent.cluster_folder import allocation_file, job_folder
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.live.jobs import UNNAMED_TYPE, LiveJob, LiveJobs, find_jobs, too_large
from goodalloc.experiments.live.live_policies import live_policy
from goodalloc.experiments.live.resource_requests import (
    KNOWING,
    REQUEST,
    bundle,
    read_request,
    request_of,
    require_resources_known,
    write_request,
)
from goodalloc.experiments.live.scheduler import LiveScheduler
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.solvers import PolicyOptions
from tests.experiments.live.test_scheduler import folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.experiments.live.test_scheduler import Folder

__all__ = ["folder"]

#: Two nodes of four GPUs, eight cores and 32 GiB.
CLUSTER = Cluster((NodeGroup("node", 2, 4, resources=resources({"cpu": 8.0, "memory": 32.0})),))
#: The same with named types.
TYPED = Cluster(
    tuple(
        NodeGroup(name, 1, 4, kind, resources({"cpu": 8.0}))
        for name, kind in (("slow", "T4"), ("fast", "A100"))
    )
)


def grown(folder: Folder, policy: str, cluster: Cluster, rounds: int = 4) -> dict[str, int]:
    """GPUs of every job after some rounds in which jobs grow."""
    given: dict[str, int] = {}
    for _ in range(rounds):
        given = folder.decide(policy, cluster)
        for name in given:
            placement = read_placements(allocation_file(folder.path))[name]
            kinds = {kind for kind in cluster.gpu_types if kind}
            place = cluster.node_index[next(iter(placement))]
            told: dict[str, Any] = {"gpu_type": cluster.node_types[place]} if kinds else {}
            folder.tell(name, **told)
    return given


def taken(folder: Folder, cluster: Cluster, requests: dict[str, float]) -> list[float]:
    """Cores that are taken on every node."""
    found = [0.0] * cluster.num_nodes
    for name, nodes in read_placements(allocation_file(folder.path)).items():
        for node, gpus in nodes.items():
            found[cluster.node_index[node]] += gpus * requests.get(name, 0.0)
    return found


@pytest.mark.parametrize("cluster", [CLUSTER, TYPED], ids=["unnamed", "typed"])
@pytest.mark.parametrize("policy", ["pollux", "pollux-greedy"])
def test_no_node_gives_more_cores_than_it_has(
    folder: Folder, policy: str, cluster: Cluster
) -> None:
    requests = {"hungry": 4.0, "modest": 1.0, "any": 0.0}
    for name, cores in requests.items():
        folder.submit(name)
        write_request(job_folder(folder.path, name), request_of(name, cores))
    given = grown(folder, policy, cluster)
    assert sum(given.values()) > 3
    assert max(taken(folder, cluster, requests)) <= 8.0
    assert given["hungry"] <= 4


def test_a_job_that_fits_nowhere_waits_and_the_others_run(folder: Folder) -> None:
    folder.submit("huge")
    write_request(job_folder(folder.path, "huge"), request_of("huge", memory=64.0))
    folder.submit("small")
    given = grown(folder, "pollux", CLUSTER)
    assert "huge" not in given
    assert given["small"] > 1


def test_without_requests_decisions_are_those_of_nodes_without_resources(folder: Folder) -> None:
    for name in ("a", "b", "c"):
        folder.submit(name)
    plain = grown(folder, "pollux", Cluster.uniform(2, 4))
    allocation_file(folder.path).unlink()
    for name in ("a", "b", "c"):
        folder.leave(name)
        folder.submit(name)
        (job_folder(folder.path, name) / "state.json").unlink()
    assert grown(folder, "pollux", CLUSTER) == plain


def test_a_job_has_a_mode_that_takes_what_it_requests(folder: Folder) -> None:
    folder.submit("mine")
    write_request(job_folder(folder.path, "mine"), request_of("mine", 4.0, 100.0))
    (job,) = find_jobs(folder.path).jobs
    assert isinstance(job, LiveJob)
    active = job.active(time.time(), (), TYPED)
    assert {mode.name: mode.resources for mode in active.modes()} == {
        "T4": (("cpu", 4.0),),
        "A100": (("cpu", 4.0),),
    }
    (mode,) = job.active(time.time(), ((0, 1),), CLUSTER).modes()
    assert (mode.name, mode.gpu_type) == (UNNAMED_TYPE, "")
    assert job.active(time.time(), (), Cluster.uniform(1, 2)).modes() == ()


def test_requests_are_written_and_read(tmp_path: Path) -> None:
    request = request_of("mine", 2.5, 16.0)
    write_request(tmp_path, request)
    assert read_request(tmp_path) == request
    write_request(tmp_path, ())
    assert read_request(tmp_path) == ()
    assert not (tmp_path / REQUEST).exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"format": "goodalloc-request", "version": 1, "cpu": -1}', "cpu is -1"),
        ('{"format": "goodalloc-request", "version": 1, "cpu": "many"}', "many"),
        ('{"format": "goodalloc-request", "version": 1, "disk": 1}', "disk"),
        ('{"format": "goodalloc-submission", "version": 1}', "goodalloc-request"),
        ("{", "JSON|json"),
    ],
)
def test_a_malformed_request_keeps_its_job_as_it_is(
    folder: Folder, text: str, sentence: str
) -> None:
    folder.submit("bad")
    path = job_folder(folder.path, "bad") / REQUEST
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_request(path.parent)
    assert str(path) in str(caught.value)
    assert set(find_jobs(folder.path).unreadable) == {"bad"}


def test_what_an_unreadable_job_may_take_is_left_to_it(folder: Folder) -> None:
    for name in ("bad", "good"):
        folder.submit(name)
        write_request(job_folder(folder.path, name), request_of(name, 2.0))
    grown(folder, "pollux", CLUSTER, rounds=2)
    before = read_placements(allocation_file(folder.path))["bad"]
    (job_folder(folder.path, "bad") / REQUEST).write_text("{")
    grown(folder, "pollux", CLUSTER, rounds=2)
    assert read_placements(allocation_file(folder.path))["bad"] == before
    assert max(taken(folder, CLUSTER, {"bad": 2.0, "good": 2.0})) <= 8.0


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf"), 1e30])
def test_amounts_that_make_no_sense_are_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="Job 'mine': memory is"):
        request_of("mine", memory=amount)


def test_policies_that_allocate_gpus_only_are_refused() -> None:
    with pytest.raises(ValueError, match="Policy 'tiresias' allocates GPUs only and the"):
        require_resources_known("tiresias", ("cpu",))
    require_resources_known("tiresias", ())
    require_resources_known("mine:Policy", ("cpu",))
    for name in KNOWING:
        require_resources_known(name, ("cpu",))


def test_jobs_go_on_beside_an_unreadable_one_with_less_than_its_share(folder: Folder) -> None:
    """What is left of the cores for a readable job is no less than what that has."""
    for name, cores in (("bad", 1.0), ("good", 3.0)):
        folder.submit(name)
        write_request(job_folder(folder.path, name), request_of(name, cores))
    held = {name: {"node-0": 2} for name in ("bad", "good")}
    write_placements(allocation_file(folder.path), "round-1", held)
    for name in held:
        folder.tell(name)
    (job_folder(folder.path, "bad") / REQUEST).write_text("{")
    folder.submit("new", ago=10.0)
    given = folder.decide("pollux", CLUSTER)
    assert "current placements" not in " ".join(folder.lines)
    assert read_placements(allocation_file(folder.path))["bad"] == {"node-0": 2}
    assert given["new"] == 1


@pytest.mark.parametrize("cluster", [CLUSTER, TYPED], ids=["fewer cores", "other types"])
def test_a_placement_that_nodes_no_longer_hold_is_decided_anew(
    folder: Folder, cluster: Cluster
) -> None:
    """As after a scheduler that knew no cores, or where Ray's nodes came back with other GPUs."""
    folder.submit("wide")
    folder.submit("new", ago=10.0)
    write_request(job_folder(folder.path, "wide"), request_of("wide", 4.0))
    one, other = cluster.node_names
    held = {"wide": {one: 3, other: 1}}
    write_placements(allocation_file(folder.path), "round-1", held)
    folder.tell("wide")
    given = folder.decide("pollux", cluster)
    assert not any("keeps what they have" in line for line in folder.lines)
    assert given["new"] == 1
    assert max(taken(folder, cluster, {"wide": 4.0})) <= 8.0


def test_where_a_slot_is_a_cpu_every_replica_takes_one(folder: Folder) -> None:
    """Also of jobs that request none: Ray sets it aside."""
    node = Cluster((NodeGroup("node", 1, 8, resources=resources({"cpu": 8.0})),))
    for name, cores in (("any", 0.0), ("hungry", 4.0)):
        folder.submit(name)
        write_request(job_folder(folder.path, name), request_of(name, cores))
    least = (("cpu", 1.0),)
    for _ in range(4):
        policy = live_policy("pollux", PolicyOptions())
        scheduler = LiveScheduler(folder.path, node, policy, trusting=True, least=lambda: least)
        scheduler.round(find_jobs(folder.path))
        for name in read_placements(allocation_file(folder.path)):
            folder.tell(name)
    assert max(taken(folder, node, {"any": 1.0, "hungry": 4.0})) <= 8.0


def test_jobs_that_nothing_there_can_hold_are_told(folder: Folder) -> None:
    """Once; they wait, and so may those behind them."""
    folder.submit("huge")
    write_request(job_folder(folder.path, "huge"), request_of("huge", memory=64.0))
    folder.submit("many", replicas=9)
    folder.submit("usual", replicas=8)
    assert too_large(LiveJobs(folder.found(), {}), CLUSTER) == [
        "Job 'huge' requests 64 of memory a replica, and no node has more than 32: it waits.",
        "Job 'many' requests 9 replicas, and there are 8 GPUs: where the policy keeps to requests, "
        "it waits, and jobs behind it may.",
    ]
    folder.decide("pollux", CLUSTER)
    assert folder.lines[0].startswith("Job 'huge' requests 64 of memory")


@pytest.mark.parametrize(
    ("slot", "request_", "taken_"),
    [
        ("GPU", (), {"GPU": 1.0}),
        ("GPU", (("cpu", 0.5),), {"GPU": 1.0, "CPU": 0.5}),
        ("CPU", (("cpu", 0.5),), {"CPU": 1.0}),
        ("CPU", (("cpu", 3.0),), {"CPU": 3.0}),
        ("CPU", (("memory", 1.0),), {"CPU": 1.0, "memory": 2.0**30}),
    ],
)
def test_ray_sets_aside_what_a_replica_takes(
    slot: str, request_: tuple[tuple[str, float], ...], taken_: dict[str, float]
) -> None:
    assert bundle(slot, request_) == taken_


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nodes", "1", "--gpus-per-node", "2", "--resources"], "--resources: expected it with"),
        (
            ["--nodes", "1", "--gpus-per-node", "2", "--cores", "4", "--policy", "fifo"],
            "Policy 'fifo' allocates GPUs only and the nodes have cpu",
        ),
        (["--nodes", "1", "--gpus-per-node", "2", "--cores", "0"], "argument --cores: got '0'"),
        (["--on", "ray", "--memory", "4"], "argument --memory: expected none with --on"),
    ],
)
def test_bad_arguments_of_a_scheduler_get_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", "--cluster", str(tmp_path), *words]) == 2
    assert sentence in capsys.readouterr().err
