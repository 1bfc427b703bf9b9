"""AlloX and simple rules above the bound on any schedule of their queues.

The queues are those of the study `allox`: jobs come to processors and GPUs, and the rules start
each on one machine, where it stays to its end. No schedule of a queue has a smaller average
completion time than the bound (`goodalloc.solvers.steady_jobs`), whatever it knows of what is to
come, and even if it may pause jobs and move them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.classical.machine_jobs import MACHINES, draw_arrivals
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.studies.classical.allox import ALLOX, LINES, QueueRow, QueueRows
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, above_percent
from goodalloc.experiments.studies.hindsight.steady_bound_task import SteadyBoundTask
from goodalloc.models.hindsight import Configurations, SteadyJobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from goodalloc.data.classical.machine_jobs import Arrivals
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Task

#: Seconds of constant prices.
INTERVAL = 1800.0

#: Queues of every load that are bounded, at most.
QUEUES = 3

NOTE = """\
Per cent above the bound, mean ± 95 %. bound: no schedule is below it, whatever it knows, even if it
pauses and moves jobs."""


class MachineRow(NamedTuple):
    """Rule or bound on one queue.

    Attributes
    ----------
    load
        Arrival rate over the greatest that the machines can sustain.
    seed
        Seed of the queue.
    rule
        Column of the rule in the study `allox`, or the bound.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

    load: float
    seed: int
    rule: str
    average_jct_hours: float
    above_bound_percent: float


@dataclass(frozen=True)
class MachineBoundTask(SteadyBoundTask):
    """Bound on every schedule of a queue; see `SteadyBoundTask`.

    Parameters
    ----------
    jobs, load, seed
        Number of jobs, and load and seed of their arrivals.
    """

    jobs: int
    load: float
    seed: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-machine-bound",
            "version": 1,
            "interval": self.interval,
            "jobs": self.jobs,
            "load": self.load,
            "seed": self.seed,
            "machines": list(MACHINES),
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the queue."""
        return steady_machine_jobs(draw_arrivals(self.seed, self.jobs, self.load), MACHINES)


def steady_machine_jobs(arrivals: Arrivals, machines: tuple[int, ...]) -> SteadyJobs:
    """Return the offline problem of jobs that each need one machine; equal weights, of sum 1.

    Parameters
    ----------
    arrivals
        Jobs with their arrival times and seconds on every type of machine.
    machines
        Machines of every type.
    """
    count = arrivals.time.size

    def configurations(job: int) -> Configurations:
        able = np.isfinite(arrivals.times[job])
        return Configurations(
            f"job-{job}", 1.0 / arrivals.times[job, able], np.eye(able.size)[able]
        )

    return SteadyJobs(
        tuple(map(configurations, range(count))),
        np.arange(count),
        np.ones(count),
        arrivals.time,
        arrivals.time,
        np.full(count, 1.0 / max(count, 1)),
        np.array(machines, dtype=float),
    )


def _replays(plan: Plan) -> Iterator[QueueRows]:
    """Yield the queues by load."""
    for task in ALLOX.tasks(plan):
        assert isinstance(task, QueueRows)
        if task.load is not None and np.isfinite(task.load):
            yield task


def _bounds(plan: Plan, task: QueueRows) -> list[MachineBoundTask]:
    """Return the tasks of the bounds on the first queues of a load, by seed."""
    assert task.load is not None
    return [
        MachineBoundTask(plan.folder, INTERVAL, task.jobs, task.load, seed).among(
            plan.folder, "machine-bound"
        )
        for seed in range(min(task.seeds, QUEUES))
    ]


def _tasks(plan: Plan) -> list[Task]:
    replays = list(_replays(plan))
    return [*replays, *(bound for task in replays for bound in _bounds(plan, task))]


def _rows(plan: Plan) -> list[MachineRow]:
    """Return a row for every load, queue and rule, the bound last."""
    rows = []
    for task in _replays(plan):
        for queue, bound in zip(task.record(), _bounds(plan, task), strict=False):
            least, found = bound.hours(), QueueRow(**queue)
            hours = {rule: found.average(rule) for rule in LINES}
            rows += [
                MachineRow(bound.load, bound.seed, rule, value, above_percent(value, least))
                for rule, value in {**hours, BOUND: least}.items()
            ]
    return rows


def _above(rows: list[MachineRow], rule: str) -> dict[float, list[float]]:
    """Return by how much a rule is above the bound in all queues, by load."""
    found: dict[float, list[float]] = {}
    for row in rows:
        if row.rule == rule:
            found.setdefault(row.load, []).append(row.above_bound_percent)
    return found


def _shown(rows: list[MachineRow]) -> Rows:
    """Return a line for every rule, with a column for every load."""
    return [
        {
            "rule": text,
            **{
                f"load {load:g}": estimate_of(above).text(".0f")
                for load, above in _above(rows, rule).items()
            },
        }
        for rule, text in LINES.items()
    ]


def plot_machines_above(rows: list[MachineRow]) -> Figure:
    """Draw every rule over the bound by load, with the range of the queues.

    Parameters
    ----------
    rows
        Rows of all queues.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    ax = figure.subplots()
    over = {
        text: {
            load: [1.0 + value / 100.0 for value in above]
            for load, above in _above(rows, rule).items()
        }
        for rule, text in LINES.items()
    }
    plot_ranges(ax, over, doubling=False)
    ax.axhline(1.0, color="black", linewidth=0.9)
    ax.set_yscale("log", base=2)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("load")
    ax.set_ylabel("average completion over the bound on any schedule")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


MACHINES_ABOVE = Reproduction(
    "hindsight-machines: AlloX and simple rules above the bound on any schedule",
    _tasks,
    _rows,
    lambda _, rows: plot_machines_above(rows),
    shown=_shown,
    ignores=ALLOX.ignores,
    note=NOTE,
)
