"""Gavel's cost policy: dollars spent and deadlines missed.

Jobs arrive at 36 GPUs of each of three types that are rented by the second, at Google's prices at
the time of the paper. The deadline of a job is 1.2, 2 or 10 times its duration on its fastest type.
The measures are the total cost of all jobs and the missed deadlines. One workload follows the
published experiment as far as it is described, jobs of ResNet-50 and A3C that take half a day to
eight days; two are of Gavel's generator, with spare GPUs and without. All jobs take one GPU, since
the cost of spread gangs would hide the differences.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 7. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.data.gavel.workload import HOUR, GavelWorkload, draw_deadlines, draw_gavel_jobs
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.metered_policy import Metered
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.studies.gavel.replay import NODES, cluster_of
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.gavel.cost import PRICES, PerDollar
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.policies.queueing import TypedQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.solvers.policies.policy import Policy

    Deadlines = Mapping[str, float]


class Case(NamedTuple):
    """Jobs of a replay, and how many; quick ones."""

    workload: GavelWorkload
    jobs: int
    quick_jobs: int


#: Powers of ten of the minutes that half a day and eight days have.
_DAYS = (math.log10(0.5 * 24 * 60), math.log10(8 * 24 * 60))

#: By what tells them apart.
CASES: Mapping[str, Case] = {
    "two models": Case(
        GavelWorkload(
            0.4, ((1, 1.0),), short_share=1.0, short=_DAYS, families=("ResNet-50", "A3C")
        ),
        120,
        15,
    ),
    "GPUs to spare": Case(GavelWorkload(2.0, ((1, 1.0),)), 200, 25),
    "GPUs scarce": Case(GavelWorkload(100.0, ((1, 1.0),)), 300, 25),
}

#: Policies, made of the deadlines.
CONTENDERS: Mapping[str, Callable[[Deadlines], Policy]] = {
    "throughput": lambda _: Gavel("throughput"),
    "per dollar": lambda _: Gavel(PerDollar()),
    "per dollar, deadlines": lambda deadlines: Gavel(PerDollar(deadlines=deadlines)),
    "per dollar, all or none": lambda deadlines: Gavel(
        PerDollar(deadlines=deadlines, dropped="all")
    ),
    "per dollar, no margin": lambda deadlines: Gavel(PerDollar(deadlines=deadlines, margin=0.0)),
    "max-min": lambda _: Gavel(),
    "makespan": lambda _: Gavel("makespan"),
    "queue": lambda _: TypedQueue(),
}

#: As reported, of the first case: by how much less a policy spends than throughput does, and which
#: part of the deadlines it misses, in per cent.
PUBLISHED: Mapping[str, tuple[str, str]] = {
    "per dollar": ("1.4", "35"),
    "per dollar, deadlines": ("", "0"),
}

SEEDS, QUICK_SEEDS = 3, 1


@dataclass(frozen=True)
class CostTask(RecordedTask):
    """One replay; done at once or not at all.

    Parameters
    ----------
    case, contender
        Keys in `CASES` and `CONTENDERS`.
    jobs, seed
        Seed of the generator.
    table
        Folder of the published table; the fitted one if None.
    """

    case: str
    contender: str
    jobs: int
    seed: int
    table: Path | None

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-gavel-cost",
            "version": 1,
            "library": library_version(),
            "workload": repr(CASES[self.case].workload),
            "contender": self.contender,
            "jobs": self.jobs,
            "seed": self.seed,
            "prices": dict(PRICES),
            "table": self.table is not None,
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Replay."""
        rates = gavel_rates(self.table)
        jobs = draw_gavel_jobs(self.seed, self.jobs, rates, CASES[self.case].workload)
        deadlines = draw_deadlines(self.seed, jobs, rates)
        policy = Metered(CONTENDERS[self.contender](deadlines))
        simulator = RateSimulator(jobs, rates, cluster_of(NODES), policy)
        done = {one.name: one for one in simulator.run(report)}
        completion = {name: one.completion for name, one in done.items()}
        gpu_hours = dict.fromkeys(rates.types, 0.0)
        for held in policy.held(completion, simulator.round_seconds):
            gpu_hours[held.gpu_type] += held.gpus * (held.end - held.begin) / HOUR
        late = [completion[name] - deadline for name, deadline in deadlines.items()]
        return {
            "dollars": sum(PRICES[kind] * hours for kind, hours in gpu_hours.items()),
            "gpu_hours": gpu_hours,
            "missed_percent": 100.0 * float(np.mean(np.array(late) > 0)),
            "average_jct": float(np.mean([one.jct for one in done.values()])) / HOUR,
        }


def _task(plan: Plan, case: str, contender: str, seed: int) -> CostTask:
    _, jobs, quick_jobs = CASES[case]
    task = CostTask(
        plan.folder, case, contender, quick_jobs if plan.quick else jobs, seed, plan.artifact
    )
    return task.among(plan.folder, "gavel-cost")


def _seeds(plan: Plan) -> range:
    return range(QUICK_SEEDS if plan.quick else SEEDS)


def _tasks(plan: Plan) -> list[CostTask]:
    return [
        _task(plan, case, contender, seed)
        for case in CASES
        for contender in CONTENDERS
        for seed in _seeds(plan)
    ]


class CostRow(NamedTuple):
    """Cost and missed deadlines of a policy in a case, over all seeds."""

    case: str
    policy: str
    seeds: int
    jobs: int
    dollars: Estimate
    missed_percent: Estimate
    average_jct_hours: Estimate
    times_cheaper: Estimate
    v100_hours: float
    p100_hours: float
    k80_hours: float


def _rows(plan: Plan) -> list[CostRow]:
    """Return a row for each case and policy."""
    rows = []
    for case in CASES:
        runs = {
            name: [_task(plan, case, name, seed).record() for seed in _seeds(plan)]
            for name in CONTENDERS
        }
        for name, records in runs.items():
            hours = {
                kind: rounded(float(np.mean([record["gpu_hours"][kind] for record in records])))
                for kind in records[0]["gpu_hours"]
            }
            cheaper = [
                most["dollars"] / record["dollars"]
                for most, record in zip(runs["throughput"], records, strict=True)
            ]
            rows.append(
                CostRow(
                    case=case,
                    policy=name,
                    seeds=len(records),
                    jobs=_task(plan, case, name, 0).jobs,
                    dollars=estimate_of([record["dollars"] for record in records]),
                    missed_percent=estimate_of([record["missed_percent"] for record in records]),
                    average_jct_hours=estimate_of([record["average_jct"] for record in records]),
                    times_cheaper=estimate_of(cheaper),
                    v100_hours=hours["v100"],
                    p100_hours=hours["p100"],
                    k80_hours=hours["k80"],
                )
            )
    return rows


def _shown(rows: list[CostRow]) -> Rows:
    """Return dollars, their ratio to those of throughput, and missed deadlines."""
    shown = []
    for row in rows:
        reported = PUBLISHED.get(row.policy, ("", "")) if row.case == "two models" else ("", "")
        cheaper, missed = reported
        shown.append(
            {
                "case": row.case,
                "policy": row.policy,
                "dollars": rounded(row.dollars.mean, 4),
                "times cheaper": row.times_cheaper.text(".2f"),
                "reported": cheaper,
                "missed (%)": row.missed_percent.text(),
                "reported (%)": missed,
                "average JCT (h)": row.average_jct_hours.text(),
            }
        )
    return shown


def _plot(_: Plan, rows: list[CostRow]) -> Figure:
    """Draw missed deadlines over dollars, a panel for each case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    panels = figure.subplots(1, len(CASES), sharey=True, squeeze=False)[0]
    for axes, case in zip(panels, CASES, strict=True):
        mine = [row for row in rows if row.case == case]
        for index, row in enumerate(mine):
            axes.errorbar(
                row.dollars.mean / 1e3,
                row.missed_percent.mean,
                fmt=MARKERS[index],
                xerr=_width(row.dollars) / 1e3,
                yerr=_width(row.missed_percent),
                color=COLOURS[index],
                markersize=7,
                markerfacecolor="none",
                elinewidth=0.8,
                label=row.policy,
            )
        axes.set_title(f"{case}: {mine[0].jobs} jobs", fontsize="medium")
        axes.set_xlim(0.0, 1.08 * axes.get_xlim()[1])
        axes.set_xlabel("thousand dollars")
        open_axes(axes)
    panels[0].set_ylim(bottom=-2.0)
    panels[0].set_ylabel("deadlines missed (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _width(found: Estimate) -> float:
    """Return half the width of an interval, 0 where none is known."""
    return float(np.nan_to_num(found.half_width))


GAVEL_COST = Reproduction(
    "gavel-cost: dollars and deadlines under Gavel's policies",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
    require=lambda plan: require_gavel_table(plan.artifact),
)
