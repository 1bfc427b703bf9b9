"""Six jobs under a scheduler whose parts are killed at random: on a Ray cluster, and without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.support.process_identity import ProcessIdentity
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="parents' deaths are Linux's"),
]

#: Jobs, examples of each, kills, seconds between two, and seconds in which orphans must end.
JOBS, EXAMPLES, KILLS, PAUSE, ORPHANS = 6, 4000, 50, 1.0, 10.0

#: Counts examples in its checkpoint, alone, on a GPU of its own, until its allocation changes.
PROGRAM = """
import fcntl, json, os, pathlib, sys, time
cluster, name = pathlib.Path(os.environ["GOODALLOC_CLUSTER"]), os.environ["GOODALLOC_JOB"]
rank, folder = int(os.environ["RANK"]), cluster / "jobs" / name
own = []

def hold(thing):
    own.append(open(cluster / ("held-" + thing), "w"))
    try:
        fcntl.flock(own[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with open(cluster / "twice", "a") as file:
            file.write(f"{thing} by {name}\\n")

gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
gpu = gpus[int(os.environ["LOCAL_RANK"])]
hold("gpu-" + os.environ.get("GOODALLOC_NODE", "here") + "-" + gpu)
if rank == 0:
    hold("writer-" + name)
with open(cluster / "processes", "a") as file:
    file.write(f"{os.getpid()} {os.getppid()}\\n")

def allocated():
    try:
        return json.loads((cluster / "allocation.json").read_text())["placements"].get(name, {})
    except (OSError, ValueError):
        return given

given, checkpoint = {}, folder / "checkpoint.pt"
given = allocated()
while True:
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    if done >= EXAMPLES:
        sys.exit(0)
    if rank == 0:
        checkpoint.with_suffix(".new").write_text(str(done + 10))
        checkpoint.with_suffix(".new").replace(checkpoint)
    if allocated() != given:
        sys.exit(75)
    time.sleep(0.1)
"""


class Live:
    """Scheduler and launchers as processes, and the nodes if there is a cluster of Ray."""

    def __init__(self, folder: Path, environment: dict[str, str], nodes: Any = None) -> None:
        self.folder, self.environment, self.nodes = folder, environment, nodes
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        on = [] if nodes is None else ["--on", f"ray:{nodes.address}"]
        here = ["--nodes", "1", "--gpus-per-node", "4"] if nodes is None else on
        gpus = ["--gpus", "0,1,2,3"] if nodes is None else on
        shared = ["--cluster", str(folder)]
        self.commands = {
            "scheduler": ["schedule", *shared, *here, "--policy", "pollux", "--interval", "3"]
        }
        program = [sys.executable, "-S", "-c", PROGRAM.replace("EXAMPLES", str(EXAMPLES))]
        for number in range(JOBS):
            name = f"job-{number}"
            self.commands[name] = [
                *("launch", *shared, "--name", name, *gpus, "--retries", "1000", "--", *program)
            ]

    def start(self, name: str) -> None:
        """Start a part, or start it again."""
        module = "goodalloc.experiments.cli.main"
        with (self.folder / f"{name}.txt").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *self.commands[name]],
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def processes(self) -> list[tuple[ProcessIdentity, ProcessIdentity]]:
        """Replicas that ever ran, and the processes that started them."""
        path = self.folder / "processes"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        pairs = (tuple(map(int, line.split())) for line in lines)
        return [(ProcessIdentity.of(own), ProcessIdentity.of(parent)) for own, parent in pairs]

    def left(self) -> list[str]:
        """Jobs whose launcher has not ended by itself."""
        return [name for name in self.commands if name != "scheduler" and not self.done(name)]

    def done(self, name: str) -> bool:
        """Whether a job has all its examples and its launcher ended well."""
        return self.running[name].poll() == 0

    def kill_something(self, draw: random.Random) -> str:
        """Kill a part at random; return which."""
        kinds = ["scheduler", "launcher", "replica", *(["node", "guard"] if self.nodes else [])]
        kind = draw.choice(kinds)
        if kind == "node":
            name = draw.choice(sorted(self.nodes.nodes))
            self.nodes.kill(name)
            time.sleep(draw.uniform(0.0, 2.0))
            self.nodes.add(name)
        elif kind in ("replica", "guard"):
            alive = [pair[kind == "guard"] for pair in self.processes() if pair[0].alive]
            if alive:
                os.kill(draw.choice(alive).number, signal.SIGKILL)
        else:
            name = "scheduler" if kind == "scheduler" else draw.choice(self.left())
            self.running[name].kill()
            self.running[name].wait()
            self.start(name)
        return kind

    def close(self) -> None:
        """End all."""
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture(params=["ray", "here"])
def live(
    request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]
) -> Iterator[Live]:
    """Scheduler and six jobs that have begun."""
    nodes: Any = None
    if request.param == "ray":
        pytest.importorskip("ray", reason="needs goodalloc[ray]")
        from tests.support.live.ray_nodes import Nodes

        nodes = Nodes()
    found = Live(tmp_path, environment, nodes)
    for name in found.commands:
        found.start(name)
    yield found
    found.close()
    if nodes is not None:
        nodes.close()


def test_every_job_ends_with_all_its_examples_whatever_is_killed(live: Live) -> None:
    """No GPU is given twice, nobody writes beside another, and no process is left after that."""
    draw = random.Random(0)
    eventually(lambda: len(live.processes()) >= 4, 60.0)
    killed: list[str] = []
    while len(killed) < KILLS and live.left():
        killed.append(live.kill_something(draw))
        time.sleep(PAUSE)
    assert len(killed) == KILLS
    deadline = time.monotonic() + 600.0
    while live.left() and time.monotonic() < deadline:
        for name in live.left():
            assert live.running[name].poll() is None, (live.folder / f"{name}.txt").read_text()
        time.sleep(1.0)
    assert not live.left()
    for number in range(JOBS):
        checkpoint = live.folder / "jobs" / f"job-{number}" / "checkpoint.pt"
        assert checkpoint.read_text(encoding="ascii") == str(EXAMPLES)
    twice = live.folder / "twice"
    assert not twice.exists(), twice.read_text(encoding="utf-8")
    eventually(lambda: not any(own.alive for own, _ in live.processes()), ORPHANS)
