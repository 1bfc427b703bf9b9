"""heSRPT beside other ways to share servers: mean flow time over the minimum.

Jobs with heavy-tailed sizes are all present at the start and share one power-law speedup, so that
the minimal total flow time is known in closed form. The other policies are simulated as fluids:
equal shares, which also maximise the sum of speedups; the smallest job alone (SRPT); HELL, by
speedup squared over GPUs and remaining size, and Optimus's marginal gain in remaining time, both in
the limit of small parts of a server (our reading); and on whole GPUs rounded heSRPT, Optimus's
steps, and equal shares.

References
----------
Berg et al., "heSRPT: Parallel scheduling to minimize mean slowdown", Performance Evaluation 2020.
    doi:10.1016/j.peva.2020.102147
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.models.classical.fluid import fluid_completion_times
from goodalloc.models.classical.hesrpt import hesrpt_shares, least_flow_time
from goodalloc.solvers.classical.hesrpt import whole_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.support.array_types import Floats


#: Exponents p of the speedup k^p.
POWERS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

#: Numbers of jobs, GPUs, workloads drawn for each, and exponent of the Pareto tail of the sizes.
JOBS, GPUS, SEEDS, TAIL = (16, 64, 256), 64, 20, 1.5

#: Decisions of policies that depend on remaining sizes, until heSRPT would have finished.
DECISIONS = 400

#: Published advantage of heSRPT over the others, in per cent.
PUBLISHED = 30.0


def equal(left: Floats, power: float) -> Floats:
    """Return equal shares, which maximise the sum of speedups where all have one power."""
    return np.full(left.size, GPUS / left.size)


def smallest(left: Floats, power: float) -> Floats:
    """Give all GPUs to the job with the least remaining size (SRPT)."""
    return np.where(np.arange(left.size) == left.size - 1, float(GPUS), 0.0)


def hell(left: Floats, power: float) -> Floats:
    """Equalise the marginal ``s(k)^2 / (k x)`` of all jobs below p = 1/2, else SRPT.

    With ``s(k) = k^p`` that is ``k^(2p - 1) / x``, which falls with *k* below 1/2 only.
    """
    if power >= 0.5:
        return smallest(left, power)
    size = np.log(left) / (2.0 * power - 1.0)
    return _in_proportion(size)


def optimus(left: Floats, power: float) -> Floats:
    """Minimise the sum of remaining times ``x / k^p`` under fixed shares: k as ``x^(1/(1+p))``."""
    return _in_proportion(np.log(left) / (1.0 + power))


def _in_proportion(logarithm: Floats) -> Floats:
    part = np.exp(logarithm - logarithm.max())
    return np.asarray(GPUS * part / part.sum())


def hesrpt_whole(left: Floats, power: float) -> Floats:
    """Round heSRPT's shares to whole GPUs by the largest remainder."""
    most = np.full(left.size, GPUS)
    return whole_shares(hesrpt_shares(left.size, power), GPUS, most).astype(float)


def optimus_whole(left: Floats, power: float) -> Floats:
    """Give each of the smallest jobs a GPU, then each next GPU where it saves the most time."""
    given = np.zeros(left.size)
    given[-GPUS:] = 1.0

    def saving(job: int) -> tuple[float, int]:
        held = given[job]
        return float(left[job] * ((held + 1.0) ** -power - held**-power)), job

    waiting = [saving(job) for job in np.flatnonzero(given).tolist()]
    heapq.heapify(waiting)
    for _ in range(GPUS - int(given.sum())):
        job = waiting[0][1]
        given[job] += 1.0
        heapq.heapreplace(waiting, saving(job))
    return given


def equal_whole(left: Floats, power: float) -> Floats:
    """Give all jobs equally many whole GPUs, and the remainder to the smallest jobs."""
    given = np.full(left.size, GPUS // left.size)
    given[left.size - GPUS % left.size :] += 1
    return given.astype(float)


#: Policies by the name of their column, and whether they depend on remaining sizes.
WAYS: Mapping[str, tuple[Callable[[Floats, float], Floats], bool]] = {
    "equal": (equal, False),
    "srpt": (smallest, False),
    "hell": (hell, True),
    "optimus": (optimus, True),
    "hesrpt_whole": (hesrpt_whole, False),
    "equal_whole": (equal_whole, False),
    "optimus_whole": (optimus_whole, True),
}

#: Labels of the curves by the policy's column.
LINES = {
    "hesrpt_whole": "heSRPT, whole GPUs",
    "equal": "equal shares",
    "srpt": "SRPT",
    "hell": "HELL",
    "optimus": "Optimus",
    "optimus_whole": "Optimus, whole GPUs",
}


class FlowRow(NamedTuple):
    """Mean flow time of one workload: the minimum, and each policy's ratio to it."""

    jobs: int
    power: float
    seed: int
    least: float
    equal: float
    srpt: float
    hell: float
    optimus: float
    hesrpt_whole: float
    equal_whole: float
    optimus_whole: float

    def ratio(self, way: str) -> float:
        """Return the flow time of `way`, one of `WAYS`, over the minimum."""
        return float(getattr(self, way))


def flow_row(jobs: int, power: float, seed: int) -> FlowRow:
    """Return the minimal mean flow time of a drawn workload, and each policy's ratio to it."""
    sizes = 1.0 + np.random.default_rng([seed, jobs]).pareto(TAIL, jobs)
    least = least_flow_time(sizes, GPUS, power)
    last = fluid_completion_times(
        sizes, GPUS, power, lambda left: GPUS * hesrpt_shares(left.size, power)
    ).max()
    ratios = {}
    for name, (way, minds) in WAYS.items():
        ends = fluid_completion_times(
            sizes,
            GPUS,
            power,
            lambda left, way=way: way(left, power),  # type: ignore[misc]
            last / DECISIONS if minds else np.inf,
        )
        ratios[name] = rounded(float(ends.sum()) / least, 8)
    return FlowRow(jobs, power, seed, rounded(least / jobs, 10), **ratios)


@dataclass(frozen=True)
class FlowRows(RecordedTask):
    """Task that simulates all workloads of one size.

    Parameters
    ----------
    jobs, seeds
        Jobs in each workload, and the number of workloads drawn.
    """

    jobs: int
    seeds: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the rows depend on."""
        return {
            "format": "goodalloc-hesrpt",
            "version": 1,
            "library": library_version(),
            "jobs": self.jobs,
            "seeds": self.seeds,
            "powers": list(POWERS),
            "gpus": GPUS,
            "tail": TAIL,
            "decisions": DECISIONS,
            "ways": list(WAYS),
        }

    def work(self, report: Report) -> Rows:
        """Draw and simulate all workloads."""
        rows: Rows = []
        for seed in range(self.seeds):
            rows += [flow_row(self.jobs, power, seed)._asdict() for power in POWERS]
            report((seed + 1) / self.seeds)
        return rows


def _tasks(plan: Plan) -> list[FlowRows]:
    """Return a task for every number of jobs; a tenth of the workloads if quick."""
    seeds = SEEDS // 10 if plan.quick else SEEDS
    tasks = [FlowRows(plan.folder, jobs, seeds) for jobs in JOBS]
    return [task.among(plan.folder, "hesrpt") for task in tasks]


def _rows(plan: Plan) -> list[FlowRow]:
    """Return a row for every workload and power."""
    return [FlowRow(**row) for task in _tasks(plan) for row in task.record()]


def summarise_flows(rows: list[FlowRow]) -> Rows:
    """Return a row for every number of jobs and power: means above the least."""
    shown = []
    for jobs, power in sorted({(row.jobs, row.power) for row in rows}):
        group = [row for row in rows if (row.jobs, row.power) == (jobs, power)]
        above = {
            name: float(np.mean([100.0 * (row.ratio(name) - 1.0) for row in group]))
            for name in WAYS
        }
        rivals = (above[name] for name in ("equal", "srpt", "hell", "optimus"))
        shown.append(
            {
                "jobs": jobs,
                "power": power,
                "workloads": len(group),
                **{f"{name}_above_%": rounded(value, 3) for name, value in above.items()},
                "best_rival_above_%": rounded(min(rivals), 3),
                "published_%": PUBLISHED,
            }
        )
    return shown


def plot_flows(rows: list[FlowRow]) -> Figure:
    """Draw flow time over the least against the power, a panel for every number of jobs."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    sizes = sorted({row.jobs for row in rows})
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for ax, jobs in zip(panels, sizes, strict=True):
        group = [row for row in rows if row.jobs == jobs]
        plot_ranges(
            ax,
            {
                label: {
                    power: [row.ratio(name) for row in group if row.power == power]
                    for power in POWERS
                }
                for name, label in LINES.items()
            },
            doubling=False,
        )
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.axhline(1.0, color="0.4", linestyle="--", linewidth=1.0)
        ax.set_xlabel("power p of the speedup")
        ax.set_title(f"{jobs} jobs on {GPUS} GPUs", fontsize="medium")
    panels[0].set_ylabel("mean flow time over the least")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    return figure


HESRPT = Reproduction(
    "heSRPT: the least flow time of jobs with a power-law speedup, and other ways to share",
    _tasks,
    _rows,
    lambda _, rows: plot_flows(rows),
    shown=summarise_flows,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
)
