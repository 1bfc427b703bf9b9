"""Configurations that jobs measure in a day and fits of their models, by what they know.

An agent fits its throughput model anew whenever its job has measured a configuration that is new to
it: a number of nodes, of GPUs and of examples. Measurements of earlier jobs are fitted once, when
the job starts, and save it from taking its own. (To predict from similar jobs the pool is fitted,
too, a few times a day, which is not counted.) Replays are made in memory to count both.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, sections 4.1 and 5.3.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.paired_comparison import Way
from goodalloc.experiments.studies.pollux.scenario import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.experiments.replay.simulator import Simulator
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Report

#: Seconds of a fit as Pollux's paper states them.
PUBLISHED_SECONDS = 0.2

#: Kinds of knowledge of jobs that start.
EXPLORED = "explored"
WAYS = tuple(Way(one, setting={"knowledge": one}) for one in (EXPLORED, "history", "similar"))


class FitRow(NamedTuple):
    """Measured configurations and fits of a workload, means over its jobs.

    Attributes
    ----------
    workload, jobs
        Number of the workload, and of its jobs.
    knowledge
        What jobs know when they start.
    measured
        Configurations that a job measured itself.
    fits
        Fits of its agent.
    measured_change_percent, fits_change_percent
        Their changes from jobs that explore.
    fit_seconds
        Seconds of the fits at the published time of one.
    """

    workload: int
    jobs: int
    knowledge: str
    measured: float
    fits: float
    measured_change_percent: float
    fits_change_percent: float
    fit_seconds: float


class Counted(NamedTuple):
    """Configurations that the jobs of a replay measured themselves, and fits of their agents."""

    measured: int
    fits: int


def count_fits(simulator: Simulator, report: Report = lambda _: None) -> Counted:
    """Run a replay to its end, and count what its agents measure and fit.

    Parameters
    ----------
    simulator
        A replay.
    report
        Callback for the share that is done.
    """
    taught: dict[tuple[str, str], int] = {}
    while not simulator.finished:
        waiting = [job for job in simulator.jobs if job.restarts is None]
        simulator.step()
        report(simulator.share_done)
        # a job that a round starts trains only in the next one: all that it has is from others
        taught |= {key: number for job in waiting for key, number in _configurations(job)}
    every = dict(one for job in simulator.jobs for one in _configurations(job))
    measured = sum(every.values()) - sum(taught.values())
    return Counted(measured, measured + sum(number > 0 for number in taught.values()))


def _configurations(job: SimulatedJob) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the name of a job with each type of GPU, and the configurations known there."""
    for gpu_type, found in job.measured.items():
        yield (job.submission.name, gpu_type), len(found.times)


@dataclass(frozen=True)
class FitsTask(RecordedTask):
    """Task that counts the fits of a replay; see `RecordedTask`.

    Parameters
    ----------
    replay
        The replay.
    """

    replay: ReplayTask

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-counted-fits",
            "version": 1,
            "replay": self.replay.description(),
        }

    def work(self, report: Report) -> dict[str, int]:
        """Run the replay in memory."""
        from goodalloc.experiments.replay.simulator import Simulator  # not needed to describe it

        one = self.replay
        simulator = Simulator(one.workload, one.applications, one.made_policy(), one.setting)
        return count_fits(simulator, report)._asdict()


def _task(plan: Plan, number: int, way: Way) -> FitsTask:
    """Return the task of a workload under a kind of knowledge."""
    (replay,) = way.tasks(plan, PUBLISHED, number)
    return FitsTask(plan.folder, replay).among(plan.folder, "fits")


def _rows(plan: Plan) -> list[FitRow]:
    """Return a row for every workload and kind of knowledge."""
    rows = []
    for number in plan.workloads:
        tasks = {way.label: _task(plan, number, way) for way in WAYS}
        found = {label: Counted(**task.record()) for label, task in tasks.items()}
        jobs, base = len(tasks[EXPLORED].replay.workload), found[EXPLORED]
        rows += [
            FitRow(
                number,
                jobs,
                label,
                rounded(own.measured / jobs, 6),
                rounded(own.fits / jobs, 6),
                rounded(100.0 * (own.measured / base.measured - 1.0), 6),
                rounded(100.0 * (own.fits / base.fits - 1.0), 6),
                rounded(PUBLISHED_SECONDS * own.fits / jobs, 6),
            )
            for label, own in found.items()
        ]
    return rows


def mean_fits(rows: list[FitRow]) -> Rows:
    """Return the means over the workloads, with 95 % intervals.

    Parameters
    ----------
    rows
        Rows of all workloads.
    """
    columns = {
        "measured": ("measured", ".1f"),
        "change (%)": ("measured_change_percent", "+.0f"),
        "fits": ("fits", ".1f"),
        "of fits (%)": ("fits_change_percent", "+.0f"),
        "seconds": ("fit_seconds", ".2f"),
    }
    found: Rows = []
    for way in WAYS:
        group = [row for row in rows if row.knowledge == way.label]
        estimates = {
            name: estimate_of([getattr(row, field) for row in group]).text(form)
            for name, (field, form) in columns.items()
        }
        found.append({"knowledge": way.label, "workloads": len(group)} | estimates)
    return found


def plot_fits(rows: list[FitRow]) -> Figure:
    """Draw the configurations that a job measures in every workload, by what it knows.

    Parameters
    ----------
    rows
        Rows of all workloads.
    """
    numbers = [*dict.fromkeys(row.workload for row in rows)]
    ax = new_axes(6.4, 1.6 + 0.3 * len(numbers))
    for index, way in enumerate(WAYS):
        ax.plot(
            [row.measured for row in rows if row.knowledge == way.label],
            range(len(numbers)),
            marker=MARKERS[index],
            color=COLOURS[index],
            linestyle="none",
            label=way.label,
        )
    ax.set_yticks(range(len(numbers)), [f"workload {number}" for number in numbers])
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("configurations that a job measures itself, mean")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


COUNTED_FITS = Reproduction(
    "What jobs measure in a day, and fits of their models, by what they know at the start",
    lambda plan: [_task(plan, number, way) for number in plan.workloads for way in WAYS],
    _rows,
    lambda _, rows: plot_fits(rows),
    shown=mean_fits,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
