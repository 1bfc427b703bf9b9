"""GPUs of a machine that several launchers share: each has one job at a time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.allocation import write_placements
from goodalloc.experiments.agent.cluster_folder import allocation_file
from goodalloc.experiments.live import gpu_leases
from goodalloc.experiments.live.engines import LocalEngine
from goodalloc.experiments.live.gpu_leases import GpuLeases, gpus_of_machine
from goodalloc.experiments.live.launcher import Launcher
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

#: Names of made-up GPUs.
GPUS = ("0", "1", "2")

#: Says which GPUs it sees, and trains until a file is there.
PROGRAM = """
import os, pathlib, time
folder = pathlib.Path(os.environ["GOODALLOC_CLUSTER"])
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["LOCAL_RANK"], flush=True)
while not (folder / ("end-" + os.environ["GOODALLOC_JOB"])).exists():
    time.sleep(0.01)
"""


def allocate(cluster: Path, **placements: dict[str, int]) -> None:
    """Write an allocation as a scheduler does."""
    write_placements(allocation_file(cluster), "now", placements)


def launcher(cluster: Path, name: str, gpus: tuple[str, ...] = GPUS, **options: Any) -> Launcher:
    """Of a job that sees made-up GPUs."""
    command = (sys.executable, "-S", "-c", PROGRAM)
    engine = LocalEngine(cluster, gpus)
    return Launcher(cluster, name, command, glance=0.01, engine=engine, **options)


def seen(cluster: Path, name: str, replica: int = 0) -> str:
    """The last line that a replica has said; empty before."""
    path = cluster / "jobs" / name / f"replica-{replica}.log"
    return path.read_text().strip().rpartition("\n")[2] if path.exists() else ""


def test_a_lease_is_all_or_nothing_and_ends_with_its_holder(tmp_path: Path) -> None:
    """What is free goes to the next."""
    leases = GpuLeases(tmp_path, GPUS)
    with leases.lease(2) as first:
        assert first is not None
        assert first.variables == {"CUDA_VISIBLE_DEVICES": "0,1"}
        with leases.lease(2) as second:
            assert second is None
        with leases.lease(1) as second:
            assert second is not None
            assert second.gpus == ("2",)
    with leases.lease(3) as third:
        assert third is not None
    with pytest.raises(ValueError, match="Allocation: 4 GPUs of this machine, which has 3"):
        leases.lease(4).__enter__()


def test_where_cpus_compute_nothing_is_leased(tmp_path: Path) -> None:
    """Any number of replicas, and no variable."""
    with GpuLeases(tmp_path).lease(7) as lease:
        assert lease is not None
        assert lease.variables == {}
    assert not list(tmp_path.iterdir())


def test_two_jobs_have_different_gpus_and_a_third_waits(tmp_path: Path) -> None:
    """Until one of them has ended."""
    allocate(tmp_path, one={"node": 2}, two={"node": 1}, three={"node": 2})
    lines: list[str] = []
    jobs = {name: launcher(tmp_path, name, say=lines.append) for name in ("one", "two", "three")}
    threads = {name: threading.Thread(target=job.run) for name, job in jobs.items()}
    for name, thread in threads.items():
        thread.start()
        if name != "three":
            eventually(partial(seen, tmp_path, name))
    eventually(partial(seen, tmp_path, "one", 1))
    eventually(lambda: "three: waits for GPUs that another job still has, or for a node" in lines)
    assert [seen(tmp_path, "one", replica) for replica in (0, 1)] == ["0,1 0", "0,1 1"]
    assert seen(tmp_path, "two") == "2 0"
    assert seen(tmp_path, "three") == ""
    (tmp_path / "end-one").touch()
    eventually(lambda: seen(tmp_path, "three") == "0,1 0")
    for name in ("two", "three"):
        (tmp_path / f"end-{name}").touch()
    for thread in threads.values():
        thread.join(20.0)
        assert not thread.is_alive()


def test_a_killed_launcher_keeps_its_gpus_until_its_replicas_have_ended(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """They may still be computing on them."""
    allocate(tmp_path, mine={"node": 3})
    arguments = ["launch", "--cluster", str(tmp_path), "--name", "mine", "--gpus", ",".join(GPUS)]
    program = [sys.executable, "-S", "-c", PROGRAM]
    command = [sys.executable, "-P", "-m", "goodalloc.experiments.cli.main", *arguments, "--"]
    with subprocess.Popen([*command, *program], env=environment, stderr=subprocess.DEVNULL) as it:
        eventually(lambda: all(seen(tmp_path, "mine", replica) for replica in range(3)))
        it.kill()
    leases = GpuLeases(tmp_path, GPUS)
    with leases.lease(1) as lease:
        assert lease is None
    (tmp_path / "end-mine").touch()

    def free() -> bool:
        with leases.lease(3) as lease:
            return lease is not None

    eventually(free)


def test_a_job_stops_waiting_for_gpus_when_it_is_asked_to(tmp_path: Path) -> None:
    """As when it waits for an allocation."""
    allocate(tmp_path, mine={"node": 1})
    end = time.monotonic() + 0.2
    job = launcher(tmp_path, "mine", ("0",), stopped=lambda: time.monotonic() > end)
    with (
        GpuLeases(tmp_path, ("0",)).lease(1),
        pytest.raises(KeyboardInterrupt, match="Job 'mine' was stopped"),
    ):
        job.run()
    assert seen(tmp_path, "mine") == ""


def driver_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a driver's command into the only folder of programs."""
    monkeypatch.setenv("PATH", str(folder))
    command = folder / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    command.chmod(0o755)


def test_a_gpu_under_another_name_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By index, by its identifier, or by the beginning of that, as CUDA takes it."""
    driver_in(tmp_path, monkeypatch, "echo 0, GPU-abc; echo 1, GPU-def")
    for other in ("GPU-abc", "GPU-a", "0"):
        with (
            GpuLeases(tmp_path, ("0",)).lease(1) as one,
            GpuLeases(tmp_path, (other,)).lease(1) as same,
            GpuLeases(tmp_path, ("GPU-def",)).lease(1) as another,
        ):
            assert (one is None, same is None, another is None) == (False, True, False)


def test_one_gpu_under_two_names_is_not_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its second lease would never be free."""
    driver_in(tmp_path, monkeypatch, "echo 0, GPU-abc; echo 1, GPU-def")
    leases = GpuLeases(tmp_path, ("0", "GPU-abc"))
    with pytest.raises(ValueError, match="2 GPUs of this machine"), leases.lease(2):
        pass


def test_nothing_is_leased_while_the_driver_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its index alone a GPU could be leased twice; the driver is asked again."""
    driver_in(tmp_path, monkeypatch, "exit 9")
    monkeypatch.setattr(gpu_leases, "DEVICES", tmp_path)
    leases = GpuLeases(tmp_path, ("0",))
    with leases.lease(1) as found:
        assert found is None
    driver_in(tmp_path, monkeypatch, "echo 0, GPU-abc")
    with leases.lease(1) as found:
        assert found is not None


def test_gpus_are_leased_by_their_names_where_nobody_tells_identifiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is there without its command, as in a container: all launchers have the names."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu_leases, "DEVICES", tmp_path)
    with (
        GpuLeases(tmp_path, ("0", "1")).lease(2) as both,
        GpuLeases(tmp_path, ("0", "1")).lease(1) as none,
    ):
        assert both is not None
        assert (both.gpus, none) == (("0", "1"), None)


def test_a_driver_that_does_not_list_its_gpus_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas of two jobs would share them."""
    driver_in(tmp_path, monkeypatch, "exit 9")
    monkeypatch.setattr(gpu_leases, "DEVICES", tmp_path)
    with pytest.raises(ValueError, match="does not list its GPUs; expected their names"):
        gpus_of_machine({})
    assert gpus_of_machine({"CUDA_VISIBLE_DEVICES": ""}) == ()


def test_a_gpu_that_is_named_twice_is_refused() -> None:
    """Its second lease would never be free."""
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES is '0,0'; expected each GPU once"):
        gpus_of_machine({"CUDA_VISIBLE_DEVICES": "0,0"})


def test_gpus_are_those_that_cuda_may_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else those that the driver lists; none where there is no driver."""
    assert gpus_of_machine({"CUDA_VISIBLE_DEVICES": ""}) == ()
    assert gpus_of_machine({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}) == ("GPU-a", "GPU-b")
    assert gpus_of_machine({"CUDA_VISIBLE_DEVICES": "-1"}) == ()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus_of_machine({}) == ()
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 0\necho 1\n", encoding="utf-8")
    driver.chmod(0o755)
    assert gpus_of_machine({}) == ("0", "1")
