"""Replicas on a Ray cluster of several nodes on this machine: placed, watched, ended, survived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.job_state import read_job_state
from goodalloc.experiments.agent.cluster_folder import STATE, TYPE_VARIABLE
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.live import ray_engine
from goodalloc.experiments.live.guard import NOT_FOUND
from goodalloc.experiments.live.launcher import Launcher
from goodalloc.experiments.live.live_policies import live_policy
from goodalloc.experiments.live.scheduler import LiveScheduler
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.models.goodput.bootstrapped_goodput import best_on_one_gpu
from goodalloc.solvers import PolicyOptions
from tests.experiments.live.test_launcher import allocate, program
from tests.support.live.ray_nodes import FORKS, NODES, TYPES
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.live.ray_nodes import Nodes

ray = pytest.importorskip("ray", reason="needs goodalloc[ray]")

pytestmark = FORKS


def launcher(cluster: Path, nodes: Nodes, body: str, **options: Any) -> Launcher:
    """Of a job called mine."""
    return Launcher(cluster, "mine", program(body), engine=nodes.engine, glance=0.05, **options)


def said(cluster: Path) -> list[Any]:
    """What each replica printed, a JSON document a line."""
    logs = sorted((cluster / "jobs" / "mine").glob("replica-*.log"))
    return [json.loads(log.read_text(encoding="utf-8").splitlines()[-1]) for log in logs]


def test_the_nodes_of_ray_are_those_of_the_cluster(nodes: Nodes) -> None:
    """With their GPUs, by name, and the types of these; the head has none."""
    cluster = nodes.engine.cluster()
    assert cluster is not None
    found = dict(zip(cluster.node_names, cluster.node_gpus.tolist(), strict=True))
    assert found == nodes.named(**NODES)
    kinds = dict(zip(cluster.node_names, cluster.node_types, strict=True))
    assert {name.partition("-")[0]: kind for name, kind in kinds.items()} == TYPES


def test_every_replica_is_on_its_node_with_a_gpu_of_its_own(nodes: Nodes, tmp_path: Path) -> None:
    """With torchrun's variables, and one port for all."""
    allocate(tmp_path, mine=nodes.named(large=2, small=1))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", TYPE_VARIABLE)
    body = (
        "import json\n"
        f"found = {{n: os.environ[n] for n in {names}}}\n"
        "found['gpus'] = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "print(json.dumps(found))"
    )
    found = launcher(tmp_path, nodes, body).run()
    assert (found.starts, found.failures) == (1, 0)
    replicas = said(tmp_path)
    assert [one["RANK"] for one in replicas] == ["0", "1", "2"]
    assert [one["LOCAL_RANK"] for one in replicas] == ["0"] * 3
    assert [one["WORLD_SIZE"] for one in replicas] == ["3"] * 3
    assert [one["LOCAL_WORLD_SIZE"] for one in replicas] == ["2", "2", "1"]
    assert [one["gpus"] for one in replicas] == ["0", "1", "0"]
    assert len({one["MASTER_PORT"] for one in replicas}) == 1
    assert {one[TYPE_VARIABLE] for one in replicas} == {"T4+V100"}


def test_requested_cores_are_set_aside_for_every_replica(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs and four cores: three cores for each of two replicas are too many, two are not."""
    cluster = nodes.engine.cluster(with_resources=True)
    assert cluster is not None
    assert all(dict(group.resources)["cpu"] == 4.0 for group in cluster.groups)
    assert all(dict(group.resources)["memory"] > 0.0 for group in cluster.groups)
    monkeypatch.setattr(ray_engine, "PATIENCE", 2.0)
    place, command = nodes.named(large=2), program("pass")
    with nodes.engine.start(command, place, tmp_path, {}, (("cpu", 3.0),)) as group:
        assert group is None
    monkeypatch.undo()
    with nodes.engine.start(command, place, tmp_path, {}, (("cpu", 2.0),)) as group:
        assert group is not None
        eventually(lambda: None not in group.codes)
        assert len(group.codes) == 2


def test_replicas_that_cannot_start_fail_after_a_while(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although their node is there; while it may be gone, the job waits."""

    def broken(*_: Any) -> None:
        raise ray.exceptions.RayError("no module\nnamed goodalloc")

    monkeypatch.setattr(ray_engine, "RayGroup", broken)
    place, command = nodes.named(large=2), program("pass")
    with nodes.engine.start(command, place, tmp_path, {}) as group:
        assert group is None
    monkeypatch.setattr(ray_engine, "START", 0.0)
    with nodes.engine.start(command, place, tmp_path, {}) as group:
        assert group is not None
        assert (group.codes, group.last_words(1)) == ([1, 1], "no module named goodalloc")


def test_nodes_without_gpus_are_no_slots_once_there_were_some(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that train on GPUs wait for one; on a cluster of CPUs a slot is one, up to the most."""

    def there(**cpus_and_gpus: tuple[float, float]) -> list[dict[str, Any]]:
        return [
            {
                "Alive": True,
                "NodeName": name,
                "NodeID": name,
                "Resources": {"CPU": cpus} | ({"GPU": gpus} if gpus else {}),
            }
            for name, (cpus, gpus) in cpus_and_gpus.items()
        ]

    engine = ray_engine.RayEngine()
    monkeypatch.setattr(ray, "nodes", lambda: there(head=(384.0, 0.0)))
    cluster = engine.cluster()
    assert cluster is not None
    assert (cluster.num_gpus, engine.least) == (256, (("cpu", 1.0),))
    monkeypatch.setattr(ray, "nodes", lambda: there(head=(8.0, 0.0), other=(8.0, 2.0)))
    cluster = engine.cluster()
    assert cluster is not None
    assert (cluster.num_gpus, engine.least) == (2, ())
    monkeypatch.setattr(ray, "nodes", lambda: there(head=(8.0, 0.0)))
    assert engine.cluster() is None
    assert nodes.engine is not engine


def test_a_job_outlives_the_death_of_its_node_and_leaves_no_orphan(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Killed with all of Ray's processes there; the job goes on where it is put next."""
    allocate(tmp_path, mine=nodes.named(small=1, large=1))
    body = "print(os.getpid(), flush=True)\nif not starts: time.sleep(60)\n"
    job = launcher(tmp_path, nodes, body, retries=5)
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(job.run()))
    thread.start()
    folder = tmp_path / "jobs" / "mine"
    logs = [folder / f"replica-{rank}.log" for rank in range(2)]
    eventually(lambda: all(log.exists() and log.read_text().strip() for log in logs))
    first = [ProcessIdentity.of(int(log.read_text().split()[0])) for log in logs]
    assert all(one.alive for one in first)
    nodes.kill("small")
    allocate(tmp_path, mine=nodes.named(large=2))
    thread.join(60.0)
    assert result
    assert result[0].failures >= 1
    eventually(lambda: not any(one.alive for one in first))
    nodes.add("small")


def test_the_scheduler_follows_nodes_that_leave_and_join(nodes: Nodes, tmp_path: Path) -> None:
    """Each change is a decision for the nodes that are there."""
    cluster = nodes.engine.cluster()
    assert cluster is not None
    lines: list[str] = []
    stop = threading.Event()
    scheduler = LiveScheduler(
        tmp_path,
        cluster,
        live_policy("equal", PolicyOptions()),
        interval=60.0,
        stopped=stop.is_set,
        say=lines.append,
        glance=0.2,
        watch=nodes.engine.cluster,
    )
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    nodes.kill("middle")
    eventually(lambda: "nodes: large-0: 2, small-0: 1" in lines)
    nodes.add("middle")
    eventually(lambda: "nodes: large-0: 2, middle-0: 1, small-0: 1" in lines)
    stop.set()
    thread.join(10.0)


#: Training whose passes take four times as long on a T4 as on a V100.
TYPED_TRAINING = """
import os, time, torch
from torch.nn.functional import mse_loss
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.models.goodput.model import BatchLimits
torch.distributed.init_process_group("gloo")
module = torch.nn.Linear(4, 1)
agent = TrainingAgent(
    module,
    torch.optim.SGD(module.parameters(), lr=0.01),
    torch.utils.data.DataLoader(torch.randn(500, 4), 8),
    AgentOptions.of_launcher(BatchLimits(8, 8, 8, 8), publish_seconds=0.5, look_seconds=0.1),
)
seconds = {"T4": 0.08, "V100": 0.02}[os.environ["GOODALLOC_GPU_TYPE"]]
for batch in agent.batches(epochs=10000):
    time.sleep(seconds)
    agent.learn(mse_loss(agent.module(batch), torch.zeros(len(batch), 1)))
"""


@pytest.mark.slow
def test_a_job_that_moves_to_another_type_of_gpu_keeps_a_fit_for_each(
    nodes: Nodes, tmp_path: Path
) -> None:
    """By which it is four times as fast there; its batch cannot hide that."""
    allocate(tmp_path, mine=nodes.named(large=1))
    stop, path = threading.Event(), tmp_path / "jobs" / "mine" / STATE
    command = (sys.executable, "-c", TYPED_TRAINING)
    job = Launcher(tmp_path, "mine", command, engine=nodes.engine, stopped=stop.is_set)
    ends: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except KeyboardInterrupt as end:
            ends.append(end)

    def fitted(kind: str) -> bool:
        state = read_job_state(path) if path.exists() else None
        return state is not None and state.gpu_type == kind and state.throughput is not None

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: fitted("T4"), 120.0)
    allocate(tmp_path, mine=nodes.named(small=1))
    eventually(lambda: fitted("V100"), 120.0)
    stop.set()
    thread.join(30.0)
    assert ends
    state = read_job_state(path)
    assert list(state.fits) == ["V100", "T4"]
    fast, slow = (best_on_one_gpu(fit, state.batch) for fit in state.fits.values())
    assert fast / slow == pytest.approx(4.0, rel=0.3)


def test_a_policy_that_takes_all_gpus_for_equal_is_refused_on_several_types(
    nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a sentence that names the types."""
    there = ["--cluster", str(tmp_path), "--on", f"ray:{nodes.address}", "--policy", "equal"]
    assert main(["schedule", *there]) == 2
    complaint = capsys.readouterr().err
    assert "Policy 'equal' knows one type of GPU and the cluster has T4, V100" in complaint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_guard_takes_its_process_and_its_children_with_it(
    tmp_path: Path, number: signal.Signals, environment: dict[str, str]
) -> None:
    """Asked or killed."""
    note = tmp_path / "note"
    body = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    command = [sys.executable, "-P", "-m", "goodalloc.experiments.live.guard", str(os.getpid())]
    guard = subprocess.Popen([*command, sys.executable, "-S", "-c", body], env=environment)
    eventually(lambda: note.exists() and note.read_text() != "")
    inner = ProcessIdentity.of(int(note.read_text()))
    assert inner.alive
    os.kill(guard.pid, number)
    guard.wait(10.0)
    eventually(lambda: not inner.alive)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["-c", "raise SystemExit(7)"], 7),
        (["-c", "import os; os.kill(os.getpid(), 9)"], -9),
        (["-c", "import os; os.kill(os.getpid(), 15)"], -15),
    ],
)
def test_a_guard_ends_as_its_process_does(
    command: list[str], code: int, environment: dict[str, str]
) -> None:
    """Exit codes and signals."""
    guard = [sys.executable, "-P", "-m", "goodalloc.experiments.live.guard", str(os.getpid())]
    done = subprocess.run([*guard, sys.executable, "-S", *command], env=environment, check=False)
    assert done.returncode == code


def test_a_guard_whose_parent_is_gone_starts_nothing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """It may have ended before the guard was up."""
    note, gone = tmp_path / "note", subprocess.Popen(["true"])
    gone.wait()
    guard = [sys.executable, "-P", "-m", "goodalloc.experiments.live.guard", str(gone.pid)]
    guard += ["touch", str(note)]
    assert subprocess.run(guard, env=environment, check=False).returncode == NOT_FOUND
    assert not note.exists()


def test_a_guard_says_what_cannot_be_started(environment: dict[str, str]) -> None:
    """As a shell does."""
    guard = [sys.executable, "-P", "-m", "goodalloc.experiments.live.guard", str(os.getpid())]
    begin = time.monotonic()
    guard.append("no-such-program")
    done = subprocess.run(guard, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == NOT_FOUND
    assert done.stdout == "no-such-program: No such file or directory\n"
    assert time.monotonic() - begin < 10.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["schedule", "--on", "dask"], "got 'dask'; expected ray or ray:ADDRESS"),
        (["schedule", "--on", "ray:127.0.0.1:1"], "Cluster 'ray:127.0.0.1:1' cannot be reached"),
        (["schedule", "--on", "ray", "--nodes", "2"], "argument --nodes: expected none with --on"),
        (["schedule", "--on", "ray", "--gpus-per-node", "2"], "argument --gpus-per-node: expected"),
        (["measure", "perceptron", "--on", "ray:127.0.0.1:1", "--out", "p.csv"], "cannot be reac"),
        (["measure", "--all", "--on", "ray", "--out", "p"], "argument --all: expected none with"),
        (["measure", "perceptron", "--per-node", "1", "--out", "p"], "--per-node: expected --on"),
        (
            ["launch", "--name", "mine", "--on", "ray", "--gpus", "0", "--", "true"],
            "argument --gpus: expected none with --on",
        ),
        (
            ["launch", "--name", "mine", "--on", "ray:127.0.0.1:1", "--", "true"],
            "cannot be reached",
        ),
    ],
)
def test_clusters_that_make_no_sense_are_refused(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence."""
    ray.shutdown()
    place = [] if arguments[0] == "measure" else ["--cluster", str(tmp_path / "c")]
    assert main([arguments[0], *place, *arguments[1:]]) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert complaint.count("\n") == 1
