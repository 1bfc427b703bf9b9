"""Overheads that Pollux states: restarts, fits, choices of batch sizes, decisions.

The paper tells that jobs are reallocated every 7 minutes on average and spend 8 % of their run time
in restarts, that a fit of the throughput takes 0.2 s, a choice of the batch size 0.4 ms and a
decision about 1 s. Here the first two are counted in replays of the published workloads, where a
restart takes 30 s; what takes time on a machine is measured on this one, by the clock, after a
first call that is not counted: the fit by L-BFGS-B in JAX, and the published grid of 50 batch sizes
in NumPy, each for one job at a time.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.data.applications.application import packed, profiled_applications
from goodalloc.data.applications.profiles import load_profile
from goodalloc.experiments.replay.job_modes import fit_tables
from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, estimate_of
from goodalloc.experiments.reporting.plots import figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import EACH_POLLUX, EIGHT, Reproduction
from goodalloc.experiments.studies.pollux.published_cases import CASES
from goodalloc.experiments.support.version import library_version
from goodalloc.models.goodput.batch_size import best_batch_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Configurations that a job has measured when its throughput is fitted.
MEASURED = (5, 20)

#: Calls that are timed of each kind and application.
REPETITIONS = 20

STRETCH, DELAY = "minutes between reallocations", "run time in restarts (%)"
POOLED, OF_JOBS = "all jobs together", "mean over jobs"
FIT, CHOICE, DECISION = (
    "seconds of a fit",
    "milliseconds of a batch choice",
    "seconds of a decision",
)

#: Published values by quantity.
PUBLISHED: Mapping[str, float] = {STRETCH: 7.0, DELAY: 8.0, FIT: 0.2, CHOICE: 0.4, DECISION: 1.0}


def measured_times(
    application: Application, configurations: int
) -> dict[tuple[int, int, int], tuple[float, float]]:
    """Return what a job has measured in some configurations, from one GPU up.

    Parameters
    ----------
    application
        Its true behaviour.
    configurations
        Their number: of GPUs, each with the largest and the smallest atomic batch size.

    Returns
    -------
    dict
        Seconds of a pass and of a step, by nodes, GPUs and atomic batch size.
    """
    sizes = (int(application.batch.atomic_maximum), int(application.batch.atomic_minimum))
    found: dict[tuple[int, int, int], tuple[float, float]] = {}
    for index in range(configurations):
        spread, atomic = packed(index // 2 + 1), sizes[index % 2]
        step, synchronisation = application.step_times(spread, atomic)
        found[len(spread), sum(spread), atomic] = (step - synchronisation, step)
    return found


def clock(call: Callable[[], object], repetitions: int) -> list[float]:
    """Return the seconds of each of several calls, after one that is not counted."""
    call()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


@dataclass(frozen=True)
class TimingTask(RecordedTask):
    """Timing of fits and of choices of batch sizes; the record has seconds by kind.

    The jobs are those of the shipped profiles: how long a call takes does not depend on the truth.

    Parameters
    ----------
    repetitions
        Calls of each kind and application.
    """

    repetitions: int = REPETITIONS

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-overheads",
            "version": 1,
            "library": library_version(),
            "repetitions": self.repetitions,
        }

    def work(self, report: Report) -> dict[str, list[float]]:
        """Time each kind of call for every application."""
        found: dict[str, list[float]] = {}
        applications = profiled_applications()
        for done, (name, application) in enumerate(applications.items()):
            for configurations in MEASURED:
                table = measured_times(application, configurations)
                seconds = clock(partial(fit_tables, [table]), self.repetitions)
                found.setdefault(f"{FIT}, {configurations} measured", []).extend(seconds)
            model = load_profile(name).goodput_model(progress=0.5)
            choose = partial(best_batch_size, model, np.array([1]), np.array([4]), "grid")
            seconds = clock(choose, self.repetitions)
            found.setdefault(CHOICE, []).extend(1000.0 * each for each in seconds)
            report((done + 1) / len(applications))
        return found


class PolluxOverheadRow(NamedTuple):
    """An overhead, published and ours.

    Attributes
    ----------
    quantity, part
        What it is, with its unit, and of what.
    published
        Stated in the paper.
    ours
        Mean over the workloads, where it is counted in replays.
    published_within
        Whether the 95 % interval holds the published value; None where there is none.
    clocked, clocked_least, clocked_greatest
        Median, least and greatest by the clock of this machine, where it is measured.
    samples
        Number of workloads or calls.
    """

    quantity: str
    part: str
    published: float
    ours: Estimate
    published_within: bool | None
    clocked: float | None
    clocked_least: float | None
    clocked_greatest: float | None
    samples: int


def replays(plan: Plan, policy: str) -> list[ReplayTask]:
    """Return the replays of the published workloads that Table 2 has, too."""
    return CASES["table2"][0].tasks(plan, policy)


def overheads_of(jobs: pd.DataFrame, delay: float) -> dict[tuple[str, str], float]:
    """Return minutes between reallocations and per cent of the run time in restarts.

    Parameters
    ----------
    jobs
        The jobs of a replay; run time counts from the first GPUs to the end, and the first start as
        a reallocation.
    delay
        Seconds of a restart.
    """
    run = jobs.completion - jobs.start + delay
    starts = jobs.restarts + 1
    return {
        (STRETCH, POOLED): float(run.sum() / starts.sum()) / 60.0,
        (STRETCH, OF_JOBS): float((run / starts).mean()) / 60.0,
        (DELAY, POOLED): 100.0 * delay * float(starts.sum() / run.sum()),
        (DELAY, OF_JOBS): 100.0 * delay * float((starts / run).mean()),
    }


def _rows(plan: Plan) -> list[PolluxOverheadRow]:
    """Return what is counted in the replays of each policy, then what is timed."""
    rows: list[PolluxOverheadRow] = []
    decisions: list[PolluxOverheadRow] = []
    for policy in plan.policies_of(EACH_POLLUX):
        tasks = replays(plan, policy)
        found = [
            overheads_of(pd.read_csv(task.folder / "jobs.csv"), task.setting.restart_delay)
            for task in tasks
        ]
        for quantity, part in found[0]:
            ours = estimate_of([one[quantity, part] for one in found])
            rows.append(_counted(quantity, f"{policy}, {part}", ours, len(tasks)))
        timings = [pd.read_csv(task.folder / "timing.csv").decision_seconds for task in tasks]
        means = [float(seconds.mean()) for seconds in timings]
        decisions.append(_timed(DECISION, f"{policy}, mean of a replay", means))
    timed = _timing(plan).record()
    for name, seconds in timed.items():
        quantity, _, part = name.partition(", ")
        rows.append(_timed(quantity, part or "one job, 50 batch sizes", seconds))
    return rows + decisions


def _counted(quantity: str, part: str, ours: Estimate, samples: int) -> PolluxOverheadRow:
    published = PUBLISHED[quantity]
    within = abs(ours.mean - published) <= ours.half_width if samples > 1 else None
    return PolluxOverheadRow(quantity, part, published, ours, within, None, None, None, samples)


def _timed(quantity: str, part: str, values: list[float]) -> PolluxOverheadRow:
    return PolluxOverheadRow(
        quantity,
        part,
        PUBLISHED[quantity],
        NO_ESTIMATE,
        None,
        rounded(float(np.median(values)), 3),
        rounded(min(values), 3),
        rounded(max(values), 3),
        len(values),
    )


def plot_overheads(rows: list[PolluxOverheadRow]) -> Figure:
    """Draw every overhead over its published value, with its interval or range."""
    ax = new_axes(8.0, 1.4 + 0.42 * len(rows))
    for index, row in enumerate(rows):
        counted = row.clocked is None
        value = row.ours.mean if row.clocked is None else row.clocked
        least, greatest = (
            (value - row.ours.half_width, value + row.ours.half_width)
            if row.clocked_least is None or row.clocked_greatest is None
            else (row.clocked_least, row.clocked_greatest)
        )
        reach = np.nan_to_num(np.array([[value - least], [greatest - value]]))
        ax.errorbar(
            value / row.published,
            index,
            xerr=reach / row.published,
            marker="o" if counted else "s",
            color="#0072B2" if counted else "#E69F00",
            capsize=3,
            linestyle="none",
            label="counted in replays, 95 %" if counted else "by this machine's clock, range",
        )
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_yticks(range(len(rows)), [f"{row.quantity}: {row.part}" for row in rows])
    ax.tick_params(axis="y", labelsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("over the published value")
    handles, names = ax.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    ax.legend(unique.values(), unique.keys(), fontsize="small")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


def _timing(plan: Plan) -> TimingTask:
    task = TimingTask(plan.folder, 3 if plan.quick else REPETITIONS)
    return task.among(plan.folder, "overheads")


def _tasks(plan: Plan) -> list[ReplayTask | TimingTask]:
    found = [task for policy in plan.policies_of(EACH_POLLUX) for task in replays(plan, policy)]
    return [*found, _timing(plan)]


OVERHEADS_POLLUX = Reproduction(
    "overheads-pollux: restarts, fits, batch choices and decisions, published and ours (OSDI'21)",
    _tasks,
    _rows,
    lambda _, rows: plot_overheads(rows),
    workloads=EIGHT,
    quick_workloads=(6,),
    times=True,
)
