"""Gavel's hierarchical fairness over time: shares of entities beside their weights.

As far as the published figure tells, jobs arrive one by one at three GPUs of each of three types:
six of an entity of weight 1, then six of one of weight 2, then six of one of weight 3. No job ends
in that time. Progress is in units of a job's due, its rate averaged over the GPUs. Beside the
hierarchical policy, under which the jobs of an entity share equally or are served in order, stands
max-min fairness among all jobs, which ignores entities.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 7. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.data.gavel.workload import HOUR, GavelWorkload, draw_gavel_jobs
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.metered_policy import Metered
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.gavel.levels import Levels
from goodalloc.solvers.gavel.policy import Gavel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.gavel.workload import GavelJob
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.solvers.policies.policy import ActiveJob, Policy

#: Three GPUs of each type.
CLUSTER = Cluster(tuple(NodeGroup(kind, 1, 3, kind) for kind in ("v100", "p100", "k80")))

#: Weights of the entities, in the order in which their jobs come, and jobs of each.
WEIGHTS: Mapping[str, float] = {"weight 1": 1.0, "weight 2": 2.0, "weight 3": 3.0}
JOBS_EACH = 6

#: Seconds from one job to the next; after the last one time goes on for as long as for six.
APART = 4 * 3600

#: Of a window over which progress is averaged.
WINDOW = 2 * 3600

SEEDS, QUICK_SEEDS = 3, 1


def entity_of(name: str) -> str:
    """Return the first part of a job's name."""
    return name.partition("/")[0]


def entity(job: ActiveJob) -> str:
    """Return `entity_of` the job."""
    return entity_of(job.name)


CONTENDERS: Mapping[str, Callable[[], Policy]] = {
    "shared equally": lambda: Gavel(Levels(entity, WEIGHTS)),
    "first to last": lambda: Gavel(Levels(entity, WEIGHTS, "fifo")),
    "no entities": lambda: Gavel(Levels()),
}


def jobs_one_by_one(seed: int, rates: RateTable) -> tuple[GavelJob, ...]:
    """Draw jobs of one GPU in the order of their entities, too long to end in time.

    Parameters
    ----------
    seed
        Configuration of the model.
    rates
        Rates of the configurations.
    """
    names = [name for name in WEIGHTS for _ in range(JOBS_EACH)]
    drawn = draw_gavel_jobs(seed, len(names), rates, GavelWorkload(replicas=((1, 1.0),)))
    horizon = (len(names) + JOBS_EACH) * APART
    return tuple(
        job._replace(
            name=f"{name}/{place}",
            submission=float(place * APART),
            steps=horizon * float(rates.alone_rates([job.configuration], [1]).max()),
        )
        for place, (name, job) in enumerate(zip(names, drawn, strict=True))
    )


@dataclass(frozen=True)
class LevelsTask(RecordedTask):
    """One replay; done at once or not at all.

    Parameters
    ----------
    contender
        Key in `CONTENDERS`.
    seed
        Seed of the jobs.
    table
        Folder of the published table; the fitted one if None.
    """

    contender: str
    seed: int
    table: Path | None

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-gavel-levels",
            "version": 1,
            "library": library_version(),
            "contender": self.contender,
            "seed": self.seed,
            "apart": APART,
            "window": WINDOW,
            "table": self.table is not None,
        }

    def work(self, report: Report) -> dict[str, list[float]]:
        """Replay, and return the progress of every entity in each window, in seconds of its due."""
        rates = gavel_rates(self.table)
        jobs = {job.name: job for job in jobs_one_by_one(self.seed, rates)}
        policy = Metered(CONTENDERS[self.contender]())
        simulator = RateSimulator(list(jobs.values()), rates, CLUSTER, policy)
        completion = {one.name: one.completion for one in simulator.run(report)}
        windows = (len(jobs) + JOBS_EACH) * APART // WINDOW
        found = {name: [0.0] * windows for name in WEIGHTS}
        for held in policy.held(completion, simulator.round_seconds):
            if (window := int(held.begin // WINDOW)) < windows:
                known = rates.alone_rates([jobs[held.job].configuration], [1])[0]
                rate = known[rates.types.index(held.gpu_type)] / known.mean()
                found[entity_of(held.job)][window] += float(rate) * (held.end - held.begin)
        return found

    def progress(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Progress over due GPUs, shape (entities, windows)."""
        found = self.record()
        return np.array([found[name] for name in WEIGHTS]) / WINDOW


def _task(plan: Plan, contender: str, seed: int) -> LevelsTask:
    return LevelsTask(plan.folder, contender, seed, plan.artifact).among(
        plan.folder, "gavel-levels"
    )


def _seeds(plan: Plan) -> range:
    return range(QUICK_SEEDS if plan.quick else SEEDS)


def _tasks(plan: Plan) -> list[LevelsTask]:
    return [_task(plan, contender, seed) for contender in CONTENDERS for seed in _seeds(plan)]


def _phase(entities: int) -> slice:
    """Return windows in which all jobs of `entities` entities are active, and no others."""
    windows = APART // WINDOW
    first = (entities * JOBS_EACH - 1) * windows
    return slice(first, first + windows if entities < len(WEIGHTS) else None)


class LevelRow(NamedTuple):
    """Share of the progress of an entity, while `entities` of them have jobs."""

    policy: str
    entities: int
    entity: str
    seeds: int
    weight_percent: float
    share_percent: Estimate
    progress: Estimate


def _rows(plan: Plan) -> list[LevelRow]:
    """Return a row for each policy, number of entities with jobs, and entity."""
    rows = []
    for contender in CONTENDERS:
        for count in range(1, len(WEIGHTS) + 1):
            present = list(WEIGHTS)[:count]
            shares = defaultdict(list)
            totals = []
            for seed in _seeds(plan):
                found = _task(plan, contender, seed).progress()[:, _phase(count)].mean(axis=1)
                totals.append(float(found.sum()))
                for name, part in zip(WEIGHTS, found / found.sum(), strict=True):
                    shares[name].append(100.0 * float(part))
            for name in present:
                rows.append(
                    LevelRow(
                        policy=contender,
                        entities=count,
                        entity=name,
                        seeds=len(totals),
                        weight_percent=rounded(
                            100.0 * WEIGHTS[name] / sum(WEIGHTS[one] for one in present)
                        ),
                        share_percent=estimate_of(shares[name]),
                        progress=estimate_of(totals),
                    )
                )
    return rows


def _shown(rows: list[LevelRow]) -> Rows:
    """Return shares beside weights."""
    return [
        {
            "policy": row.policy,
            "entities": row.entities,
            "entity": row.entity,
            "by weight (%)": f"{row.weight_percent:.1f}",
            "share (%)": row.share_percent.text(),
            "progress of all": row.progress.text(".2f"),
        }
        for row in rows
    ]


def _plot(plan: Plan, _: list[LevelRow]) -> Figure:
    """Draw stacked shares of progress over time; dashed: by the weights of active entities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    panels = figure.subplots(1, len(CONTENDERS), sharey=True)
    weights = np.array(list(WEIGHTS.values()))
    for axes, contender in zip(panels, CONTENDERS, strict=True):
        runs = np.array([_task(plan, contender, seed).progress() for seed in _seeds(plan)])
        parts = 100.0 * (runs / runs.sum(axis=1, keepdims=True)).mean(axis=0)
        hours = np.arange(parts.shape[1]) * WINDOW / HOUR
        axes.stackplot(
            np.append(hours, hours[-1] + WINDOW / HOUR),
            np.append(parts, parts[:, -1:], axis=1),
            step="post",
            labels=list(WEIGHTS),
            colors=COLOURS[:3],
            alpha=0.75,
            linewidth=0.0,
        )
        there = weights[:, None] * (parts > 0)
        due = 100.0 * np.cumsum(there, axis=0) / there.sum(axis=0)
        for line in due[:-1]:
            axes.step(hours, line, where="post", color="black", linestyle="--", linewidth=1.0)
        axes.set_title(contender, fontsize="medium")
        axes.set_xlim(0.0, hours[-1] + WINDOW / HOUR)
        axes.set_ylim(0.0, 100.0)
        axes.set_xlabel("hours")
        open_axes(axes)
    panels[0].set_ylabel("share of the progress (%), dashed: by weight")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


GAVEL_LEVELS = Reproduction(
    "gavel-levels: entities beside their weights under Gavel's hierarchical fairness",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
    require=lambda plan: require_gavel_table(plan.artifact),
)
