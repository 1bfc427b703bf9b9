"""AlloX (EuroSys'20): what its matching is worth, on processors and GPUs, at once and in a queue.

Jobs are drawn (`data/classical/machine_jobs.py`) and started by AlloX and by the obvious rules
(`machine_queue.py`). Load is the arrival rate over the greatest at which machines keep up. In
batches all jobs are there at the start, and AlloX's total is the least one there is. A third set of
rows times the matching, its proof, and the linear program of the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

#: Jobs of a workload, how many are drawn, and how much of the time the machines have work.
JOBS, SEEDS = 500, 8
LOADS = (0.5, 0.75, 1.0, 1.5, 2.0)

#: Jobs that are there at once.
BATCHES = (30, 100, 300)

#: Jobs and machines of each of three types where the clock runs, half of these being busy.
SIZES = {50: 5, 100: 10, 200: 20, 500: 50}

#: The largest linear program that is solved beside the matching, in jobs.
LARGEST_PROGRAM = 200

#: Rules by the name of their column.
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

#: Lines of the picture: column, label.
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


def queue_row(jobs: int, load: float, seed: int) -> dict[str, Any]:
    """What every rule makes of one workload: average and 99th percentile, in hours."""
    arrivals, kinds = draw_arrivals(seed, jobs, load), np.repeat([0, 1], MACHINES)
    row: dict[str, Any] = {
        "case": "batch" if np.isinf(load) else "queue",
        "jobs": jobs,
        "seed": seed,
        "load": "" if np.isinf(load) else load,
    }
    if np.isinf(load):
        found = least_total_completion(UnrelatedMachines.idle(arrivals.times, MACHINES))
        row["bound"] = rounded(found.bound / jobs / 3600.0, 10)
    for name, rule in RULES.items():
        hours = replay_queue(arrivals, kinds, rule) / 3600.0
        row[name] = rounded(float(hours.mean()), 10)
        row[f"{name}_p99"] = rounded(float(np.quantile(hours, 0.99)))
    return row


def clock_row(jobs: int, seed: int) -> dict[str, Any]:
    """Seconds of the matching and of the linear program on one problem, and its gap."""
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
    row = {
        "case": "clock",
        "jobs": jobs,
        "machines": kinds.size,
        "seed": seed,
        "places": len(places_of(problem).machine),
        "all_places": jobs * kinds.size,
        "allox": rounded(total_completion(problem, schedule) / jobs / 3600.0, 10),
        "bound": rounded(found.bound / jobs / 3600.0, 10),
        "gap": found.gap,
        "match_seconds": rounded(seconds, 3),
        "proof_seconds": rounded(found.seconds, 3),
    }
    if jobs <= LARGEST_PROGRAM:
        begin = time.perf_counter()
        program = build_matching(problem)
        outcome = run_relaxation(program, np.ones(program.num_columns, dtype=bool), Watch(Stop()))
        row["program_seconds"] = rounded(time.perf_counter() - begin, 3)
        row["program"] = rounded(outcome.objective / jobs / 3600.0, 10)
    return row


@dataclass(frozen=True)
class QueueRows(RecordedTask):
    """The rows of one workload size and load, or of one size under the clock.

    Parameters
    ----------
    jobs, seeds
        The size, and how many are drawn.
    load
        None for the clock, infinite for jobs that are all there at once.
    """

    jobs: int
    seeds: int
    load: float | None

    def description(self) -> dict[str, Any]:
        """Everything that the rows depend on."""
        load = self.load
        return {
            "format": "goodalloc-allox",
            "version": 1,
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
        """Draw and replay all workloads."""
        rows: Rows = []
        for seed in range(self.seeds):
            if self.load is None:
                rows.append(clock_row(self.jobs, seed))
            else:
                rows.append(queue_row(self.jobs, self.load, seed))
            report(len(rows) / self.seeds)
        return rows


def _tasks(plan: Plan) -> list[QueueRows]:
    """A task for every load, batch and size; two small workloads of most if quick."""
    seeds, jobs = (2, 150) if plan.quick else (SEEDS, JOBS)
    batches, sizes = (
        [size for size in many if not plan.quick or size <= 100] for many in (BATCHES, SIZES)
    )
    tasks = [QueueRows(plan.folder, jobs, seeds, load) for load in LOADS]
    tasks += [QueueRows(plan.folder, size, seeds, np.inf) for size in batches]
    tasks += [QueueRows(plan.folder, size, seeds, None) for size in sizes]
    return [task.among(plan.folder, "allox") for task in tasks]


def _rows(plan: Plan) -> Rows:
    """A row for every workload, blank where a column is of other cases."""
    rows: Rows = []
    for task in _tasks(plan):
        rows += task.record()
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, "") for name in columns} for row in rows]


#: What columns of tables call rules of the CSV.
SHORT = {"fair": "DRF", "fair_best": "DRF_best"}

NOTE = """\
x: a rule's average completion time over AlloX's; best: on a job's best kind of machine only; below
DRF: how far AlloX's average is below dominant resource fairness's, on average and at most; p99: the
99th percentile of AlloX's completion times over that of DRF's."""


def below(row: Mapping[str, Any], rule: str) -> float:
    """How far AlloX's average completion time is below that of a rule, in per cent."""
    return float(100.0 * (1.0 - row["allox"] / row[rule]))


def summarise_queues(rows: Rows) -> Rows:
    """A row for every load and batch: AlloX's hours, and those of the others over these."""
    shown = []
    for case in ("queue", "batch"):
        of_case = [row for row in rows if row["case"] == case]
        for load, jobs in sorted({(row["load"], row["jobs"]) for row in of_case}):
            group = [r for r in of_case if (r["load"], r["jobs"]) == (load, jobs)]
            ratios = {
                f"{SHORT.get(name, name)}_x": float(
                    np.mean([row[name] / row["allox"] for row in group])
                )
                for name in RULES
                if name != "allox"
            }
            tails = {
                f"p99_x_{SHORT[name]}": float(
                    np.mean([row["allox_p99"] / row[f"{name}_p99"] for row in group])
                )
                for name in SHORT
            }
            less = [below(row, "fair") for row in group]
            shown.append(
                {
                    "case": case,
                    "load": load,
                    "jobs": jobs,
                    "workloads": len(group),
                    "allox_hours": rounded(float(np.mean([row["allox"] for row in group])), 3),
                    **{name: rounded(value, 3) for name, value in ratios.items()},
                    "below_DRF_%": rounded(float(np.mean(less)), 3),
                    "most_%": rounded(max(less), 3),
                    "published_most_%": PUBLISHED,
                    **{name: rounded(value, 3) for name, value in tails.items()},
                }
            )
    return shown


def plot_queues(rows: Rows) -> Figure:
    """Average and 99th percentile of completion times over the load; seconds of a matching."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    average, tail, clock = figure.subplots(1, 3)
    queues = [row for row in rows if row["case"] == "queue"]
    for ax, suffix, label in ((average, "", "average"), (tail, "_p99", "99th percentile of the")):
        plot_ranges(
            ax,
            {
                text: {
                    load: [row[f"{name}{suffix}"] for row in queues if row["load"] == load]
                    for load in sorted({row["load"] for row in queues})
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
    timed = [row for row in rows if row["case"] == "clock"]
    plot_ranges(
        clock,
        {
            label: {
                jobs: [
                    row[name] for row in timed if row["jobs"] == jobs and row.get(name, "") != ""
                ]
                for jobs in sorted({row["jobs"] for row in timed if row.get(name, "") != ""})
            }
            for name, label in (
                ("match_seconds", "matching"),
                ("proof_seconds", "matching and proof"),
                ("program_seconds", "linear program"),
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
