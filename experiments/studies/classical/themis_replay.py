"""Themis beside exact finish-time fairness and other policies: fairness and efficiency.

Themis is replayed with several values of its fairness knob *f* and several seeds of its random
choices, beside the exact solution of its auctions, the exact minimum of the largest finish-time
fairness, and other policies. A finished replay is measured as in Figure 7 of Pollux
(`experiments/studies/pollux/fairness.py`): the completion time of every job over its completion
time alone on an equal share. The paper reports a fairness more than 2.25 times better and 5 to
250 % more efficiency than other schedulers, on applications of several jobs each; ours are single
jobs.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.replay_report import curves, draw_distribution, summarise
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, finish_time_fairness
from goodalloc.solvers.policies.auction_terms import (
    FAIRNESS_KNOB,
    LEASE,
    PUBLISHED_TERMS,
    AuctionTerms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Task

#: Policies that Themis is compared with, the exact ones first.
OTHERS = ("themis-exact", "themis-maxmin", "tiresias", "srtf", "optimus", "equal", "fifo")

#: Policies drawn as levels beside Themis's curve over its knob.
LEVELS = ("themis-exact", "themis-maxmin", "tiresias")

#: Terms of Themis's auctions: values of the knob; shorter and longer leases; a losing job expects
#: no GPU ever after; allocations after payments are rounded down.
KNOBS = tuple(AuctionTerms(knob) for knob in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
OTHER_TERMS = (
    AuctionTerms(lease=300.0),
    AuctionTerms(lease=3600.0),
    AuctionTerms(wait=math.inf),
    AuctionTerms(rounding="down"),
)

#: Seeds of Themis's random choices.
SEEDS = (0, 1, 2)

#: Least published ratio of another scheduler's greatest finish-time fairness to Themis's.
PUBLISHED_RATIO = 2.25

#: Policies beside which that ratio stands in the table.
PUBLISHED_BESIDE = frozenset({"tiresias", "optimus"})


class Way(NamedTuple):
    """Policy of a replay; for Themis with the terms of its auctions and its seed."""

    policy: str
    terms: AuctionTerms | None = None
    seed: int = 0


def ways(quick: bool) -> Iterator[Way]:
    """Yield all replays of a workload; fewer if `quick`."""
    for terms in (KNOBS[0], PUBLISHED_TERMS) if quick else (*KNOBS, *OTHER_TERMS):
        for seed in SEEDS[:1] if quick else SEEDS:
            yield Way("themis", terms, seed)
    for policy in OTHERS:
        yield Way(policy)


def _replays(plan: Plan) -> dict[tuple[int, Way], ReplayTask]:
    """Return the replays by workload and way."""
    return {
        (number, way): plan.replay(
            way.policy,
            plan.workload(number),
            themis=way.terms or PUBLISHED_TERMS,
            seed=way.seed,
        )
        for number in plan.workloads
        for way in ways(plan.quick)
    }


def _tasks(plan: Plan) -> list[Task]:
    return [*_replays(plan).values(), *alone_tasks(plan).values()]


def jains_index(values: NDArray[np.float64]) -> float:
    r"""Return Jain's index, :math:`(\sum_j x_j)^2 / (n \sum_j x_j^2)`: 1 where all are equal.

    Parameters
    ----------
    values
        Values of at least 0, not all 0, shape (n,).

    References
    ----------
    Jain et al., "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
        Shared Computer Systems", DEC Research Report TR-301, 1984.
    """
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def _fairness(plan: Plan) -> dict[tuple[int, Way], NDArray[np.float64]]:
    """Return the finish-time fairness of every job of every replay."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    return {
        key: finish_time_fairness(
            pd.read_csv(task.folder / "jobs.csv"), task.setting.cluster.num_gpus, alone
        )
        for key, task in _replays(plan).items()
    }


class FairnessRow(NamedTuple):
    """Outcome of one replay; the four terms are None for policies without auctions.

    Attributes
    ----------
    lease
        Length of a lease, in seconds.
    waits
        Expected wait of a losing job: "a lease" or "for ever".
    median_rho, greatest_rho, above_1_percent
        Finish-time fairness of the jobs: its median, its maximum, and the jobs above 1.
    jains_index
        Jain's index of the finish-time fairness.
    """

    workload: int
    policy: str
    knows: str
    batch: str
    fairness_knob: float | None
    lease: float | None
    waits: str | None
    rounding: str | None
    seed: int
    jobs: int
    median_rho: float
    greatest_rho: float
    above_1_percent: float
    jains_index: float
    average_jct_hours: float
    gpu_hours: float
    makespan_hours: float
    restarts_per_job: float
    decision_ms: float

    @property
    def label(self) -> str:
        """The policy, with the terms of its auctions if it has any."""
        if self.fairness_knob is None or self.lease is None:
            return self.policy
        terms = [f"f = {self.fairness_knob:g}"]
        if self.lease != LEASE:
            terms.append(f"lease {self.lease / 60:g} min")
        if self.waits != "a lease":
            terms.append(f"waits {self.waits}")
        if self.rounding != PUBLISHED_TERMS.rounding:
            terms.append(f"rounded {self.rounding}")
        return f"{self.policy} ({', '.join(terms)})"


def _rows(plan: Plan) -> list[FairnessRow]:
    """Return a row for every replay."""
    rows: list[FairnessRow] = []
    found, replays = _fairness(plan), _replays(plan)
    for (number, way), rho in found.items():
        folder = replays[number, way].folder
        told = summarise(way.policy, folder)
        service = pd.read_csv(folder / "jobs.csv").attained_service.sum()
        rows.append(
            FairnessRow(
                number,
                way.policy,
                replays[number, way].terms.knows,
                replays[number, way].terms.batch,
                *_terms(way.terms),
                seed=way.seed,
                jobs=rho.size,
                median_rho=rounded(float(np.median(rho)), 4),
                greatest_rho=rounded(float(rho.max()), 4),
                above_1_percent=rounded(100.0 * float((rho > 1.0).mean()), 4),
                jains_index=rounded(jains_index(rho), 4),
                average_jct_hours=told["average_jct_hours"],
                gpu_hours=rounded(float(service) / HOUR, 4),
                makespan_hours=told["makespan_hours"],
                restarts_per_job=told["restarts_per_job"],
                decision_ms=told["decision_ms"],
            )
        )
    return rows


def _terms(
    terms: AuctionTerms | None,
) -> tuple[float | None, float | None, str | None, str | None]:
    """Return the knob, the lease, the wait and the rounding of `terms`."""
    if terms is None:
        return None, None, None, None
    waits = "a lease" if terms.wait is None else "for ever"
    return terms.fairness_knob, terms.lease, waits, terms.rounding


class FairnessSummary(NamedTuple):
    """Means of the replays of one policy and its terms, over workloads and seeds.

    Attributes
    ----------
    least_greatest, worst_greatest
        Range of the greatest finish-time fairness of a replay.
    ratio
        Mean greatest finish-time fairness over that of Themis with the published terms.
    published_ratio
        Published counterpart of `ratio`.
    """

    policy: str
    replays: int
    median_rho: float
    greatest_rho: float
    above_1_percent: float
    jains_index: float
    average_jct_hours: float
    gpu_hours: float
    restarts_per_job: float
    least_greatest: float
    worst_greatest: float
    ratio: float = math.nan
    published_ratio: str = ""


def summarise_replays(rows: list[FairnessRow]) -> list[FairnessSummary]:
    """Return the means of every policy and its terms."""
    groups: dict[str, list[FairnessRow]] = {}
    for row in rows:
        groups.setdefault(row.label, []).append(row)
    found = [_summary(label, group) for label, group in groups.items()]
    themis = next(row for row in found if row.policy == f"themis (f = {FAIRNESS_KNOB:g})")
    return [
        row._replace(
            ratio=rounded(row.greatest_rho / themis.greatest_rho, 3),
            published_ratio=f"> {PUBLISHED_RATIO}" if row.policy in PUBLISHED_BESIDE else "",
        )
        for row in found
    ]


def _summary(label: str, group: list[FairnessRow]) -> FairnessSummary:
    def mean(of: Callable[[FairnessRow], float]) -> float:
        return rounded(float(np.mean([of(row) for row in group])), 4)

    greatest = [row.greatest_rho for row in group]
    return FairnessSummary(
        label,
        len(group),
        median_rho=mean(lambda row: row.median_rho),
        greatest_rho=mean(lambda row: row.greatest_rho),
        above_1_percent=mean(lambda row: row.above_1_percent),
        jains_index=mean(lambda row: row.jains_index),
        average_jct_hours=mean(lambda row: row.average_jct_hours),
        gpu_hours=mean(lambda row: row.gpu_hours),
        restarts_per_job=mean(lambda row: row.restarts_per_job),
        least_greatest=min(greatest),
        worst_greatest=max(greatest),
    )


def _plot(plan: Plan, rows: list[FairnessRow]) -> Figure:
    """Draw the distributions of finish-time fairness, and fairness and GPU time by the knob."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    pooled: dict[str, list[NDArray[np.float64]]] = {}
    for (_, way), rho in _fairness(plan).items():
        if way.terms in {None, PUBLISHED_TERMS}:
            pooled.setdefault(way.policy, []).append(rho)
    drawn = curves(pooled)
    for name, look in drawn.items():
        draw_distribution(left, np.concatenate(pooled[name]), look)
    left.axvline(1.0, color="0.5", linewidth=0.8)
    left.set_xscale("log")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_xlabel("finish-time fairness ρ")
    left.set_title(f"f = {FAIRNESS_KNOB:g}", fontsize="medium")
    draw_knob(middle, rows, lambda row: row.greatest_rho, drawn)
    middle.set_yscale("log")
    for set_formatter in (middle.yaxis.set_major_formatter, middle.yaxis.set_minor_formatter):
        set_formatter("{x:g}")
    middle.tick_params(axis="y", which="minor", labelsize="x-small")
    middle.set_ylabel("greatest ρ")
    draw_knob(right, rows, lambda row: row.gpu_hours, drawn)
    right.set_ylabel("GPU time (h)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(drawn))
    return figure


def draw_knob(
    ax: Axes,
    rows: list[FairnessRow],
    value: Callable[[FairnessRow], float],
    drawn: Mapping[str, Mapping[str, Any]],
) -> None:
    """Draw `value` over Themis's fairness knob, and the mean levels of other policies.

    Parameters
    ----------
    ax
        Axes to draw in.
    rows
        Rows of the study.
    value
        Function that returns the drawn value of a row.
    drawn
        Styles of the policies' curves.
    """
    own = [row for row in rows if row.label == f"themis (f = {row.fairness_knob})"]
    points = [(row.fairness_knob or 0.0, value(row)) for row in own]
    knobs = sorted({knob for knob, _ in points})
    means = [np.mean([found for at, found in points if at == knob]) for knob in knobs]
    colour = drawn["themis"]["color"]
    ax.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, alpha=0.5)
    ax.plot(knobs, means, color=colour, linewidth=1.4)
    for policy in LEVELS:
        level = float(np.mean([value(row) for row in rows if row.policy == policy]))
        look = drawn[policy]
        ax.axhline(level, color=look["color"], linestyle=look["linestyle"], linewidth=1.4)
    ax.set_xlabel("Themis's knob f")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)


THEMIS = Reproduction(
    "Themis's auctions beside exact finish-time fairness",
    _tasks,
    _rows,
    _plot,
    shown=lambda rows: table_of(summarise_replays(rows)),
    ignores=("pollux", "seeds", "gaps"),
)
