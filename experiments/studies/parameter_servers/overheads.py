r"""Costs of restarts and profiling for jobs with parameter servers, on real processes.

AITurbo reports both; its numbers are not available to us. Here processes of this machine train a
small network (`parameter_servers/training.py`), and

- a *restart* is a change of configuration: the checkpoint is written, the old processes are
  stopped, new interpreters are started, PyTorch is imported, all are connected, the state is read
  and pulled, and the first step is made;
- *profiling* is what Optimus does before it can predict a job: ten configurations, chosen by
  `design_points`, are started, warmed up, measured and stopped. The step time
  ((1) of `models/parameter_servers/step_time.py`, an update of mean gradients, CPU workers) is
  fitted to the medians and compared with further configurations, which are measured but not fitted.

A cost of *C* seconds is a share *s* of a job, or of a round, that lasts *C / s*; a restart in every
round of 240 s is a share of *C / 240*. Steps made during that time count as lost.

The results depend on the machine; every row states its cores and the version of PyTorch. With more
processes than cores, the usual case on a small machine, the processes take turns, and the times are
those of an overloaded machine (column `processes_per_core`), which (1) does not describe: *w*
workers are no faster than as many as there are cores. Other programs also disturb the times;
processor times of all processes together are less affected. The state is small, the disk local, and
no GPU is initialised.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.parameter_servers.networks import NETWORKS
from goodalloc.experiments.studies.parameter_servers.overhead_measurements import (
    FULL,
    QUICK,
    OverheadRow,
    measure_profiling,
    measure_restarts,
)
from goodalloc.experiments.studies.parameter_servers.overheads_report import (
    plot_overheads,
    summarise_overheads,
)
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.folder_lock import measuring_alone
from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.parameter_servers.overhead_measurements import Extent
    from goodalloc.experiments.support.tasks import Report

#: Name of the file of a task's rows.
ROWS = "rows.json"


@dataclass(frozen=True)
class OverheadTask:
    """Task of all restarts, or all of the profiling, of a network, done as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of the rows.
    what
        "restarts" or "profiling".
    network
        One of `NETWORKS`.
    repetition
        Number of the repetition, from 0.
    extent
        Extent of the measurements.
    """

    folder: Path
    what: str
    network: str
    repetition: int
    extent: Extent

    def description(self) -> dict[str, Any]:
        """Return all inputs that the rows depend on, with the known facts of the machine."""
        return {
            "format": "goodalloc-ps-overheads",
            "version": 2,
            "library": library_version(),
            "what": self.what,
            "network": self.network,
            "repetition": self.repetition,
            **self.extent._asdict(),
            **machine(),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Measure while no other measurement runs, unless the rows exist.

        Raises
        ------
        ValueError
            If another measurement is running, or a process dies.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / ROWS).exists():
            return
        with measuring_alone(self.folder.parent, "Overheads"):
            try:
                rows = self._measure(report)
            except ChildProcessError as error:
                raise ValueError(str(error)) from error
        write_atomically(self.folder / ROWS, dump([row._asdict() for row in rows]) + "\n")

    def rows(self) -> list[OverheadRow]:
        """Return the rows of a task that has run."""
        found = json.loads((self.folder / ROWS).read_text(encoding="utf-8"))
        return [OverheadRow(**row) for row in found]

    def _measure(self, report: Report) -> list[OverheadRow]:
        if self.what == "profiling":
            return measure_profiling(self.network, self.extent, self.repetition, report)
        checkpoints = self.folder / "checkpoints"
        try:
            return measure_restarts(self.network, self.extent, self.repetition, checkpoints, report)
        finally:
            shutil.rmtree(checkpoints, ignore_errors=True)


def _tasks(plan: Plan) -> list[OverheadTask]:
    """Return a task for every network, repetition and kind of overhead; smaller if quick."""
    extent = QUICK if plan.quick else FULL
    tasks = []
    for repetition in range(extent.repetitions):
        for network in NETWORKS:
            for what in ("restarts", "profiling"):
                task = OverheadTask(plan.folder, what, network, repetition, extent)
                name = f"{what}-{digest(task.description())}"
                tasks.append(replace(task, folder=plan.folder / "overheads" / name))
    return tasks


def _rows(plan: Plan) -> list[OverheadRow]:
    """Return a row for every restart and every profiled configuration."""
    return [row for task in _tasks(plan) for row in task.rows()]


OVERHEADS = Reproduction(
    "overheads: restarts and profiling with parameter servers, measured on this machine (HPDC'21)",
    _tasks,
    _rows,
    lambda _, rows: plot_overheads(rows),
    lambda _: require_extra("measure", "Measuring overheads"),
    summarise_overheads,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    measures=True,
)
