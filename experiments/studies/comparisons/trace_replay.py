r"""Published traces of rigid jobs under every policy that keeps the requested GPUs.

The study replays the 60 jobs of Tiresias's simulator, the 195 of ElasticFlow's testbed with their
deadlines, and a week of one of Microsoft's clusters (`data/workloads/rigid_jobs.py`), each on the
published cluster or the one of its authors, and on a smaller one. All GPUs are equal, and a job
that moves to other GPUs loses half a minute. With *G* GPUs, a job of :math:`s_j` GPUs that takes
:math:`d_j` seconds on them and :math:`T_j` in all, during which :math:`\bar N_j` jobs are active on
average, has the finish-time fairness (of Themis; our reading for gangs, whose share of less than
:math:`s_j` GPUs is one of time)

.. math:: \rho_j = T_j / (d_j \max(1, s_j \bar N_j / G)).                                     (1)

The study leaves out policies that change the number of GPUs (Pollux, Sia, Optimus, equal shares,
heSRPT, SLAQ), since the traces do not say how fast jobs would be; those that share GPUs between
jobs (AntMan, and Gandiva's pairs, which it packs only where it knows how busy GPUs are); those that
divide cores (Synergy); and Gavel's policy that ignores types, of which there is one. We know of no
published results of any policy on these traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.workloads.rigid_jobs import (
    ITP,
    SOURCES,
    TIRESIAS,
    read_elasticflow_jobs,
    read_itp_jobs,
    read_services,
    read_tiresias_cluster,
    read_tiresias_jobs,
)
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.comparisons.trace_plot import TraceRow, plot_traces
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.studies.pollux.fairness import mean_active
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy_table import GITTINS_DELTA
from goodalloc.solvers.policies.registry import make_policy, terms_of
from goodalloc.solvers.policies.tiresias import Tiresias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.data.workloads.rigid_jobs import RigidJob
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Policy


#: Policies that keep the requested GPUs; some are given the remaining steps and rates.
RIGID = (
    "fifo",
    "srtf",
    "tiresias",
    "tiresias-gittins",
    "gavel",
    "gavel-makespan",
    "gavel-finish-time",
    "gavel-completion",
    "gavel-throughput",
    "allox",
    "gandiva",
    "themis",
    "themis-exact",
    "themis-maxmin",
)

#: Tiresias's Gittins index given the services of past jobs of its authors' cluster.
TOLD = "tiresias-gittins-told"

#: Seconds that a job loses when its GPUs change.
RESTART = 30.0

#: Number of Microsoft's cluster, first day, and number of days.
ITP_CLUSTER, ITP_DAY, ITP_DAYS = 2, 51, 7

#: Jobs of a quick replay, the first of their trace, on the smaller cluster.
QUICK_JOBS = 40


class Trace(NamedTuple):
    """Published jobs and their cluster.

    Attributes
    ----------
    text
        Label in tables and figures.
    jobs, cluster
        Functions that read the jobs and the cluster from the folder that holds both sources.
    interval
        Seconds between decisions, more than a restart takes.
    services
        Whether the services of past jobs of the cluster are published, which `TOLD` needs.
    """

    text: str
    jobs: Callable[[Path], tuple[RigidJob, ...]]
    cluster: Callable[[Path], Cluster]
    interval: int
    services: bool = False


def _tiresias(folder: Path) -> tuple[RigidJob, ...]:
    return read_tiresias_jobs(folder / TIRESIAS)


def _elasticflow(folder: Path) -> tuple[RigidJob, ...]:
    return read_elasticflow_jobs(folder / ITP)


def _itp(folder: Path) -> tuple[RigidJob, ...]:
    return read_itp_jobs(folder / ITP, ITP_CLUSTER, ITP_DAY, ITP_DAYS)


#: Tiresias's jobs take two minutes, the others hours. ElasticFlow's testbed had 128 GPUs; the size
#: of Microsoft's cluster is not published.
TRACES: Mapping[str, Trace] = {
    "tiresias": Trace(
        "Tiresias", _tiresias, lambda folder: read_tiresias_cluster(folder / TIRESIAS), 60, True
    ),
    "tiresias-small": Trace("Tiresias", _tiresias, lambda _: Cluster.uniform(2, 4), 60, True),
    "elasticflow": Trace("ElasticFlow", _elasticflow, lambda _: Cluster.uniform(16, 8), 60),
    "elasticflow-small": Trace("ElasticFlow", _elasticflow, lambda _: Cluster.uniform(8, 8), 60),
    "itp": Trace("ITP, a week", _itp, lambda _: Cluster.uniform(16, 8), 300),
    "itp-small": Trace("ITP, a week", _itp, lambda _: Cluster.uniform(12, 8), 300),
}


@dataclass(frozen=True)
class TraceTask(RecordedTask):
    """Task of one replay, done as a whole or not at all.

    Parameters
    ----------
    artifact
        Folder that holds both sources.
    trace, policy
        Key in `TRACES`, and name of the policy.
    jobs
        Number of jobs, the first of the trace; None for all.
    """

    artifact: Path
    trace: str
    policy: str
    jobs: int | None

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-trace-replay",
            "version": 1,
            "library": library_version(),
            "trace": self.trace,
            "policy": self.policy,
            "jobs": self.jobs,
            "restart": RESTART,
            "interval": TRACES[self.trace].interval,
        }

    def workload(self) -> tuple[RigidJob, ...]:
        """Return the jobs."""
        return TRACES[self.trace].jobs(self.artifact)[: self.jobs]

    def cluster(self) -> Cluster:
        """Return the cluster."""
        return TRACES[self.trace].cluster(self.artifact)

    def made_policy(self) -> Policy:
        """Return a new policy."""
        if self.policy != TOLD:
            return make_policy(self.policy)
        services = read_services(self.artifact / TIRESIAS)
        return Tiresias(gittins_delta=GITTINS_DELTA, services=services)

    def work(self, report: Report) -> dict[str, list[float]]:
        """Replay, and return the completion times in seconds and the restarts of the jobs."""
        jobs = self.workload()
        simulator = RateSimulator(
            jobs, None, self.cluster(), self.made_policy(), TRACES[self.trace].interval, RESTART
        )
        done = {one.name: one for one in simulator.run(report)}
        return {
            "completion": [done[job.name].completion for job in jobs],
            "restarts": [float(done[job.name].restarts) for job in jobs],
        }


def _traces(plan: Plan) -> list[str]:
    """Return the names of the replayed `TRACES`."""
    return [name for name in TRACES if not plan.quick or name.endswith("-small")]


def _names(trace: str) -> tuple[str, ...]:
    """Return the policies that the trace named `trace` is replayed under."""
    return (*RIGID, TOLD) if TRACES[trace].services else RIGID


def _task(plan: Plan, trace: str, policy: str) -> TraceTask:
    jobs = QUICK_JOBS if plan.quick else None
    task = TraceTask(plan.folder, _require(plan), trace, policy, jobs)
    return task.among(plan.folder, "trace")


def _tasks(plan: Plan) -> list[TraceTask]:
    return [_task(plan, trace, policy) for trace in _traces(plan) for policy in _names(trace)]


def _require(plan: Plan) -> Path:
    """Return the folder of both sources.

    Raises
    ------
    ValueError
        If ``plan.artifact`` is None or lacks one of the sources.
    """
    folder = plan.artifact
    for name, origin in SOURCES.items():
        if folder is None or not (folder / name).is_dir():
            raise ValueError(
                f"Traces: --artifact is {'not given' if folder is None else f'{folder}'}; expected "
                f"the folder that holds '{name}', with the files of {origin}."
            )
    return folder or Path()


def fairness(jobs: Sequence[RigidJob], completed: Floats, gpus: int) -> Floats:
    """Return the finish-time fairness (1) of every job, shape (jobs,).

    Parameters
    ----------
    jobs
        Jobs of a trace.
    completed
        Time of completion of each job in seconds, shape (jobs,).
    gpus
        GPUs of the cluster.
    """
    submitted = np.array([job.submission for job in jobs])
    seconds = np.array([job.seconds for job in jobs])
    wanted = np.array([float(job.replicas) for job in jobs])
    slower = np.maximum(1.0, wanted * mean_active(submitted, completed) / gpus)
    found: Floats = (completed - submitted) / (seconds * slower)
    return found


def load_of(jobs: Sequence[RigidJob], gpus: int) -> float:
    """Return the GPU time of the jobs over the cluster's from the first to the last submission.

    Parameters
    ----------
    jobs
        Jobs in order of submission.
    gpus
        GPUs of the cluster.
    """
    span = jobs[-1].submission - jobs[0].submission
    return float(sum(job.replicas * job.seconds for job in jobs) / (gpus * max(span, 1.0)))


def _rows(plan: Plan) -> list[TraceRow]:
    """Return a row for each trace and policy."""
    rows = []
    for trace in _traces(plan):
        for policy in _names(trace):
            task = _task(plan, trace, policy)
            rows.append(trace_row(task, task.record()))
    return rows


def trace_row(task: TraceTask, record: Mapping[str, list[float]]) -> TraceRow:
    """Return the outcome of a replay.

    Parameters
    ----------
    task, record
        Task of the replay, and its record.
    """
    jobs, gpus = task.workload(), task.cluster().num_gpus
    completed = np.array(record["completion"])
    jct = (completed - np.array([job.submission for job in jobs])) / HOUR
    rho = fairness(jobs, completed, gpus)
    met = possible = None
    terms = terms_of("tiresias-gittins" if task.policy == TOLD else task.policy)
    if np.isfinite([job.deadline for job in jobs]).any():
        deadline = np.array([job.deadline for job in jobs])
        alone = np.array([job.submission + job.seconds for job in jobs])
        met = _digits(100.0 * np.mean(completed <= deadline))
        possible = _digits(100.0 * np.mean(alone <= deadline))
    return TraceRow(
        trace=TRACES[task.trace].text,
        gpus=gpus,
        load=_digits(load_of(jobs, gpus)),
        jobs=len(jobs),
        policy=task.policy,
        knows=terms.knows,
        batch=terms.batch,
        average_jct_hours=_digits(jct.mean()),
        median_jct_hours=_digits(np.median(jct)),
        p99_jct_hours=_digits(np.percentile(jct, 99)),
        makespan_hours=_digits(completed.max() / HOUR),
        alone_hours=_digits(np.mean([job.seconds for job in jobs]) / HOUR),
        restarts_per_job=_digits(np.mean(record["restarts"])),
        median_rho=_digits(np.median(rho)),
        greatest_rho=_digits(rho.max()),
        deadlines_met_percent=met,
        deadlines_possible_percent=possible,
    )


def _digits(value: float | np.floating[Any]) -> float:
    """Return `value` with the digits of the table."""
    return rounded(float(value), 4)


def _shown(rows: list[TraceRow]) -> Rows:
    """Return fewer columns, under shorter names."""
    short = {
        "trace": "trace",
        "gpus": "GPUs",
        "load": "load",
        "policy": "policy",
        "average_jct_hours": "jct (h)",
        "median_jct_hours": "median",
        "p99_jct_hours": "p99",
        "makespan_hours": "makespan",
        "median_rho": "median rho",
        "greatest_rho": "worst rho",
        "deadlines_met_percent": "deadlines met (%)",
        "restarts_per_job": "restarts",
    }
    return [{shown: line[name] for name, shown in short.items()} for line in table_of(rows)]


NOTE = """\
load: GPU time of the jobs over the cluster's from the first to the last submission; rho:
finish-time fairness, a job's completion time over that alone on its share of the GPUs.
tiresias-gittins-told knows the services of past jobs from the start."""

TRACE_REPLAY = Reproduction(
    "published traces of rigid jobs under every policy that keeps the users' GPUs",
    _tasks,
    _rows,
    lambda _, rows: plot_traces(rows),
    _require,
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    note=NOTE,
)
