"""Gavel's programs exactly, its bisection, and POP's split of them (OSDI'20, SOSP'21).

Rounds of Gavel's generator, all jobs there at once on a quarter as many GPUs of each of three
types, are decided for max-min fairness, makespan, finish-time fairness, average completion time and
throughput: exactly with a certificate; by the published bisection where the goal is a worst delay;
and in 2 to 16 parts, whose loss is against the whole. Jobs of one GPU are also *packed*: any two
that can share a GPU may do so, under max-min fairness, with pairs that come in by price. Seconds
are those of the solver; building and translating a program stands apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.data.gavel.workload import PUBLISHED, GavelWorkload, draw_gavel_jobs
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.models.gavel.share_goal import (
    Worst,
    completion_time,
    finish_time,
    makespan,
    max_min,
    throughput,
)
from goodalloc.models.gavel.time_sharing import TimeSharing, isolated_shares, largest_rates, rates
from goodalloc.solvers.gavel.bisection import makespan_by_bisection
from goodalloc.solvers.gavel.pop import solve_in_parts
from goodalloc.solvers.gavel.time_shares import best_shares, best_shares_with_pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.support.array_types import Floats, Indices


#: Jobs of a round, seeds of each size, and into how many parts it is split.
SIZES, SEEDS, PARTS = (32, 128, 512, 2048), 3, (2, 4, 8, 16)
PACKED_SIZES = (128, 256, 512)
QUICK_SIZES, QUICK_SEEDS = (32, 128), 1

#: Jobs that can be packed: two that share GPUs take one each.
ONE_GPU = GavelWorkload(replicas=((1, 1.0),))

#: Jobs for every GPU of a type.
CROWD = 4


def gavel_round(
    jobs: int, seed: int, table: Path | None, *, packed: bool = False
) -> tuple[TimeSharing, Floats]:
    """Jobs that share GPUs in time, and the steps that they have left.

    Parameters
    ----------
    jobs, seed
        Of Gavel's generator.
    table
        Folder of the published table; the fitted one if None.
    packed
        Whether any two that can share a GPU may do so; all jobs then take one.
    """
    known = gavel_rates(table)
    drawn = draw_gavel_jobs(seed, jobs, known, ONE_GPU if packed else PUBLISHED)
    replicas = [job.replicas for job in drawn]
    configurations = [job.configuration for job in drawn]
    alone = known.alone_rates(configurations, replicas)
    gpus = [max(jobs // CROWD, max(replicas))] * len(known.types)
    pairs = np.stack(np.triu_indices(jobs, 1), axis=1)[: None if packed else 0]
    paired = known.pair_rates(configurations, replicas, pairs)
    able = np.any(np.all(paired > 0, axis=2), axis=1)
    sharing = TimeSharing(
        [job.name for job in drawn], alone, gpus, replicas, pairs[able], paired[able]
    )
    return sharing, np.array([job.steps for job in drawn])


def goals_of(steps: Floats, seed: int) -> dict[str, Callable[[TimeSharing, Indices], Goal]]:
    """The goals of some jobs of a round; some have been there for a while.

    Parameters
    ----------
    steps
        That every job of the round has left.
    seed
        Of the time that each has been there.
    """
    waited = np.random.default_rng([seed, 1]).uniform(0.0, 1e5, steps.size)

    def fairness(sharing: TimeSharing, jobs: Indices) -> Worst:
        alone = steps[jobs] / rates(sharing, isolated_shares(sharing))
        return finish_time(steps[jobs], waited[jobs], waited[jobs] + alone)

    return {
        "max-min": lambda sharing, _: max_min(sharing),
        "makespan": lambda _, jobs: makespan(steps[jobs]),
        "finish-time": fairness,
        "completion": lambda _, jobs: completion_time(steps[jobs], waited[jobs]),
        "throughput": lambda sharing, _: throughput(sharing, largest_rates(sharing)),
    }


class ShareRow(NamedTuple):
    """Answer of one way to a goal in one round; times are of the solver, loss and gap relative."""

    jobs: int
    seed: int
    goal: str
    way: str
    value: float
    loss: float
    gap: float | None
    programs: int
    solve_seconds: float
    longest_seconds: float
    build_seconds: float


def share_rows(jobs: int, seed: int, table: Path | None, *, packed: bool = False) -> list[ShareRow]:
    """Return a row for each goal and way; where jobs are packed, of max-min fairness.

    Parameters
    ----------
    jobs, seed, table, packed
        As of `gavel_round`.
    """
    sharing, steps = gavel_round(jobs, seed, table, packed=packed)
    everybody, rows = np.arange(jobs), list[ShareRow]()
    for name, make in goals_of(steps, seed).items():
        if packed and name != "max-min":
            continue
        goal = make(sharing, everybody)
        best = best_shares_with_pairs(sharing, goal) if packed else best_shares(sharing, goal)
        found = {"exact": (best, best.solve_seconds)}
        if isinstance(goal, Worst):
            bisected = makespan_by_bisection(sharing, goal)
            found["bisection"] = bisected, bisected.solve_seconds
        for parts in PARTS:
            if parts <= sharing.gpus.min():
                for even, how in ((False, "parts"), (True, "even parts")):
                    split = solve_in_parts(sharing, make, parts, seed, even=even)
                    found[f"{parts} {how}"] = split.result, max(split.seconds)
        for way, (result, longest) in found.items():
            better = result.value / best.value
            rows.append(
                ShareRow(
                    jobs=jobs,
                    seed=seed,
                    goal=f"{name}, packed" if packed else name,
                    way=way,
                    value=rounded(result.value, 9),
                    loss=rounded(1.0 - better if goal.larger_is_better else better - 1.0, 9),
                    gap=rounded(best.gap, 3) if way == "exact" else None,
                    programs=result.programs,
                    solve_seconds=rounded(result.solve_seconds, 3),
                    longest_seconds=rounded(longest, 3),
                    build_seconds=rounded(result.build_seconds, 3),
                )
            )
    return rows


@dataclass(frozen=True)
class TimeShareGaps(RecordedTask):
    """All goals of one round; done at once or not at all.

    Parameters
    ----------
    jobs, seed, table, packed
        As of `gavel_round`.
    """

    jobs: int
    seed: int
    table: Path | None
    packed: bool = False

    def description(self) -> dict[str, Any]:
        """Everything that the rows depend on."""
        return {
            "format": "goodalloc-time-share-gaps",
            "version": 1,
            "library": library_version(),
            "jobs": self.jobs,
            "seed": self.seed,
            "parts": list(PARTS),
            "ways": 2,
            "crowd": CROWD,
            "table": self.table is not None,
            "packed": self.packed,
        }

    def work(self, report: Report) -> Rows:
        """Draw the round and decide it."""
        rows = share_rows(self.jobs, self.seed, self.table, packed=self.packed)
        report(1.0)
        return table_of(rows)


def _tasks(plan: Plan) -> list[TimeShareGaps]:
    sizes = QUICK_SIZES if plan.quick else SIZES
    packed_sizes = QUICK_SIZES if plan.quick else PACKED_SIZES
    return [
        TimeShareGaps(plan.folder, jobs, seed, plan.artifact, packed).among(
            plan.folder, "time-shares"
        )
        for packed, many in ((False, sizes), (True, packed_sizes))
        for jobs in many
        for seed in range(QUICK_SEEDS if plan.quick else SEEDS)
    ]


def _rows(plan: Plan) -> list[ShareRow]:
    """Return the recorded rows; a blank gap of a record is None."""
    return [
        ShareRow(**{**row, "gap": None if row["gap"] == "" else row["gap"]})
        for task in _tasks(plan)
        for row in task.record()
    ]


#: A loss in per cent that is the solver's tolerance.
TOLERANCE = 1e-4

NOTE = """\
worst gap: proved, of the exact way; loss: against that, 0 within the solver's tolerance; programs:
so many were solved. Gavel's bisection ends within 5 % of a bound: where fair shares of all GPUs
are that near at the start, as they may be for finish-time fairness, it solves none."""


def summarise_time_shares(rows: list[ShareRow]) -> Rows:
    """A line a size, goal and way: worst gap or mean loss, and median milliseconds."""
    shown = []
    for key in dict.fromkeys((row.jobs, row.goal, row.way) for row in rows):
        mine = [row for row in rows if (row.jobs, row.goal, row.way) == key]
        losses = [_loss(row) for row in mine]
        exact = key[2] == "exact"
        shown.append(
            {
                "jobs": key[0],
                "goal": key[1],
                "way": key[2],
                "worst gap": f"{max(row.gap or 0.0 for row in mine):.0e}" if exact else "",
                "loss (%)": "" if exact else rounded(float(np.mean(losses)), 3),
                "worst loss (%)": "" if exact else rounded(max(losses), 3),
                "programs": mine[0].programs,
                **{
                    f"{part} ms": _milliseconds(seconds)
                    for part, seconds in (
                        ("build", [row.build_seconds for row in mine]),
                        ("solve", [row.solve_seconds for row in mine]),
                        ("longest", [row.longest_seconds for row in mine]),
                    )
                },
            }
        )
    return shown


def _loss(row: ShareRow) -> float:
    """Return the loss of `row` in per cent, 0 within the solver's tolerance."""
    loss = 100.0 * float(row.loss)
    return 0.0 if abs(loss) < TOLERANCE else loss


def _milliseconds(seconds: list[float]) -> float:
    """Return the median of `seconds` in milliseconds."""
    return rounded(1e3 * float(np.median(seconds)), 3)


def _plot(_: Plan, rows: list[ShareRow]) -> Figure:
    """Loss by parts; seconds by jobs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    losses, seconds = figure.subplots(1, 2)
    sizes = sorted({row.jobs for row in rows})
    for index, jobs in enumerate(sizes):
        for how, style in (("parts", "-"), ("even parts", ":")):
            means = {
                parts: float(np.mean([100.0 * row.loss for row in mine]))
                for parts in PARTS
                if (
                    mine := [
                        row
                        for row in rows
                        if (row.jobs, row.goal) == (jobs, "max-min") and row.way == f"{parts} {how}"
                    ]
                )
            }
            if not means:  # only packed
                continue
            losses.plot(
                list(means),
                list(means.values()),
                style,
                color=COLOURS[index],
                marker=MARKERS[index],
                markersize=4.5,
                label=f"{jobs} jobs" if style == "-" else None,
            )
    logarithmic(losses, "x", base=2)
    losses.set_xticks(PARTS, [str(parts) for parts in PARTS])
    losses.set_xlabel("parts")
    losses.set_ylabel("loss of max-min fairness (%), dotted: even parts")
    losses.legend(frameon=False, fontsize="small")
    open_axes(losses)
    for index, goal in enumerate(dict.fromkeys(row.goal for row in rows)):
        for way, style in (("exact", "-"), ("bisection", "--")):
            known = {
                jobs: [
                    row.solve_seconds
                    for row in rows
                    if (row.jobs, row.goal, row.way) == (jobs, goal, way)
                ]
                for jobs in sizes
            }
            medians = {jobs: float(np.median(found)) for jobs, found in known.items() if found}
            if any(value > 0 for value in medians.values()):
                seconds.plot(
                    list(medians),
                    list(medians.values()),
                    style,
                    color=COLOURS[index],
                    marker=MARKERS[index],
                    markersize=4.5,
                    label=goal if way == "exact" else f"{goal}, bisection",
                )
    logarithmic(seconds, "x", base=2)
    seconds.set_yscale("log")
    seconds.set_xticks(sizes, [str(size) for size in sizes])
    seconds.set_xlabel("jobs")
    seconds.set_ylabel("solver (s)")
    seconds.legend(frameon=False, fontsize="small")
    open_axes(seconds)
    return figure


TIME_SHARES = Reproduction(
    "time-shares: Gavel's programs exactly, by bisection, and split as by POP",
    _tasks,
    _rows,
    _plot,
    shown=summarise_time_shares,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
    times=True,
    note=NOTE,
    require=lambda plan: require_gavel_table(plan.artifact),
)
