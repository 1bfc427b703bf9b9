"""Time and memory of bound and schedule with hindsight, from hundreds of jobs to thousands.

The first two rows are a day as `goodalloc hindsight` looks back at it, with prices of five minutes
and of a round, with the schedule that is replayed and the bound on all replays; in the others the
traces grow. Jobs are those of the generator
(`data/workloads/generator.py`), days of it one after the other: each day has the published eight
hours of submissions. The cluster has nodes in proportion to the jobs a day, so that it is as busy
as the published one.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.generator import PUBLISHED_JOBS, draw_workload
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.day import MOST_FREE, require_sound
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH
from goodalloc.experiments.hindsight.placed_replay import replay_placed
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay_bound.replay_bound import prove_replays
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.hindsight.best_prices import hindsight_bound, stages_to
from goodalloc.solvers.hindsight.free_multipliers import with_free_multipliers
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.reproduction import Plan

DAY = 86400

#: Nodes of four GPUs for the published number of jobs a day.
PUBLISHED_NODES = 16

#: Steps of the search of a schedule where traces grow, and seed of the workloads.
STEPS, SEED = 30, 1


class Size(NamedTuple):
    """Size of a trace, and how closely it is looked at.

    Attributes
    ----------
    jobs, days
        Jobs, and days on which they are submitted.
    interval
        Seconds of constant prices of the bound.
    steps
        Steps of the search of a schedule.
    """

    jobs: int
    days: int
    interval: float
    steps: int = STEPS


SIZES = (
    Size(PUBLISHED_JOBS, 1, 300.0, USUAL_SEARCH.steps),
    Size(PUBLISHED_JOBS, 1, 60.0, USUAL_SEARCH.steps),
    Size(160, 1, 300.0),
    Size(500, 3, 300.0),
    Size(1500, 7, 300.0),
    Size(5000, 7, 300.0),
)
QUICK_SIZES = (Size(80, 1, 600.0), Size(160, 2, 600.0))


class GrowthRow(NamedTuple):
    """Bound and schedule of a trace, processor seconds of each part, and memory of the process.

    Those of the plan that is replayed and of the bound on all replays are 0 where traces grow.
    """

    jobs: int
    days: int
    gpus: int
    interval_s: float
    steps: int
    bound_s: float
    schedule_s: float
    bound_over_schedule: float
    rates_seconds: float
    bound_seconds: float
    multipliers_seconds: float
    proof_seconds: float
    schedule_seconds: float
    plan_seconds: float
    replay_bound_seconds: float
    seconds: float
    peak_mebibytes: int


def peak_mebibytes() -> int:
    """Return the peak memory of this process so far."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kibibytes / (2**20 if sys.platform == "darwin" else 2**10))


def days_of_jobs(size: Size, seed: int) -> tuple[Submission, ...]:
    """Return the jobs of a trace, as many on every day up to one.

    Parameters
    ----------
    size
        Its size.
    seed
        Seed of the first day; the others have the next ones.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.growth import Size, days_of_jobs
    >>> [job.time // 86400 for job in days_of_jobs(Size(5, 2, 300.0), seed=0)]
    [0, 0, 0, 1, 1]
    """
    each, more = divmod(size.jobs, size.days)
    return tuple(
        replace(job, name=f"day-{day}-{job.name}", time=job.time + day * DAY)
        for day in range(size.days)
        for job in draw_workload(seed + day, jobs=each + (day < more))
    )


def growth_row(size: Size, seed: int) -> GrowthRow:
    """Bound all schedules of a trace and find one.

    Parameters
    ----------
    size
        Size of the trace.
    seed
        Seed of its jobs.

    Raises
    ------
    ValueError
        If the schedule is not feasible or below the bound.
    """
    moments = [time.process_time()]
    nodes = max(round(PUBLISHED_NODES * size.jobs / (size.days * PUBLISHED_JOBS)), 1)
    setting = Setting(Cluster.uniform(nodes, 4))
    workload, applications = days_of_jobs(size, seed), profiled_applications()
    problem = replayed_problem(workload, applications, setting)
    moments.append(time.process_time())
    bound = hindsight_bound(problem, stages_to(size.interval))
    moments.append(time.process_time())
    if size.jobs <= MOST_FREE:
        bound = with_free_multipliers(problem, bound)
    moments.append(time.process_time())
    proved = float(bound_document(problem, bound)["bound"])
    moments.append(time.process_time())
    schedule = find_schedule(problem, bound, stop=Stop(iterations=size.steps))
    moments.append(time.process_time())
    if size.steps == USUAL_SEARCH.steps:
        replay_placed(problem, schedule, workload, applications, setting)
        moments.append(time.process_time())
        prove_replays(problem, bound, proved, setting)
        moments.append(time.process_time())
    require_sound(problem, schedule, proved)
    spent = [rounded(end - begin, 3) for begin, end in itertools.pairwise(moments)]
    rates, bounding, free, proof, search, plan, replays = *spent, *[0.0] * (7 - len(spent))
    return GrowthRow(
        jobs=size.jobs,
        days=size.days,
        gpus=4 * nodes,
        interval_s=size.interval,
        steps=size.steps,
        bound_s=rounded(proved, 6),
        schedule_s=rounded(schedule.value, 6),
        bound_over_schedule=rounded(proved / schedule.value, 4),
        rates_seconds=rates,
        bound_seconds=bounding,
        multipliers_seconds=free,
        proof_seconds=proof,
        schedule_seconds=search,
        plan_seconds=plan,
        replay_bound_seconds=replays,
        seconds=rounded(moments[-1] - moments[0], 3),
        peak_mebibytes=peak_mebibytes(),
    )


def _rows(plan: Plan) -> list[GrowthRow]:
    """Return a row for every size, the smallest first: memory is that of the process so far."""
    return [growth_row(size, SEED) for size in (QUICK_SIZES if plan.quick else SIZES)]


def plot_growth(rows: list[GrowthRow]) -> Figure:
    """Draw processor seconds and memory against the jobs, where traces grow."""
    from matplotlib.figure import Figure

    steps = min(row.steps for row in rows)
    rows = [row for row in rows if row.steps == steps]

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    jobs = [row.jobs for row in rows]
    parts = {
        "rates": [row.rates_seconds for row in rows],
        "bound": [row.bound_seconds for row in rows],
        "multipliers of jobs": [row.multipliers_seconds for row in rows],
        "certificate": [row.proof_seconds for row in rows],
        f"schedule, {steps} steps": [row.schedule_seconds for row in rows],
    }
    for index, (label, seconds) in enumerate(parts.items()):
        left.plot(jobs, seconds, MARKERS[index], color=COLOURS[index], label=label, linestyle="-")
    left.set_ylabel("processor seconds")
    left.legend(frameon=False, fontsize="small")
    right.plot(jobs, [row.peak_mebibytes / 1024 for row in rows], "o-", color=COLOURS[0])
    right.set_ylabel("memory (GiB)")
    right.set_ylim(bottom=0.0)
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks(jobs, [f"{number:,}" for number in jobs], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_xlabel("jobs")
        open_axes(ax)
    return figure


GROWTH = Reproduction(
    "hindsight-growth: time and memory of bound and schedule with hindsight, up to 5,000 jobs",
    lambda _: (),
    _rows,
    lambda _, rows: plot_growth(rows),
    ignores=("workloads", "pollux", "seeds", "artifact", "gaps"),
    times=True,
)
