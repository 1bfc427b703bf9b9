"""Gavel's policies on its throughputs: benefit of knowing the types of GPU.

Jobs of Gavel's generator (`data/gavel/workload.py`) run on 36 GPUs of each of three types, by
measured rates if `--artifact` names the folder of the published table, else by fitted ones. The
measure is, for some days of arrivals at several loads, the average completion time of the jobs in
the middle, when the cluster is neither filling nor emptying, and for a batch its makespan. Every
policy that knows the types stands beside its version that takes them for equal.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 7. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.data.gavel.workload import GavelWorkload, draw_gavel_jobs
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.policies.queueing import TypedQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.solvers.policies.policy import Policy


def cluster_of(nodes: int) -> Cluster:
    """Return a cluster of `nodes` nodes with four GPUs of each type."""
    return Cluster(tuple(NodeGroup(kind, nodes, 4, kind) for kind in ("v100", "p100", "k80")))


#: Nodes of each type; few in quick replays, so that their few jobs wait, too.
NODES, QUICK_NODES = 9, 3


class Contender(NamedTuple):
    """Policy that knows types of GPU, and its version that does not."""

    knows: Callable[[], Policy]
    blind: Callable[[], Policy]


CONTENDERS: Mapping[str, Contender] = {
    "max-min": Contender(Gavel, lambda: Gavel(blind=True)),
    "finish-time": Contender(
        lambda: Gavel("finish-time"), lambda: Gavel("finish-time", blind=True)
    ),
    "completion": Contender(lambda: Gavel("completion"), lambda: Gavel("completion", blind=True)),
    "makespan": Contender(lambda: Gavel("makespan"), lambda: Gavel("makespan", blind=True)),
    "queue": Contender(TypedQueue, lambda: TypedQueue(blind=True)),
}

#: Jobs an hour of the arrivals; 0 for all at the start.
LOADS = (1.0, 2.0, 3.0, 0.0)

#: Jobs of a replay, and how many seeds; quick ones.
JOBS, QUICK_JOBS, SEEDS, QUICK_SEEDS = 500, 40, 3, 1

#: Parts of the jobs, by submission, between which completion times count.
MIDDLE = (0.25, 0.75)

#: The published ratios of types unknown to known, over all its experiments (average completion
#: times up to 3.5, makespan 1.4).
PUBLISHED = {"jct": 3.5, "makespan": 1.4}


class ReplayHours(NamedTuple):
    """Outcome of a replay."""

    average_jct_hours: float
    makespan_hours: float
    restarts_per_job: float


@dataclass(frozen=True)
class RateReplay(RecordedTask):
    """Replay of jobs of Gavel's generator, done as a whole or not at all; subclasses define who
    decides.

    Parameters
    ----------
    load
        Jobs an hour; 0 for all at the start.
    jobs, seed
        Seed of the generator.
    table
        Folder of the published table; the fitted one if None.
    nodes
        Number of nodes of each type, with four GPUs each.
    """

    load: float
    jobs: int
    seed: int
    table: Path | None
    nodes: int

    def policy(self) -> Policy:
        """Return a new policy."""
        raise NotImplementedError

    def workload(self) -> GavelWorkload:
        """Parameters of the workload."""
        return GavelWorkload(jobs_per_hour=self.load or None)

    def rates(self) -> RateTable:
        """Return measured or fitted rates."""
        return gavel_rates(self.table)

    def work(self, report: Report) -> dict[str, Any]:
        """Replay."""
        rates = self.rates()
        jobs = draw_gavel_jobs(self.seed, self.jobs, rates, self.workload())
        simulator = RateSimulator(jobs, rates, cluster_of(self.nodes), self.policy())
        done = {one.name: one for one in simulator.run(report)}
        return {
            "jct": [done[job.name].jct for job in jobs],
            "makespan": max(one.completion for one in done.values()),
            "restarts": sum(one.restarts for one in done.values()) / len(done),
        }

    def hours(self) -> ReplayHours:
        """Return the outcome, times in hours."""
        found = self.record()
        first, last = (int(part * self.jobs) for part in MIDDLE)
        return ReplayHours(
            average_jct_hours=float(np.mean(found["jct"][first:last])) / 3600.0,
            makespan_hours=found["makespan"] / 3600.0,
            restarts_per_job=found["restarts"],
        )


@dataclass(frozen=True)
class GavelTask(RateReplay):
    """One replay; see `RateReplay`.

    Parameters
    ----------
    contender, blind
        Key in `CONTENDERS`.
    """

    contender: str
    blind: bool

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-gavel-replay",
            "version": 1,
            "library": library_version(),
            "contender": self.contender,
            "blind": self.blind,
            "load": self.load,
            "jobs": self.jobs,
            "seed": self.seed,
            "table": self.table is not None,
            "nodes": self.nodes,
        }

    def policy(self) -> Policy:
        """Return a policy that knows types of GPU, or its version that does not."""
        contender = CONTENDERS[self.contender]
        return (contender.blind if self.blind else contender.knows)()


def _task(plan: Plan, contender: str, blind: bool, load: float, seed: int) -> GavelTask:
    jobs, nodes = (QUICK_JOBS, QUICK_NODES) if plan.quick else (JOBS, NODES)
    task = GavelTask(
        plan.folder, load, jobs, seed, plan.artifact, nodes, contender=contender, blind=blind
    )
    return task.among(plan.folder, "gavel")


def _seeds(plan: Plan) -> range:
    return range(QUICK_SEEDS if plan.quick else SEEDS)


def _tasks(plan: Plan) -> list[GavelTask]:
    return [
        _task(plan, contender, blind, load, seed)
        for load in LOADS
        for contender in _at(load)
        for blind in (False, True)
        for seed in _seeds(plan)
    ]


def _at(load: float) -> list[str]:
    """Return the compared policies; those for the makespan if all jobs arrive at once."""
    return [name for name in CONTENDERS if load == 0.0 or name != "makespan"]


class TypesRow(NamedTuple):
    """Outcome of a policy at a load, with the types of GPU known to it or not."""

    jobs_per_hour: float
    policy: str
    knows_types: bool
    seeds: int
    average_jct_hours: Estimate
    makespan_hours: Estimate
    restarts_per_job: Estimate
    average_jct_blind_over_known: Estimate
    makespan_blind_over_known: Estimate


def _rows(plan: Plan) -> list[TypesRow]:
    """Return a row for each load, policy and whether it knows the types."""
    rows = []
    for load in LOADS:
        for contender in _at(load):
            runs = {
                blind: [_task(plan, contender, blind, load, seed).hours() for seed in _seeds(plan)]
                for blind in (False, True)
            }
            pairs = list(zip(runs[True], runs[False], strict=True))
            jct = [blind.average_jct_hours / known.average_jct_hours for blind, known in pairs]
            makespan = [blind.makespan_hours / known.makespan_hours for blind, known in pairs]
            rows += [
                TypesRow(
                    jobs_per_hour=load,
                    policy=contender,
                    knows_types=not blind,
                    seeds=len(records),
                    average_jct_hours=estimate_of([one.average_jct_hours for one in records]),
                    makespan_hours=estimate_of([one.makespan_hours for one in records]),
                    restarts_per_job=estimate_of([one.restarts_per_job for one in records]),
                    average_jct_blind_over_known=estimate_of(jct),
                    makespan_blind_over_known=estimate_of(makespan),
                )
                for blind, records in runs.items()
            ]
    return rows


def _shown(rows: list[TypesRow]) -> Rows:
    """Return a line for each load and policy: hours with types known and not, and the ratio."""
    shown = []
    known = [row for row in rows if row.knows_types]
    blind = [row for row in rows if not row.knows_types]
    for one, other in zip(known, blind, strict=True):
        if one.jobs_per_hour:
            quantity, ratio = "average JCT (h)", one.average_jct_blind_over_known
            hours, blind_hours = one.average_jct_hours, other.average_jct_hours
        else:
            quantity, ratio = "makespan (h)", one.makespan_blind_over_known
            hours, blind_hours = one.makespan_hours, other.makespan_hours
        shown.append(
            {
                "jobs/hour": one.jobs_per_hour or "all at once",
                "policy": one.policy,
                "quantity": quantity,
                "types known": rounded(hours.mean, 4),
                "types equal": rounded(blind_hours.mean, 4),
                "ratio": ratio.text(".2f"),
                "restarts/job": rounded(one.restarts_per_job.mean, 3),
            }
        )
    return shown


def _plot(_: Plan, rows: list[TypesRow]) -> Figure:
    """Draw average completion times by load, known and blind, and makespans of the batch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    lines, bars = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
    for index, name in enumerate(_at(1.0)):
        for knows in (True, False):
            mine = [
                row
                for row in rows
                if row.policy == name and row.knows_types == knows and row.jobs_per_hour
            ]
            lines.plot(
                [row.jobs_per_hour for row in mine],
                [row.average_jct_hours.mean for row in mine],
                color=COLOURS[index],
                linestyle="-" if knows else "--",
                marker="o",
                markersize=4,
                label=name if knows else f"{name}, types equal",
            )
    lines.set_ylim(bottom=0.0)
    lines.set_xticks([load for load in LOADS if load])
    lines.set_xlabel("jobs an hour")
    lines.set_ylabel("average completion time (h)")
    lines.legend(frameon=False, fontsize="small", ncols=2)
    open_axes(lines)
    _plot_makespans([row for row in rows if not row.jobs_per_hour], bars)
    return figure


def _plot_makespans(rows: list[TypesRow], ax: Axes) -> None:
    names = list(dict.fromkeys(row.policy for row in rows))
    for shift, knows in ((-0.2, True), (0.2, False)):
        mine = [row for row in rows if row.knows_types == knows]
        ax.barh(
            [place + shift for place in range(len(names))],
            [row.makespan_hours.mean for row in mine],
            height=0.38,
            color="#0072B2" if knows else "#BBBBBB",
            label="types known" if knows else "types equal",
        )
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("makespan of jobs that are all there at the start (h)")
    ax.legend(frameon=False, fontsize="small")
    open_axes(ax)


GAVEL = Reproduction(
    "gavel: policies that know types of GPU beside those that do not, on Gavel's throughputs",
    _tasks,
    _rows,
    _plot,
    lambda plan: require_gavel_table(plan.artifact),
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
)
