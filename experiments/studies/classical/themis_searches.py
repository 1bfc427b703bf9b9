"""Themis on searches of several trials, beside Gandiva, SLAQ and others: its claim on fairness.

Themis's applications have several jobs; its paper reports a fairness more than 2.25 times better
than that of other schedulers, among them Gandiva and SLAQ. Here searches of hyper-parameters are
made of a published or drawn workload: jobs of the four shorter applications become searches of 1 to
16 equal trials, as many jobs as before in all. Themis and the exact max-min bid for whole searches
(`solvers/classical/search_auctions.py`); all other policies see trials as jobs of their own, and so
do Themis and max-min once more. Speeds depend on placement: a trial on several nodes runs at the
rate measured so.

Every search is measured on Themis's own ruler: its completion time, from submission to the end of
its last trial, over that alone on an equal share, the GPUs over the mean number of active searches
(`search_fairness`).

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, mean_active
from goodalloc.solvers.classical.search_auctions import TRIAL, search_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.support.array_types import Floats

#: Applications whose jobs are searches, and the equally probable numbers of their trials.
SEARCHED = ("cifar10", "ncf", "bert", "deepspeech2")
TRIALS = (1, 2, 4, 8, 16)

_PATH = "goodalloc.solvers.classical.search_auctions"


class Way(NamedTuple):
    """Policy, with what it takes for a job and what it is told.

    Attributes
    ----------
    label
        Name in tables and figures.
    policy
        Name for `ReplayTask`.
    bidders
        "searches" or "trials".
    knows
        What it is told of jobs.
    """

    label: str
    policy: str
    bidders: str
    knows: str


THEMIS = Way("themis", f"{_PATH}:themis_between_searches", "searches", "true remaining")

#: Compared policies, Themis first.
WAYS = (
    THEMIS,
    Way("themis-maxmin", f"{_PATH}:maxmin_between_searches", "searches", "true remaining"),
    Way("themis", "themis", "trials", "true remaining"),
    Way("themis-maxmin", "themis-maxmin", "trials", "true remaining"),
    Way("gandiva", "gandiva", "trials", "nothing"),
    Way("slaq", "slaq", "trials", "measured"),
    Way("tiresias", "tiresias", "trials", "nothing"),
    Way("optimus", "optimus", "trials", "true remaining"),
    Way("srtf", "srtf", "trials", "true remaining"),
)


def with_searches(jobs: Sequence[Submission], seed: int) -> tuple[Submission, ...]:
    """Return a workload of as many jobs, in which trials of searches replace single jobs.

    Every search takes the request and the time of one job and the place of the next ones of the
    searched applications. Other jobs stay.

    Parameters
    ----------
    jobs
        The workload, in order of submission.
    seed
        Seed of the numbers of trials.
    """
    random = np.random.default_rng(seed)
    found = [job for job in jobs if job.application not in SEARCHED]
    left = [job for job in jobs if job.application in SEARCHED]
    while left:
        number = min(int(random.choice(TRIALS)), len(left))
        head = left[0]
        found += [replace(head, name=f"{head.name}{TRIAL}{trial}") for trial in range(number)]
        left = left[number:]
    return tuple(sorted(found, key=lambda job: job.time))


def seconds_on_share(
    share: float, trials: int, requested: int, gpus: Floats, seconds: Floats
) -> float:
    r"""Return the seconds that a search needs alone on a share of the cluster.

    All trials run on the same number of GPUs *k*, up to the requested one, as many at a time as the
    share *s* allows; below that, time is shared out. With :math:`t_k` the seconds of a trial,

    .. math:: \min_{k \le r} \; t_k \max\left(1, \frac{n k}{s}\right).

    Parameters
    ----------
    share, trials, requested
        *s*, *n* and *r*.
    gpus, seconds
        Seconds of a trial alone on clusters of so many GPUs, shape (clusters,), in order.
    """
    speed = np.maximum.accumulate(1.0 / seconds)
    tried = np.arange(1, requested + 1)
    alone = 1.0 / np.interp(tried, gpus, speed)
    return float((alone * np.maximum(1.0, trials * tried / share)).min())


def search_fairness(
    jobs: pd.DataFrame,
    submitted: Sequence[Submission],
    gpus: int,
    alone: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """Return submission, completion and finish-time fairness ``rho`` of every search.

    Parameters
    ----------
    jobs
        Rows of ``jobs.csv``.
    submitted
        The workload.
    gpus
        GPUs of the cluster.
    alone
        Tables of `AloneTask` by application and requested batch size.
    """
    table = jobs.assign(search=[search_of(name) for name in jobs.job])
    grouped = table.groupby("search", sort=False)
    found = pd.DataFrame(
        {"submission": grouped.submission.min(), "completion": grouped.completion.max()}
    )
    took = (found.completion - found.submission).to_numpy(float)
    share = gpus / mean_active(found.submission.to_numpy(float), found.completion.to_numpy(float))
    heads = {search_of(job.name): job for job in reversed(submitted)}
    sizes = grouped.size()
    apart = []
    for name, own in zip(found.index, share, strict=True):
        head = heads[str(name)]
        times = alone[f"{head.application}-{head.batch_size}"]
        apart.append(
            seconds_on_share(
                float(own),
                int(sizes[name]),
                head.replicas,
                (times.nodes * times.gpus_per_node).to_numpy(float),
                times.seconds.to_numpy(float),
            )
        )
    return found.assign(rho=took / np.array(apart))


def _workload(plan: Plan, number: int) -> tuple[Submission, ...]:
    return with_searches(plan.workload(number), number)


def _replay(plan: Plan, way: Way, number: int) -> ReplayTask:
    return plan.replay(way.policy, _workload(plan, number))


def _tasks(plan: Plan) -> list[Task]:
    replays = [_replay(plan, way, number) for number in plan.workloads for way in WAYS]
    return [*replays, *alone_tasks(plan, requested=True).values()]


class SearchRow(NamedTuple):
    """Searches of one workload under a policy.

    Attributes
    ----------
    bidders
        What the policy takes for a job: "searches" or "trials".
    median_rho, greatest_rho, above_1_percent, jains_index
        Finish-time fairness of the searches: median, maximum, share above 1, Jain's index.
    ratio
        Greatest finish-time fairness over that under Themis between searches.
    average_hours
        Average completion time of the searches.
    """

    workload: int
    policy: str
    bidders: str
    knows: str
    batch: str
    searches: int
    jobs: int
    median_rho: float
    greatest_rho: float
    above_1_percent: float
    jains_index: float
    ratio: float
    average_hours: float
    gpu_hours: float
    restarts_per_job: float


def _rows(plan: Plan) -> list[SearchRow]:
    """Return a row for every workload and policy."""
    from goodalloc.experiments.studies.classical.themis_replay import jains_index

    alone = {
        label: pd.read_csv(task.file) for label, task in alone_tasks(plan, requested=True).items()
    }
    rows = []
    for number in plan.workloads:
        found = {}
        for way in WAYS:
            task = _replay(plan, way, number)
            jobs = pd.read_csv(task.folder / "jobs.csv")
            gpus = task.setting.cluster.num_gpus
            found[way] = jobs, search_fairness(jobs, task.workload, gpus, alone)
        for way, (jobs, searches) in found.items():
            rho = searches.rho.to_numpy(float)
            completion = (searches.completion - searches.submission).to_numpy(float)
            rows.append(
                SearchRow(
                    workload=number,
                    policy=way.label,
                    bidders=way.bidders,
                    knows=way.knows,
                    batch="requested",
                    searches=rho.size,
                    jobs=len(jobs),
                    median_rho=rounded(float(np.median(rho)), 4),
                    greatest_rho=rounded(float(rho.max()), 4),
                    above_1_percent=rounded(100.0 * float((rho > 1.0).mean()), 4),
                    jains_index=rounded(jains_index(rho), 4),
                    ratio=rounded(float(rho.max() / found[THEMIS][1].rho.max()), 4),
                    average_hours=rounded(float(completion.mean()) / HOUR, 4),
                    gpu_hours=rounded(float(jobs.attained_service.sum()) / HOUR, 4),
                    restarts_per_job=rounded(float(jobs.restarts.mean()), 4),
                )
            )
    return rows


class SearchSummary(NamedTuple):
    """Means over the workloads with 95 % intervals.

    Attributes
    ----------
    gpu_time_percent
        GPU time beyond that under Themis between searches, paired by workload.
    """

    policy: str
    bidders: str
    knows: str
    batch: str
    workloads: int
    greatest_rho: Estimate
    ratio: Estimate
    median_rho: Estimate
    above_1_percent: Estimate
    jains_index: Estimate
    average_hours: Estimate
    gpu_time_percent: Estimate
    restarts_per_job: Estimate


def summarise_searches(rows: list[SearchRow]) -> list[SearchSummary]:
    """Return a line for every policy and what it takes for a job."""
    own = [row for row in rows if (row.policy, row.bidders) == (THEMIS.label, THEMIS.bidders)]
    lines = []
    for policy, bidders in dict.fromkeys((row.policy, row.bidders) for row in rows):
        group = [row for row in rows if (row.policy, row.bidders) == (policy, bidders)]
        more = [
            100.0 * (one.gpu_hours / themis.gpu_hours - 1.0)
            for one, themis in zip(group, own, strict=True)
        ]
        lines.append(
            SearchSummary(
                policy=policy,
                bidders=bidders,
                knows=group[0].knows,
                batch=group[0].batch,
                workloads=len(group),
                greatest_rho=estimate_of([row.greatest_rho for row in group]),
                ratio=estimate_of([row.ratio for row in group]),
                median_rho=estimate_of([row.median_rho for row in group]),
                above_1_percent=estimate_of([row.above_1_percent for row in group]),
                jains_index=estimate_of([row.jains_index for row in group]),
                average_hours=estimate_of([row.average_hours for row in group]),
                gpu_time_percent=estimate_of(more),
                restarts_per_job=estimate_of([row.restarts_per_job for row in group]),
            )
        )
    return lines


def _shown(rows: list[SearchRow]) -> Rows:
    """Return the table that people read."""
    return [
        {
            "policy": line.policy,
            "bidders": line.bidders,
            "knows": line.knows,
            "batch": line.batch,
            "workloads": line.workloads,
            "greatest rho": line.greatest_rho.text(".1f"),
            "over Themis": line.ratio.text(".2f"),
            "median rho": line.median_rho.text(".2f"),
            "above 1 (%)": line.above_1_percent.text(".0f"),
            "Jain": line.jains_index.text(".2f"),
            "average (h)": line.average_hours.text(".2f"),
            "GPU time (%)": line.gpu_time_percent.text("+.1f"),
            "restarts": line.restarts_per_job.text(".1f"),
        }
        for line in summarise_searches(rows)
    ]


def _plot(_: Plan, rows: list[SearchRow]) -> Figure:
    """Draw the greatest fairness over Themis's, a dot for every workload and a bar for the mean."""
    from goodalloc.experiments.studies.classical.themis_replay import PUBLISHED_RATIO

    lines = summarise_searches(rows)
    ax = new_axes(7.5, 1.4 + 0.4 * len(lines))
    for place, line in enumerate(lines):
        colour = COLOURS[0] if line.bidders == "searches" else COLOURS[1]
        group = [row for row in rows if (row.policy, row.bidders) == (line.policy, line.bidders)]
        ax.barh(place, line.ratio.mean, height=0.6, color=colour, alpha=0.5)
        ax.plot([row.ratio for row in group], [place] * len(group), "o", color=colour, markersize=4)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.axvline(PUBLISHED_RATIO, color="0.5", linestyle="--", linewidth=1.0, label="published")
    ax.set_yticks(range(len(lines)), [f"{line.policy}, {line.bidders}" for line in lines])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ticks = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("greatest finish-time fairness ρ of a search over that under Themis")
    ax.legend(frameon=False, fontsize="small")
    return figure_of(ax)


THEMIS_SEARCHES = Reproduction(
    "Themis on searches of several trials, beside Gandiva, SLAQ and others",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
