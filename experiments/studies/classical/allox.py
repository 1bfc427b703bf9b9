"""AlloX beside simple queueing rules: completion times on processors and GPUs.

Jobs are drawn (`data/classical/machine_jobs.py`) and started by AlloX and by the simple rules of
`machine_queue.py`. The load is the arrival rate over the greatest rate that the machines can
sustain. In batches all jobs are present at the start, and AlloX's total completion time is the
minimum. A third set of rows times the matching, its optimality proof, and the equivalent linear
program.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020.
    doi:10.1145/3342195.3387547
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.classical.machine_jobs import (
    MACHINES,
    MEDIAN,
    MOST_SPEEDUP,
    SPREAD,
    draw_arrivals,
)
from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.classical.machine_queue import (
    allox,
    dominant_share,
    first_come,
    on_best_type,
    shortest_first,
)
from goodalloc.experiments.studies.classical.machine_queue import replay as replay_queue
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.formulations.classical.allox import build_matching, places_of
from goodalloc.models.classical.unrelated_machines import UnrelatedMachines, total_completion
from goodalloc.solvers.classical.matching import least_total_completion, match_jobs
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_relaxation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.classical.machine_queue import Rule
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Jobs in each workload, workloads drawn for each load, and the loads.
JOBS, SEEDS = 500, 8
LOADS = (0.5, 0.75, 1.0, 1.5, 2.0)

#: Jobs that are all present at the start.
BATCHES = (30, 100, 300)

#: Machines of each of three types by the jobs of a timed problem; half of the machines are busy.
SIZES = {50: 5, 100: 10, 200: 20, 500: 50}

#: Most jobs for which the linear program is solved beside the matching.
LARGEST_PROGRAM = 200

#: Rules by the names of their columns.
RULES: Mapping[str, Rule] = {
    "allox": allox(),
    "allox_half": allox(0.5),
    "allox_tenth": allox(0.1),
    "allox_free": allox(busy=False),
    "shortest": shortest_first,
    "shortest_best": on_best_type(shortest_first),
    "fifo": first_come,
    "fair": dominant_share,
    "fair_best": on_best_type(dominant_share),
}

#: Labels of the curves by the rule's column.
LINES = {
    "allox": "AlloX",
    "allox_half": "AlloX, α = 0.5",
    "allox_tenth": "AlloX, α = 0.1",
    "shortest": "shortest first",
    "shortest_best": "shortest, best kind",
    "fifo": "first come",
    "fair": "DRF",
    "fair_best": "DRF, best kind",
}

#: How much lower AlloX's average completion time is at high load, in per cent, as published.
PUBLISHED = 95.0


class QueueRow(NamedTuple):
    """Outcome of one workload under every rule, or the timing of one matching.

    Completion times are in hours: an average under a rule's name, and the 99th percentile.
    A column is None in the cases that do not measure it.

    Attributes
    ----------
    case
        "queue" (jobs arrive), "batch" (all jobs are present at the start) or "clock" (timing).
    bound
        Proved lower bound on the average completion time, in hours.
    places, all_places
        Columns of the matching after and before reduction.
    program
        Average completion time by the linear program, in hours.
    """

    case: str
    jobs: int
    seed: int
    load: float | None = None
    allox: float = math.nan
    allox_p99: float | None = None
    allox_half: float | None = None
    allox_half_p99: float | None = None
    allox_tenth: float | None = None
    allox_tenth_p99: float | None = None
    allox_free: float | None = None
    allox_free_p99: float | None = None
    shortest: float | None = None
    shortest_p99: float | None = None
    shortest_best: float | None = None
    shortest_best_p99: float | None = None
    fifo: float | None = None
    fifo_p99: float | None = None
    fair: float | None = None
    fair_p99: float | None = None
    fair_best: float | None = None
    fair_best_p99: float | None = None
    bound: float | None = None
    machines: int | None = None
    places: int | None = None
    all_places: int | None = None
    gap: float | None = None
    match_seconds: float | None = None
    proof_seconds: float | None = None
    program_seconds: float | None = None
    program: float | None = None

    def average(self, rule: str) -> float:
        """Return the average completion time under `rule`, in hours."""
        return float(getattr(self, rule))

    def tail(self, rule: str) -> float:
        """Return the 99th percentile of the completion times under `rule`, in hours."""
        return float(getattr(self, f"{rule}_p99"))


def queue_row(jobs: int, load: float, seed: int) -> QueueRow:
    """Replay one drawn workload under every rule; an infinite `load` is a batch."""
    arrivals, kinds = draw_arrivals(seed, jobs, load), np.repeat([0, 1], MACHINES)
    batch = bool(np.isinf(load))
    bound = None
    if batch:
        found = least_total_completion(UnrelatedMachines.idle(arrivals.times, MACHINES))
        bound = rounded(found.bound / jobs / 3600.0, 10)
    times: dict[str, Any] = {}
    for name, rule in RULES.items():
        hours = replay_queue(arrivals, kinds, rule) / 3600.0
        times[name] = rounded(float(hours.mean()), 10)
        times[f"{name}_p99"] = rounded(float(np.quantile(hours, 0.99)))
    case = "batch" if batch else "queue"
    return QueueRow(case, jobs, seed, load=None if batch else load, bound=bound, **times)


def clock_row(jobs: int, seed: int) -> QueueRow:
    """Time the matching, its proof and the linear program on one drawn problem."""
    random = np.random.default_rng([seed, jobs])
    counts = [SIZES[jobs]] * 3
    kinds = np.repeat(np.arange(3), counts)
    gpu = MEDIAN * random.lognormal(0.0, SPREAD, (jobs, 1))
    times = gpu * np.exp(random.uniform(0.0, np.log(MOST_SPEEDUP), (jobs, 3)))
    ready = MEDIAN * random.random(kinds.size) * random.integers(0, 2, kinds.size)
    problem = UnrelatedMachines(times, kinds, ready, np.zeros(jobs))
    begin = time.perf_counter()
    schedule = match_jobs(problem)
    seconds = time.perf_counter() - begin
    found = least_total_completion(problem)
    row = QueueRow(
        "clock",
        jobs,
        seed,
        machines=kinds.size,
        places=len(places_of(problem).machine),
        all_places=jobs * kinds.size,
        allox=rounded(total_completion(problem, schedule) / jobs / 3600.0, 10),
        bound=rounded(found.bound / jobs / 3600.0, 10),
        gap=found.gap,
        match_seconds=rounded(seconds, 3),
        proof_seconds=rounded(found.seconds, 3),
    )
    if jobs > LARGEST_PROGRAM:
        return row
    begin = time.perf_counter()
    program = build_matching(problem)
    outcome = run_relaxation(program, np.ones(program.num_columns, dtype=bool), Watch(Stop()))
    return row._replace(
        program_seconds=rounded(time.perf_counter() - begin, 3),
        program=rounded(outcome.objective / jobs / 3600.0, 10),
    )


@dataclass(frozen=True)
class QueueRows(RecordedTask):
    """Task that replays workloads of one size and load, or times matchings of one size.

    Parameters
    ----------
    jobs, seeds
        Jobs in each workload, and the number of workloads drawn.
    load
        Load of the machines; None to time matchings, infinite for batches.
    """

    jobs: int
    seeds: int
    load: float | None

    def description(self) -> dict[str, Any]:
        """Return all inputs that the rows depend on."""
        load = self.load
        return {
            "format": "goodalloc-allox",
            "version": 2,
            "library": library_version(),
            "jobs": self.jobs,
            "seeds": self.seeds,
            "rules": list(RULES),
            "seconds": [MEDIAN, SPREAD, MOST_SPEEDUP],
            "largest_program": LARGEST_PROGRAM,
            "load": "clock" if load is None else "batch" if np.isinf(load) else load,
            "machines": [SIZES[self.jobs]] * 3 if load is None else list(MACHINES),
        }

    def work(self, report: Report) -> Rows:
        """Draw and replay all workloads, or time all matchings."""
        rows: Rows = []
        for seed in range(self.seeds):
            if self.load is None:
                rows.append(clock_row(self.jobs, seed)._asdict())
            else:
                rows.append(queue_row(self.jobs, self.load, seed)._asdict())
            report(len(rows) / self.seeds)
        return rows


def _tasks(plan: Plan) -> list[QueueRows]:
    """Return a task for every load, batch and timed size; fewer and smaller ones if quick."""
    seeds, jobs = (2, 150) if plan.quick else (SEEDS, JOBS)
    batches, sizes = (
        [size for size in many if not plan.quick or size <= 100] for many in (BATCHES, SIZES)
    )
    tasks = [QueueRows(plan.folder, jobs, seeds, load) for load in LOADS]
    tasks += [QueueRows(plan.folder, size, seeds, np.inf) for size in batches]
    tasks += [QueueRows(plan.folder, size, seeds, None) for size in sizes]
    return [task.among(plan.folder, "allox") for task in tasks]


def _rows(plan: Plan) -> list[QueueRow]:
    """Return a row for every workload and timed problem."""
    return [QueueRow(**row) for task in _tasks(plan) for row in task.record()]


#: Names of rules in the summary table, where they differ from the CSV's columns.
SHORT = {"fair": "DRF", "fair_best": "DRF_best"}

NOTE = """\
x: a rule's average completion time over AlloX's; best: on a job's best kind of machine only; below
DRF: how far AlloX's average is below dominant resource fairness's, on average and at most; p99: the
99th percentile of AlloX's completion times over that of DRF's."""


def below_percent(row: QueueRow, rule: str) -> float:
    """Return by how much AlloX's average completion time is below that of `rule`, in per cent."""
    return 100.0 * (1.0 - row.allox / row.average(rule))


def summarise_queues(rows: list[QueueRow]) -> Rows:
    """Return a row for every load and batch: AlloX's hours, and the other rules' over these."""
    shown = []
    for case in ("queue", "batch"):
        of_case = [row for row in rows if row.case == case]
        for load, jobs in sorted({(row.load or 0.0, row.jobs) for row in of_case}):
            group = [row for row in of_case if (row.load or 0.0, row.jobs) == (load, jobs)]
            ratios = {
                f"{SHORT.get(name, name)}_x": float(
                    np.mean([row.average(name) / row.allox for row in group])
                )
                for name in RULES
                if name != "allox"
            }
            tails = {
                f"p99_x_{SHORT[name]}": float(
                    np.mean([row.tail("allox") / row.tail(name) for row in group])
                )
                for name in SHORT
            }
            less = [below_percent(row, "fair") for row in group]
            shown.append(
                {
                    "case": case,
                    "load": load or "",
                    "jobs": jobs,
                    "workloads": len(group),
                    "allox_hours": rounded(float(np.mean([row.allox for row in group])), 3),
                    **{name: rounded(value, 3) for name, value in ratios.items()},
                    "below_DRF_%": rounded(float(np.mean(less)), 3),
                    "most_%": rounded(max(less), 3),
                    "published_most_%": PUBLISHED,
                    **{name: rounded(value, 3) for name, value in tails.items()},
                }
            )
    return shown


def plot_queues(rows: list[QueueRow]) -> Figure:
    """Draw average and 99th percentile of completion times over the load; seconds of a matching."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    average, tail, clock = figure.subplots(1, 3)
    queues = [row for row in rows if row.case == "queue"]
    for ax, hours, label in (
        (average, QueueRow.average, "average"),
        (tail, QueueRow.tail, "99th percentile of the"),
    ):
        plot_ranges(
            ax,
            {
                text: {
                    load: [hours(row, name) for row in queues if row.load == load]
                    for load in sorted({row.load for row in queues if row.load is not None})
                }
                for name, text in LINES.items()
            },
            doubling=False,
        )
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.set_xlabel("load")
        ax.set_ylabel(f"{label} completion time (h)")
    figure.legend(
        *average.get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False
    )
    timed = [row for row in rows if row.case == "clock"]
    plot_ranges(
        clock,
        {
            label: {
                jobs: [second for row in timed if row.jobs == jobs and (second := of(row))]
                for jobs in sorted({row.jobs for row in timed if of(row)})
            }
            for label, of in (
                ("matching", attrgetter("match_seconds")),
                ("matching and proof", attrgetter("proof_seconds")),
                ("linear program", attrgetter("program_seconds")),
            )
        },
    )
    clock.set_yscale("log")
    clock.yaxis.set_major_formatter("{x:g}")
    clock.set_xlabel("jobs, on 0.3 machines each")
    clock.set_ylabel("seconds")
    clock.legend(frameon=False)
    return figure


ALLOX = Reproduction(
    "AlloX (EuroSys'20): the least completion times on processors and GPUs",
    _tasks,
    _rows,
    lambda _, rows: plot_queues(rows),
    shown=summarise_queues,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    note=NOTE,
)
