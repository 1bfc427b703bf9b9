"""One replay of AITurbo's study: a workload under a contender, and the numbers it leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump, in_file
from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.experiments.studies.parameter_servers.simulator import PsSimulator
from goodalloc.experiments.support.records import DESCRIPTION, check_description
from goodalloc.experiments.support.version import library_version
from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.solvers.parameter_servers.aiturbo import PsAiturbo
from goodalloc.solvers.parameter_servers.optimus import PsOptimus
from goodalloc.solvers.parameter_servers.queueing import PsFirstCome, PsShortestFirst, PsTiresias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from goodalloc.data.parameter_servers.workload import PsSubmission
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.solvers.parameter_servers.policy import PsPolicy


class Contender(NamedTuple):
    """Policy of the comparison.

    Attributes
    ----------
    label
        Label in figures.
    make
        Factory of the policy.
    told
        Whether it knows from the start which jobs are predictable, and their steps.
    blind
        Whether it ignores which jobs are predictable.
    """

    label: str
    make: Callable[[], PsPolicy]
    told: bool = False
    blind: bool = False


CONTENDERS: Mapping[str, Contender] = {
    "aiturbo": Contender("AITurbo, time", PsAiturbo),
    "aiturbo-told": Contender("AITurbo, time, told", PsAiturbo, told=True),
    "aiturbo-exact": Contender("AITurbo, time, exact", lambda: PsAiturbo(exact=True)),
    "aiturbo-pods": Contender("AITurbo, time, pods ≥ asked", lambda: PsAiturbo(pods="asked")),
    "aiturbo-service": Contender(
        "AITurbo, service, pods ≥ asked", lambda: PsAiturbo("service", "asked")
    ),
    "aiturbo-asked": Contender("AITurbo, time, others as asked", lambda: PsAiturbo(others="asked")),
    "log-time": Contender("AITurbo, log time (ours)", lambda: PsAiturbo("log time")),
    "optimus": Contender("Optimus", PsOptimus),
    "optimus-told": Contender("Optimus, told", PsOptimus, told=True, blind=True),
    "tiresias": Contender("Tiresias", PsTiresias, blind=True),
    "srtf": Contender("SRTF, true times", PsShortestFirst, blind=True),
    "fcfs": Contender("FCFS", PsFirstCome, blind=True),
}


#: Number of kept quantiles of the differences.
QUANTILES = 101


#: Name of the file of a replay's outcome.
RECORD = "numbers.json"


class PsOutcome(NamedTuple):
    """Outcome of a workload under a policy.

    Attributes
    ----------
    average_jct_hours, short_jct_hours, long_jct_hours
        Average completion time of all, of short and of long jobs.
    cpu_percent, gpu_percent
        Utilisation of CPUs and GPUs until the last submission.
    difference_p80_percent
        80 % quantile of abs(CPU - GPU utilisation) over nodes and rounds.
    starts_per_job
        Mean number of starts of a job.
    differences_percent
        `QUANTILES` quantiles of that difference.
    """

    average_jct_hours: float
    short_jct_hours: float
    long_jct_hours: float
    makespan_hours: float
    cpu_percent: float
    gpu_percent: float
    difference_p80_percent: float
    starts_per_job: float
    differences_percent: tuple[float, ...]


def replay_outcome(
    policy: str, workload: tuple[PsSubmission, ...], setting: PsSetting
) -> PsOutcome:
    """Replay a workload under a policy.

    Parameters
    ----------
    policy
        One of `CONTENDERS`.
    workload, setting
        Submitted jobs, and cluster and rules of the replay.

    Raises
    ------
    ValueError
        If no job makes progress for long.
    RuntimeError
        If pods on nodes do not pass the checker.
    """
    simulator = PsSimulator(workload, CONTENDERS[policy].make(), setting)
    last = max(job.time for job in workload)
    rounds = list(simulator.run())
    for record in rounds:
        broken = pod_violations(record.tables, record.cells, record.pods, record.view.nodes)
        if broken:
            raise RuntimeError(f"Policy '{policy}' at {record.view.time:g} s: {broken[0]}")
    early = [record.utilisation for record in rounds if record.view.time <= last]
    used = 100.0 * np.concatenate(early or [rounds[0].utilisation])
    difference = np.abs(used[:, 0] - used[:, 1])
    difference = difference[np.isfinite(difference)]
    ends = np.array([job.completion for job in simulator.jobs], dtype=float)
    hours = (ends - [job.submission.time for job in simulator.jobs]) / 3600.0
    alone = np.array([seconds_alone(job.submission) for job in simulator.jobs])
    short = alone <= np.median(alone)
    quantiles = np.quantile(difference, np.linspace(0, 1, QUANTILES))
    return PsOutcome(
        average_jct_hours=_eight_digits(hours.mean()),
        short_jct_hours=_eight_digits(hours[short].mean()),
        long_jct_hours=_eight_digits(hours[~short].mean() if (~short).any() else hours.mean()),
        makespan_hours=_eight_digits(ends.max() / 3600.0),
        cpu_percent=_eight_digits(np.nanmean(used[:, 0])),
        gpu_percent=_eight_digits(np.nanmean(used[:, 1])),
        difference_p80_percent=_eight_digits(np.quantile(difference, 0.8)),
        starts_per_job=_eight_digits(np.mean([job.starts for job in simulator.jobs])),
        differences_percent=tuple(rounded(value) for value in quantiles.tolist()),
    )


def _eight_digits(value: np.floating) -> float:
    return rounded(float(value), 8)


def seconds_alone(job: PsSubmission) -> float:
    """Return the running time of a job alone with its requested allocation, in seconds."""
    return job.steps * float(seconds_per_step(job.step_time, job.asked, job.batch_size))


@dataclass(frozen=True)
class PsReplay:
    """Task of one replay, done as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of its numbers.
    policy, share, seed, jobs
        Name of the policy, per cent of unpredictable jobs, and number and jobs of the workload.
    setting
        Cluster and rules of the replay.
    drawn
        All other parameters of the workload.
    """

    folder: Path
    policy: str
    share: int
    seed: int
    jobs: int
    setting: PsSetting = field(default_factory=PsSetting)
    drawn: PsWorkloadOptions = field(default_factory=PsWorkloadOptions)

    @property
    def options(self) -> PsWorkloadOptions:
        """Parameters of the workload."""
        told = CONTENDERS[self.policy].told
        return replace(self.drawn, jobs=self.jobs, unpredictable=self.share / 100.0, told=told)

    def description(self) -> dict[str, Any]:
        """Return all inputs that the numbers depend on."""
        return {
            "format": "goodalloc-ps-replay",
            "version": 2,
            "library": library_version(),
            "policy": self.policy,
            "seed": self.seed,
            "workload": vars(self.options),
            "setting": vars(self.setting),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Replay, unless the outcome exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if not (self.folder / RECORD).exists():
            workload = ps_workload(self.seed, self.options)
            outcome = replay_outcome(self.policy, workload, self.setting)
            write_atomically(self.folder / RECORD, dump(outcome._asdict()) + "\n")
        report(1.0)

    def record(self) -> PsOutcome:
        """Return the outcome of a task that has run.

        Raises
        ------
        ValueError
            If the file of the outcome is damaged.
        """
        path = self.folder / RECORD
        try:
            return PsOutcome(**json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(in_file(path, error)) from error
