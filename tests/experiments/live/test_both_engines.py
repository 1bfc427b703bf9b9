"""What a launcher promises whatever starts its replicas: this machine, or Ray on several nodes."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from goodalloc.experiments.live import replica_group
from goodalloc.experiments.live.engines import LocalEngine
from goodalloc.experiments.live.launcher import Launcher, LaunchFailed
from goodalloc.experiments.support.folder_lock import is_locked
from goodalloc.experiments.support.process_identity import ProcessIdentity
from tests.experiments.live.test_launcher import LEAVES_ONCE, allocate, program, starts
from tests.support.live.ray_nodes import FORKS, NODES
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.live.engines import Engine

pytestmark = FORKS


class Machines(NamedTuple):
    """Where replicas run: GPUs of the nodes `NODES`.

    Attributes
    ----------
    engine
        Function that returns the engine of a cluster's folder.
    named
        Function that returns numbers of GPUs by the names that the engine knows.
    """

    engine: Callable[[Path], Engine]
    named: Callable[..., dict[str, int]]

    def launcher(self, cluster: Path, body: str, name: str = "mine", **options: Any) -> Launcher:
        """Return the launcher of a program that is quick to look and to lose patience."""
        usual: dict[str, Any] = {"glance": 0.01, "patience": 1.0, "engine": self.engine(cluster)}
        return Launcher(cluster, name, program(body), **usual | options)


@pytest.fixture(params=["local", "ray"])
def machines(request: pytest.FixtureRequest) -> Machines:
    """This machine with as many made-up GPUs as there are on the nodes of Ray, or these."""
    if request.param == "local":
        gpus = tuple(map(str, range(sum(NODES.values()))))
        return Machines(lambda cluster: LocalEngine(cluster, gpus), dict)
    pytest.importorskip("ray", reason="needs goodalloc[ray]")
    nodes = request.getfixturevalue("nodes")
    return Machines(lambda _: nodes.engine, nodes.named)


def said(cluster: Path, name: str = "mine") -> list[list[str]]:
    """Return the lines that each replica printed."""
    logs = sorted((cluster / "jobs" / name).glob("replica-*.log"))
    return [log.read_text(encoding="utf-8").splitlines() for log in logs]


def test_every_replica_has_its_rank_and_a_gpu(machines: Machines, tmp_path: Path) -> None:
    """With torchrun's variables, and one port for all."""
    allocate(tmp_path, mine=machines.named(large=2, small=1))
    names = (
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("CUDA_VISIBLE_DEVICES", "GOODALLOC_JOB", "GOODALLOC_CLUSTER"),
    )
    body = f"import json; print(json.dumps({{name: os.environ[name] for name in {names}}}))"
    found = machines.launcher(tmp_path, body).run()
    assert (found.job, found.starts, found.failures) == ("mine", 1, 0)
    replicas = [json.loads(lines[-1]) for lines in said(tmp_path)]
    assert [one["RANK"] for one in replicas] == ["0", "1", "2"]
    same = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GOODALLOC_JOB", "GOODALLOC_CLUSTER")
    assert all(len({one[name] for one in replicas}) == 1 for name in same)
    assert replicas[0]["WORLD_SIZE"] == "3"
    assert replicas[0]["GOODALLOC_JOB"] == "mine"
    assert replicas[0]["GOODALLOC_CLUSTER"] == str(tmp_path)
    devices = [one["CUDA_VISIBLE_DEVICES"].split(",") for one in replicas]
    own = [seen[int(one["LOCAL_RANK"])] for seen, one in zip(devices, replicas, strict=True)]
    assert own[0] != own[1]  # on one node of Ray; on this machine all three are
    assert not is_locked(tmp_path / "jobs" / "mine")


def test_a_job_is_started_again_on_what_it_is_given(machines: Machines, tmp_path: Path) -> None:
    """It waits while it has nothing, and has nothing in between."""
    lines: list[str] = []
    done: list[Any] = []
    job = machines.launcher(tmp_path, LEAVES_ONCE, say=lines.append)
    thread = threading.Thread(target=lambda: done.append(job.run()))
    thread.start()
    eventually(lambda: lines == ["mine: waits for an allocation; its cluster has no scheduler now"])
    allocate(tmp_path, mine=machines.named(large=1))
    eventually(lambda: starts(tmp_path) == [1])
    allocate(tmp_path, other=machines.named(large=1))
    eventually(lambda: lines[-1].startswith("mine: waits for an allocation"))
    assert starts(tmp_path) == [1]
    allocate(tmp_path, mine=machines.named(middle=1, small=1))
    eventually(lambda: starts(tmp_path) == [2, 1])
    allocate(tmp_path, mine=machines.named(large=1))
    thread.join(60.0)
    assert done[0][:3] == ("mine", 3, 0)
    assert [line for line in lines if "replica" in line][1].startswith("mine: 2 replicas (")


def without_waits(lines: list[str]) -> list[str]:
    """Leave out the moments that Ray takes to free what the replicas before had."""
    return [line for line in lines if "waits for GPUs" not in line]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "print('it is broken'); rank or sys.exit(3); time.sleep(600)",
            "replica 0 ended with exit code 3 (it is broken)",
        ),
        (
            "rank or os.kill(os.getpid(), signal.SIGKILL); time.sleep(600)",
            "replica 0 was ended by signal 9",
        ),
        ("sys.exit(75)", "ended with exit code 75 on the same allocation"),
    ],
)
def test_a_job_that_makes_no_progress_is_given_up(
    machines: Machines, tmp_path: Path, body: str, sentence: str
) -> None:
    """After as many starts again as retries; whatever went wrong, in one sentence."""
    allocate(tmp_path, mine=machines.named(large=2))
    lines: list[str] = []
    begin = time.monotonic()
    with pytest.raises(LaunchFailed) as failed:
        machines.launcher(tmp_path, body, retries=2, say=lines.append).run()
    assert sentence in str(failed.value)
    assert "it failed 3 times without progress. Its replicas' last words" in str(failed.value)
    assert str(tmp_path / "jobs" / "mine") in str(failed.value)
    assert "\n" not in str(failed.value)
    assert len(str(failed.value)) < 600
    told = [line.partition(";")[2] for line in without_waits(lines)]
    assert told == ["", " started again from the beginning"] * 2 + [""]
    assert time.monotonic() - begin < 500.0  # less than a replica would stay


def test_a_job_that_makes_progress_between_failures_goes_on(
    machines: Machines, tmp_path: Path
) -> None:
    """From its checkpoint."""
    allocate(tmp_path, mine=machines.named(middle=1))
    body = """
if starts < 5:
    (folder / "checkpoint.pt").write_text("x")
    sys.exit(1)
"""
    lines: list[str] = []
    found = machines.launcher(tmp_path, body, retries=1, say=lines.append).run()
    assert (found.starts, found.failures) == (6, 5)
    assert "started again from its checkpoint" in without_waits(lines)[1]


def test_replicas_of_one_that_failed_are_ended_with_what_they_started(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that will not listen; the job goes on."""
    monkeypatch.setattr(replica_group, "GRACE", 0.5)
    allocate(tmp_path, mine=machines.named(large=2))
    body = """
if starts == 0 and rank == 1:
    while not (folder / "child").exists():
        time.sleep(0.01)
    sys.exit(1)
if starts == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    (folder / "new").write_text(str(child.pid))
    (folder / "new").rename(folder / "child")
    time.sleep(60)
"""
    lines: list[str] = []
    found = machines.launcher(tmp_path, body, say=lines.append).run()
    assert (found.starts, found.failures) == (2, 1)
    assert (
        "replica 1 ended with exit code 1; started again from the beginning"
        in without_waits(lines)[1]
    )
    child = int((tmp_path / "jobs" / "mine" / "child").read_text(encoding="utf-8"))
    eventually(lambda: not ProcessIdentity.of(child).start)


def test_replicas_that_stay_when_another_was_reallocated_are_ended(
    machines: Machines, tmp_path: Path
) -> None:
    """After the launcher's patience."""
    allocate(tmp_path, mine=machines.named(large=2))
    body = """
if starts == 0 and rank == 0:
    while not (folder / "starts-1").exists():
        time.sleep(0.01)
    sys.exit(75)
if starts == 0:
    time.sleep(60)
"""
    job = machines.launcher(tmp_path, body, patience=0.1)
    job.folder.mkdir(parents=True)
    assert job.run().starts == 2


def test_a_gpu_is_never_given_twice(machines: Machines, tmp_path: Path) -> None:
    """A job waits until another has ended, though all GPUs are allocated to both."""
    allocate(tmp_path, mine=machines.named(**NODES), other=machines.named(**NODES))
    body = "print(time.time(), flush=True); time.sleep(0.5); print(time.time())"
    jobs = [machines.launcher(tmp_path, body, name) for name in ("mine", "other")]
    threads = [threading.Thread(target=job.run) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200.0)  # Ray starts eight processes on cores that are busy with other tests
        assert not thread.is_alive()
    times = [
        [float(line) for lines in said(tmp_path, name) for line in lines]
        for name in ("mine", "other")
    ]
    assert [len(own) for own in times] == [8, 8]
    first, second = sorted(times, key=min)
    assert max(first) <= min(second)


def test_a_launcher_that_is_asked_to_stop_leaves_nothing_behind(
    machines: Machines, tmp_path: Path
) -> None:
    """Its replicas end with it, and another launcher may go on."""
    allocate(tmp_path, mine=machines.named(large=2))
    stop = threading.Event()
    body = "print(os.getpid(), flush=True); time.sleep(60)"
    job = machines.launcher(tmp_path, body, stopped=stop.is_set)
    ends: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except KeyboardInterrupt as end:
            ends.append(end)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: [len(lines) for lines in said(tmp_path)] == [1, 1])
    replicas = [ProcessIdentity.of(int(lines[0])) for lines in said(tmp_path)]
    assert all(one.alive for one in replicas)
    stop.set()
    thread.join(60.0)
    assert "Job 'mine' was stopped; the same command goes on" in str(ends[0])
    eventually(lambda: not any(one.alive for one in replicas))
    assert not is_locked(job.folder)
    begin = time.monotonic()
    assert machines.launcher(tmp_path, "pass").run().starts == 1
    assert time.monotonic() - begin < 60.0
