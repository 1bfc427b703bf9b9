"""SLAQ (SoCC'17) against fair shares: quality over time, delays, and how far its greedy is off.

Jobs whose losses fall (`data/classical/loss_jobs.py`) arrive 15 s apart on average and share cores,
which are decided every 3 s (`loss_cluster.py`): in equal shares; by SLAQ's greedy; by the same
gains exactly; and by the greedy with falls in units of the first loss. Quality is what is left of
the fall of a loss, the mean over the jobs that are there and over the time until the last one
arrives; delays are the seconds from a job's arrival until so much of its fall is behind it. The
paper has 73 % better quality and 44 % less delay on average, "up to"; which delay could not be
read, and beside it stands that to 90 %. Three cases: many cores, few, and few on machines of 32,
between which exchange takes time, so that gains are not concave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.classical.loss_jobs import draw_loss_jobs
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate
from goodalloc.experiments.reporting.plots import COLOURS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.classical.loss_cluster import (
    INTERVAL,
    LEVELS,
    RULES,
    run_cluster,
)
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.classical.loss_cluster import Course
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report


class Case(NamedTuple):
    """What the jobs share.

    Attributes
    ----------
    title
        What pictures call it.
    cores
        How many there are.
    machines
        Whether exchange between machines takes time.
    """

    title: str
    cores: int
    machines: bool = False


CASES = {
    "many": Case("960 cores", 960),
    "few": Case("640 cores", 640),
    "machines": Case("640 cores on machines of 32", 640, machines=True),
}

#: Jobs of a run, and seeds; both if quick.
JOBS, SEEDS = 120, range(8)
QUICK_JOBS, QUICK_SEEDS = 24, range(4)

#: Quality and delay against fair shares as published, in per cent.
PUBLISHED = {"quality": 73.0, "delay": -44.0}

#: Of the delays, the one that stands beside the published.
DELAY = 0.9

#: Seconds for which the picture shows one mean.
BIN = 30.0

LABELS = {
    "fair": "fair shares",
    "slaq": "SLAQ's greedy",
    "slaq-exact": "the same, exact",
    "slaq-first-loss": "greedy, by the first loss",
}


def delay_column(level: float) -> str:
    """The column of the delay to a level."""
    return f"delay_{round(100 * level)}_seconds"


def course_row(course: Course, last_arrival: float) -> dict[str, Any]:
    """What a run comes to.

    Parameters
    ----------
    course
        The run.
    last_arrival
        Until then quality counts, in seconds.
    """
    busy = course.times <= max(last_arrival, float(course.times[0]))
    delays = course.delays.mean(axis=0)
    gaps, seconds = (values[~np.isnan(values)] for values in (course.gaps, course.seconds))
    columns = [*map(delay_column, LEVELS), "completion_seconds"]
    return {
        "loss": rounded(float(course.loss[busy].mean())),
        "active_jobs": rounded(float(course.active[busy].mean())),
        **{
            name: rounded(float(delay))
            for name, delay in zip(columns, delays.tolist(), strict=True)
        },
        "decisions": len(course.times),
        "gap_mean": rounded(float(gaps.mean())) if gaps.size else "",
        "gap_max": rounded(float(gaps.max())) if gaps.size else "",
        "decision_seconds": rounded(float(np.median(seconds)), 2) if seconds.size else "",
    }


def binned(course: Course, end: float) -> list[float]:
    """Mean quality of every half minute until the end, NaN where nobody was there."""
    found = []
    for begin in np.arange(0.0, end, BIN):
        inside = (course.times > begin) & (course.times <= begin + BIN)
        found.append(float(course.loss[inside].mean()) if inside.any() else math.nan)
    return found


@dataclass(frozen=True)
class QualityTask(RecordedTask):
    """All rules on the jobs of one seed; done at once or not at all.

    Parameters
    ----------
    case
        Which of `CASES`.
    jobs, seed
        Of `draw_loss_jobs`.
    """

    case: str
    jobs: int
    seed: int

    def description(self) -> dict[str, Any]:
        """Everything that the rows depend on."""
        return {
            "format": "goodalloc-slaq-quality",
            "version": 1,
            "library": library_version(),
            "case": self.case,
            "cores": CASES[self.case].cores,
            "jobs": self.jobs,
            "machines": CASES[self.case].machines,
            "seed": self.seed,
            "rules": list(RULES),
            "interval": INTERVAL,
            "levels": list(LEVELS),
            "bin": BIN,
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Run the jobs under every rule."""
        _, cores, machines = CASES[self.case]
        jobs = draw_loss_jobs(self.seed, self.jobs, machines=machines)
        end = jobs[-1].arrival
        rows: Rows = []
        courses: dict[str, list[float | None]] = {}
        for number, (name, rule) in enumerate(RULES.items()):
            course = run_cluster(
                jobs,
                cores,
                rule,
                lambda share, before=number: report((before + share) / len(RULES)),  # type: ignore[misc]
            )
            rows.append(
                {
                    "case": self.case,
                    "cores": cores,
                    "jobs": self.jobs,
                    "seed": self.seed,
                    "rule": name,
                    **course_row(course, end),
                }
            )
            courses[name] = [None if math.isnan(v) else rounded(v) for v in binned(course, end)]
        return {"rows": rows, "courses": courses}

    def found(self) -> dict[str, Any]:
        """What was written."""
        document: dict[str, Any] = self.record()
        return document


def _tasks(plan: Plan) -> list[QualityTask]:
    """A task for every case and seed."""
    jobs, seeds = (QUICK_JOBS, QUICK_SEEDS) if plan.quick else (JOBS, SEEDS)
    tasks = [QualityTask(plan.folder, case, jobs, seed) for case in CASES for seed in seeds]
    return [task.among(plan.folder, "slaq") for task in tasks]


def _rows(plan: Plan) -> Rows:
    """A row for every case, seed and rule."""
    return [row for task in _tasks(plan) for row in task.found()["rows"]]


def change(rows: Rows, case: str, rule: str, column: str) -> dict[str, float]:
    """By how much a column is above that of fair shares, in per cent: mean and half-width.

    Parameters
    ----------
    rows
        Of several seeds.
    case, rule, column
        Which of them.
    """
    found = {
        (row["seed"], row["rule"]): row[column]
        for row in rows
        if row["case"] == case and row["rule"] in (rule, "fair")
    }
    seeds = sorted({seed for seed, _ in found})
    return estimate([100.0 * (found[s, rule] / found[s, "fair"] - 1.0) for s in seeds])


def _plus_minus(found: dict[str, float]) -> str:
    return f"{found['mean']:.0f} ± {found['half_width']:.0f}"


def summarise(rows: Rows) -> Rows:
    """A row for every case and rule: means over the seeds, and changes against fair shares."""
    shown = []
    for case in dict.fromkeys(row["case"] for row in rows):
        for rule in dict.fromkeys(row["rule"] for row in rows):
            group = [row for row in rows if (row["case"], row["rule"]) == (case, rule)]
            compared = rule != "fair"
            loss, delay = (
                change(rows, case, rule, column) for column in ("loss", delay_column(DELAY))
            )
            gaps = [row["gap_mean"] for row in group if row["gap_mean"] != ""]
            worst = [row["gap_max"] for row in group if row["gap_max"] != ""]
            shown.append(
                {
                    "case": CASES[case].title,
                    "rule": rule,
                    "loss": _mean(group, "loss"),
                    "quality_%": _plus_minus({**loss, "mean": -loss["mean"]}) if compared else "",
                    "published_%": PUBLISHED["quality"] if rule == "slaq" else "",
                    **{
                        f"to_{round(100 * level)}_s": _mean(group, delay_column(level))
                        for level in LEVELS
                    },
                    "to_90_%": _plus_minus(delay) if compared else "",
                    "published_delay_%": PUBLISHED["delay"] if rule == "slaq" else "",
                    "end_s": _mean(group, "completion_seconds"),
                    "mean_gap": rounded(float(np.mean(gaps)), 2) if gaps else "",
                    "worst_gap": rounded(max(worst), 2) if worst else "",
                }
            )
    return shown


def _mean(rows: Rows, column: str) -> float:
    return rounded(float(np.mean([row[column] for row in rows])), 3)


def _plot(plan: Plan, rows: Rows) -> Figure:
    """Quality over time above, delays below, one column a case."""
    from matplotlib.figure import Figure

    tasks = _tasks(plan)
    figure = Figure(figsize=(4.6 * len(CASES), 7.2), layout="constrained")
    above, below = figure.subplots(2, len(CASES), squeeze=False)
    for (name, case), upper, lower in zip(CASES.items(), above, below, strict=True):
        _plot_quality(upper, [task.found()["courses"] for task in tasks if task.case == name])
        upper.set_title(case.title, fontsize="medium")
        _plot_delays(lower, [row for row in rows if row["case"] == name])
    above[0].legend(frameon=False, fontsize="small")
    return figure


def _plot_quality(ax: Axes, courses: Sequence[dict[str, list[float | None]]]) -> None:
    """What is left of the falls over time, means over the seeds that go on so long."""
    length = min(len(next(iter(course.values()))) for course in courses)
    minutes = (np.arange(length) + 0.5) * BIN / 60.0
    for index, (rule, label) in enumerate(LABELS.items()):
        left = np.array([course[rule][:length] for course in courses], dtype=float)
        known = ~np.isnan(left)
        mean = np.where(known, left, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        ax.plot(
            minutes,
            np.where(known.any(axis=0), 100.0 * mean, np.nan),
            label=label,
            color=COLOURS[index],
            linestyle=STYLES[index % len(STYLES)],
            linewidth=1.5,
        )
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("minutes")
    ax.set_ylabel("left of the falls of the losses (%)")
    open_axes(ax)


def _plot_delays(ax: Axes, rows: Rows) -> None:
    """Seconds to every level and to the end: means over the seeds with 95 % intervals."""
    columns = [*map(delay_column, LEVELS), "completion_seconds"]
    width = 0.8 / len(LABELS)
    for index, (rule, label) in enumerate(LABELS.items()):
        found = [estimate([r[c] for r in rows if r["rule"] == rule]) for c in columns]
        ax.bar(
            np.arange(len(columns)) + (index - (len(LABELS) - 1) / 2) * width,
            [one["mean"] for one in found],
            width,
            yerr=[one["half_width"] for one in found],
            label=label,
            color=COLOURS[index],
            capsize=2,
            error_kw={"linewidth": 0.9},
        )
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xticks(range(len(columns)), [*(f"{round(100 * level)} %" for level in LEVELS), "end"])
    ax.set_xlabel("of the fall behind it")
    ax.set_ylabel("seconds from arrival")
    open_axes(ax)


SLAQ = Reproduction(
    "slaq: quality and delays of SLAQ, greedy and exact, against fair shares (SoCC'17)",
    _tasks,
    _rows,
    _plot,
    shown=summarise,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
)
