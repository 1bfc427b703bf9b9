"""Real elastic jobs under a live scheduler: what policies are worth on this machine.

Three trainings of small networks (`elastic_job.py`) come some seconds apart to a cluster of one
node with two slots, a core each. They are launched and scheduled by the commands `goodalloc launch`
and `goodalloc schedule`, as processes that know each other by files only. Every policy meets the
same jobs with the same seeds, a repetition after the other.

Pollux decides every round exactly, by the models that the jobs fit to what they measured so far;
"equal" deals the slots out in order of submission; "tiresias" gives each job the one that was asked
for, those that came first to begin with. A job is done after the same scale-invariant steps in all
cases; the accuracy on held-out examples tells whether larger batches were worth what the agent
believes.

What comes out is this machine's. On two cores there is little to win: a second replica of a network
so small that it trains in half a minute spends much of its time on exchanging gradients and may
cost more than it brings, which a job learns only by running on two; the refitting of the models
takes its share of the same cores; and a restart, mostly importing PyTorch, takes a good part of
what a job lasts. Who never starts a job again, as Tiresias, may well do best. Other programs on the
machine blur all of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.json_file import dump, write_atomically
from goodalloc.data.files.job_state import read_job_state
from goodalloc.data.files.job_submission import read_job_submission
from goodalloc.experiments.agent.cluster_folder import DECISIONS, STATE, SUBMISSION, job_folder
from goodalloc.experiments.live.replica_group import kill_replicas
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_training import require_training
from goodalloc.experiments.studies.training.elastic_job import NETWORKS, OUTCOME
from goodalloc.experiments.studies.training.elastic_report import plot_elastic, summarise_elastic
from goodalloc.experiments.support.folder_lock import measuring_alone
from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goodalloc.data.files.job_state import JobState
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: The file of what a run gave, and the folder of its cluster.
RECORDS, CLUSTER = "records.json", "cluster"

#: Slots of the cluster's only node.
SLOTS = 2

#: Seconds after which a run counts as hung; that a process has to end; between two looks.
PATIENCE, GRACE, GLANCE = 600.0, 15.0, 0.05


class Extent(NamedTuple):
    """How much is measured.

    Attributes
    ----------
    policies, repetitions
        Who decides, and how often all is repeated.
    share
        Of the steps of a whole job.
    apart
        Seconds between two jobs.
    interval, restart_delay
        Of the scheduler, in seconds.
    """

    policies: tuple[str, ...]
    repetitions: int
    share: float
    apart: float
    interval: float
    restart_delay: float


FULL = Extent(("pollux", "equal", "tiresias"), 3, 1.0, 10.0, 5.0, 5.0)
QUICK = Extent(("pollux", "equal"), 1, 0.3, 3.0, 3.0, 5.0)


@dataclass(frozen=True)
class ElasticTask:
    """All jobs under one policy once; done at once or not at all.

    Parameters
    ----------
    folder
        Where the records go.
    policy
        Who decides.
    repetition
        Its number, from 0; the seed of the jobs.
    extent
        How much is measured.
    """

    folder: Path
    policy: str
    repetition: int
    extent: Extent

    def description(self) -> dict[str, Any]:
        """Everything that the records depend on, the machine as far as it is known."""
        return {
            "format": "goodalloc-elastic",
            "version": 1,
            "library": library_version(),
            "policy": self.policy,
            "repetition": self.repetition,
            "slots": SLOTS,
            "share": self.extent.share,
            "apart": self.extent.apart,
            "interval": self.extent.interval,
            "restart_delay": self.extent.restart_delay,
            "networks": {name: list(network) for name, network in NETWORKS.items()},
            **machine(),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Train all jobs, unless that is done, and nothing else meanwhile.

        Raises
        ------
        ValueError
            If something else is being measured, or a job fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / RECORDS).exists():
            return
        with measuring_alone(self.folder.parent, "Elastic jobs"):
            cluster = self.folder / CLUSTER
            shutil.rmtree(cluster, ignore_errors=True)
            cluster.mkdir()
            ends = self._train(cluster, report)
            write_atomically(self.folder / RECORDS, dump(self._records(cluster, ends)) + "\n")

    def _train(self, cluster: Path, report: Report) -> dict[str, float]:
        """Launch job after job, and wait for them: when each ended, in seconds since 1970."""
        extent, ends = self.extent, dict[str, float]()
        with _programs(cluster) as start:
            scheduler = start(
                "scheduler",
                "schedule",
                "--nodes",
                "1",
                "--gpus-per-node",
                str(SLOTS),
                "--policy",
                self.policy,
                "--interval",
                str(extent.interval),
                "--restart-delay",
                str(extent.restart_delay),
                "--seed",
                str(self.repetition),
                "--until-done",
            )
            begin, launchers = time.monotonic(), dict[str, subprocess.Popen[bytes]]()
            while len(ends) < len(NETWORKS):
                now = time.monotonic() - begin
                waiting = [name for name in NETWORKS if name not in launchers]
                if waiting and now >= extent.apart * len(launchers):
                    launchers[waiting[0]] = start(
                        waiting[0],
                        "launch",
                        "--name",
                        waiting[0],
                        "--",
                        sys.executable,
                        "-P",
                        "-m",
                        "goodalloc.experiments.studies.training.elastic_job",
                        waiting[0],
                        str(self.repetition),
                        str(extent.share),
                    )
                for name, process in launchers.items():
                    if name not in ends and process.poll() is not None:
                        ends[name] = time.time()
                        _require_success(cluster, name, process)
                        report(len(ends) / len(NETWORKS))
                if scheduler.poll() is not None:
                    _require_success(cluster, "scheduler", scheduler)
                if now > PATIENCE:
                    raise ValueError(
                        f"Elastic jobs under '{self.policy}' were not done after {PATIENCE:g} s; "
                        f"what happened is in '{cluster}'."
                    )
                time.sleep(GLANCE)
        return ends

    def _records(self, cluster: Path, ends: dict[str, float]) -> dict[str, Any]:
        """A row a job, and who held how many slots from when on."""
        lines = (cluster / DECISIONS).read_text(encoding="utf-8").splitlines()
        decisions = [json.loads(line) for line in lines]
        submitted = {
            name: read_job_submission(job_folder(cluster, name) / SUBMISSION).submitted
            for name in NETWORKS
        }
        begin = min(submitted.values())
        held = [
            (row["time"] - begin, {job: sum(g.values()) for job, g in row["placements"].items()})
            for row in decisions
        ]
        rows = []
        for name in NETWORKS:
            folder = job_folder(cluster, name)
            outcome = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
            state: JobState = read_job_state(folder / STATE)
            end = ends[name] - begin
            first = next(at for at, slots in held if slots.get(name))
            rows.append(
                {
                    "policy": self.policy,
                    "repetition": self.repetition,
                    "job": name,
                    "submitted_s": submitted[name] - begin,
                    "first_slot_s": first,
                    "end_s": end,
                    "completion_s": ends[name] - submitted[name],
                    "restarts": state.restarts,
                    "slot_seconds": slot_seconds(held, name, end),
                    **outcome,
                    **machine(),
                }
            )
        return {"rows": rows, "held": held, "seconds": [row["seconds"] for row in decisions]}


def slot_seconds(held: list[tuple[float, dict[str, int]]], name: str, end: float) -> float:
    """What a job held in all.

    Parameters
    ----------
    held
        Seconds, and slots by job from then on.
    name
        Of the job.
    end
        When it ended.
    """
    times = [*(at for at, _ in held[1:]), end]
    return sum(
        slots.get(name, 0) * max(min(until, end) - at, 0.0)
        for (at, slots), until in zip(held, times, strict=True)
    )


@contextlib.contextmanager
def _programs(cluster: Path) -> Iterator[Any]:
    """Starts commands of goodalloc on a cluster's folder, and leaves none behind."""
    path = os.pathsep.join(filter(None, sys.path))
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (cluster / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "goodalloc.experiments.cli.main",
                    command,
                    "--cluster",
                    str(cluster),
                    *arguments,
                ],
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running.append(process)
        return process

    try:
        yield start
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in NETWORKS:
            kill_replicas(job_folder(cluster, name))


def _require_success(cluster: Path, name: str, process: subprocess.Popen[bytes]) -> None:
    """Refuse to go on without a job, or without the scheduler.

    Raises
    ------
    ValueError
        With the last thing that it said.
    """
    if process.returncode == 0:
        return
    lines = (cluster / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    words = next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")
    raise ValueError(f"Elastic: {name} ended with exit code {process.returncode} ({words}).")


def _tasks(plan: Plan) -> list[ElasticTask]:
    """One for every repetition and policy; little of everything if quick."""
    extent = QUICK if plan.quick else FULL
    tasks = []
    for repetition in range(extent.repetitions):
        for policy in extent.policies:
            task = ElasticTask(plan.folder, policy, repetition, extent)
            name = f"{policy}-{digest(task.description())}"
            tasks.append(replace(task, folder=plan.folder / "elastic" / name))
    return tasks


def _records_of(plan: Plan) -> list[dict[str, Any]]:
    tasks = _tasks(plan)
    return [json.loads((task.folder / RECORDS).read_text(encoding="utf-8")) for task in tasks]


def _rows(plan: Plan) -> Rows:
    """A row for every job, policy and repetition."""
    return [row for records in _records_of(plan) for row in records["rows"]]


ELASTIC = Reproduction(
    "elastic: real jobs under a live scheduler, two slots of this machine",
    _tasks,
    _rows,
    lambda plan, _: plot_elastic(_records_of(plan)),
    lambda _: require_training("Training elastic jobs"),
    summarise_elastic,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    measures=True,
)
