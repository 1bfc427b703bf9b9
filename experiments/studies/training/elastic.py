"""Real elastic jobs under a live scheduler on this machine: completion times by policy.

Six trainings of small networks (`elastic_job.py`), three of them longer than the others, arrive
some seconds apart on a cluster of one node with two slots, a core each. The commands `goodalloc
launch` and `goodalloc schedule` launch and schedule them as processes that communicate through
files only. Every policy schedules the same jobs with the same seeds, one repetition after the
other; Pollux also at a longer interval, of which a restart costs a smaller part.

Pollux decides every round exactly, by the models that the jobs fit to their measurements; "equal"
divides the slots in order of submission; "tiresias" gives each job the one requested slot, in order
of submission at the start. Optimus and SRTF know how many steps each job makes at M0, told as its
user's prediction, and predict its speed by its fit. A job ends after the same scale-invariant steps
under every policy; the accuracy on held-out examples shows whether larger batches progressed as the
agent assumes.

The results depend on this machine. On two cores there is little to gain: a second replica of a
network so small that it trains in half a minute spends much of its time on exchanging gradients and
may cost more than it gains, which a job learns only by running on two; fitting the models takes
time of the same cores; and a restart, mostly importing PyTorch, takes a considerable part of a
job's duration. A policy that never restarts jobs, as Tiresias, may well do best. Other programs on
the machine disturb all measurements.
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
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.job_state import read_job_state
from goodalloc.data.files.job_submission import read_job_submission
from goodalloc.experiments.agent.cluster_folder import DECISIONS, STATE, SUBMISSION, job_folder
from goodalloc.experiments.live.replica_group import kill_replicas
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_training import require_training
from goodalloc.experiments.studies.training.elastic_extent import FULL, JOBS, QUICK
from goodalloc.experiments.studies.training.elastic_job import NETWORKS, OUTCOME
from goodalloc.experiments.studies.training.elastic_rates import median_ratio, round_speeds
from goodalloc.experiments.studies.training.elastic_report import (
    ElasticRecords,
    ElasticRow,
    plot_elastic,
    summarise_elastic,
)
from goodalloc.experiments.support.folder_lock import measuring_alone
from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goodalloc.data.files.job_state import JobState
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.training.elastic_extent import Extent, Setting
    from goodalloc.experiments.studies.training.elastic_report import Held
    from goodalloc.experiments.support.tasks import Report

#: Name of the file of the records of a run, and of the folder of its cluster.
RECORDS, CLUSTER = "records.json", "cluster"

#: Slots of the cluster's only node.
SLOTS = 2

#: Time limit of a run, of the end of a process, and time between two looks, in seconds.
PATIENCE, GRACE, GLANCE = 600.0, 15.0, 0.05


@dataclass(frozen=True)
class ElasticTask:
    """Task that trains all jobs once under one setting, as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of the records.
    setting
        Setting of the scheduler.
    repetition
        Number of the repetition from 0, the seed of the jobs.
    extent
        Extent of the measurement.
    """

    folder: Path
    setting: Setting
    repetition: int
    extent: Extent

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on, with the known facts of the machine."""
        return {
            "format": "goodalloc-elastic",
            "version": 3,
            "library": library_version(),
            "policy": self.setting.policy,
            "repetition": self.repetition,
            "slots": SLOTS,
            "share": self.extent.share,
            "apart": self.extent.apart,
            "interval": self.setting.interval,
            "restart_delay": self.extent.restart_delay,
            "networks": {name: list(network) for name, network in NETWORKS.items()},
            "jobs": {name: list(job) for name, job in JOBS.items()},
            **machine(),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Train all jobs while no other measurement runs, unless the records exist.

        Raises
        ------
        ValueError
            If another measurement is running, or a job or the scheduler fails.
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
            write_atomically(self.folder / RECORDS, self._records(cluster, ends).text() + "\n")

    def _train(self, cluster: Path, report: Report) -> dict[str, float]:
        """Launch and await all jobs, and return their ends in seconds since 1970."""
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
                self.setting.policy,
                "--interval",
                str(self.setting.interval),
                "--restart-delay",
                str(extent.restart_delay),
                "--seed",
                str(self.repetition),
                "--until-done",
            )
            begin, launchers = time.monotonic(), dict[str, subprocess.Popen[bytes]]()
            while len(ends) < len(JOBS):
                now = time.monotonic() - begin
                waiting = [name for name in JOBS if name not in launchers]
                if waiting and now >= extent.apart * len(launchers):
                    launchers[waiting[0]] = self._launch(start, waiting[0])
                for name, process in launchers.items():
                    if name not in ends and process.poll() is not None:
                        ends[name] = time.time()
                        _require_success(cluster, name, process)
                        report(len(ends) / len(JOBS))
                if scheduler.poll() is not None:
                    _require_success(cluster, "scheduler", scheduler)
                if now > PATIENCE:
                    raise ValueError(
                        f"Elastic jobs under '{self.setting.policy}' were not done after "
                        f"{PATIENCE:g} s; what happened is in '{cluster}'."
                    )
                time.sleep(GLANCE)
        return ends

    def _launch(self, start: Any, name: str) -> subprocess.Popen[bytes]:
        """Launch a job, with the true number of its steps as its user's prediction."""
        network, share = JOBS[name]
        share *= self.extent.share
        return start(  # type: ignore[no-any-return]
            name,
            "launch",
            "--name",
            name,
            "--steps",
            str(share * NETWORKS[network].steps),
            "--",
            sys.executable,
            "-P",
            "-m",
            "goodalloc.experiments.studies.training.elastic_job",
            network,
            str(self.repetition),
            str(share),
        )

    def records(self) -> ElasticRecords:
        """Return the records of a task that has run."""
        return ElasticRecords.parse((self.folder / RECORDS).read_text(encoding="utf-8"))

    def _records(self, cluster: Path, ends: dict[str, float]) -> ElasticRecords:
        """Return a row for every job, and the slots of all jobs over time."""
        lines = (cluster / DECISIONS).read_text(encoding="utf-8").splitlines()
        decisions = [json.loads(line) for line in lines]
        submitted = {
            name: read_job_submission(job_folder(cluster, name) / SUBMISSION).submitted
            for name in JOBS
        }
        begin = min(submitted.values())
        held = [
            (row["time"] - begin, {job: sum(g.values()) for job, g in row["placements"].items()})
            for row in decisions
        ]
        rows, speeds = [], round_speeds(decisions)
        for name in JOBS:
            own = [one for one in speeds if one.job == name]
            folder = job_folder(cluster, name)
            outcome = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
            state: JobState = read_job_state(folder / STATE)
            end = ends[name] - begin
            first = next(at for at, slots in held if slots.get(name))
            rows.append(
                ElasticRow(
                    self.setting.policy,
                    self.setting.interval,
                    self.repetition,
                    name,
                    submitted_s=submitted[name] - begin,
                    first_slot_s=first,
                    end_s=end,
                    completion_s=ends[name] - submitted[name],
                    restarts=state.restarts,
                    slot_seconds=slot_seconds(held, name, end),
                    rounds=len(own),
                    measured_over_predicted=median_ratio(own),
                    **outcome,
                    **machine(),
                )
            )
        return ElasticRecords(rows, held, [row["seconds"] for row in decisions], speeds)


def slot_seconds(held: Held, name: str, end: float) -> float:
    """Return the total slot time of a job, in seconds.

    Parameters
    ----------
    held
        Times in seconds, and the slots of every job from then on.
    name
        Name of the job.
    end
        End of the job, in seconds.
    """
    times = [*(at for at, _ in held[1:]), end]
    return sum(
        slots.get(name, 0) * max(min(until, end) - at, 0.0)
        for (at, slots), until in zip(held, times, strict=True)
    )


@contextlib.contextmanager
def _programs(cluster: Path) -> Iterator[Any]:
    """Yield a function that starts commands on the folder of a cluster; end all afterwards."""
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
        for name in JOBS:
            kill_replicas(job_folder(cluster, name))


def _require_success(cluster: Path, name: str, process: subprocess.Popen[bytes]) -> None:
    """Refuse to continue after a failure of a job or of the scheduler.

    Raises
    ------
    ValueError
        If `process` ended with another exit code than 0; its last output is in the message.
    """
    if process.returncode == 0:
        return
    lines = (cluster / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    words = next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")
    raise ValueError(f"Elastic: {name} ended with exit code {process.returncode} ({words}).")


def _tasks(plan: Plan) -> list[ElasticTask]:
    """Return a task for every repetition and setting, of a smaller extent if quick."""
    extent = QUICK if plan.quick else FULL
    tasks = []
    for repetition in range(extent.repetitions):
        for setting in extent.settings:
            task = ElasticTask(plan.folder, setting, repetition, extent)
            name = f"{setting.policy}-{digest(task.description())}"
            tasks.append(replace(task, folder=plan.folder / "elastic" / name))
    return tasks


def _rows(plan: Plan) -> list[ElasticRow]:
    """Return a row for every job, setting and repetition."""
    return [row for task in _tasks(plan) for row in task.records().rows]


ELASTIC = Reproduction(
    "elastic: real jobs under a live scheduler, two slots of this machine",
    _tasks,
    _rows,
    lambda plan, _: plot_elastic([task.records() for task in _tasks(plan)]),
    lambda _: require_training("Training elastic jobs"),
    summarise_elastic,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    measures=True,
)
