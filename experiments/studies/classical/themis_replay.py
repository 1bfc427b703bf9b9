"""Themis (NSDI'20) beside exact finish-time fairness and other policies: fairness and efficiency.

Themis is replayed with several values of its knob *f* and several seeds of what it leaves to
chance; beside it stand what its auction would decide exactly, the exact minimum of the largest
fairness, and others. A finished replay is measured as in Figure 7 of Pollux
(`experiments/studies/pollux/fairness.py`): the time of every job over that alone on an equal share.
Published are a fairness more than 2.25 times better and 5 to 250 % more efficiency than other
schedulers, on applications of several jobs each; ours are single jobs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.replay_report import curves, draw_distribution, summarise
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, finish_time_fairness
from goodalloc.solvers.policies.auction_terms import (
    FAIRNESS_KNOB,
    LEASE,
    PUBLISHED_TERMS,
    AuctionTerms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Task

#: What Themis is compared with, the exact ones first.
OTHERS = ("themis-exact", "themis-maxmin", "tiresias", "srtf", "optimus", "equal", "fifo")

#: Those of them whose levels stand beside its knob.
LEVELS = ("themis-exact", "themis-maxmin", "tiresias")

#: Terms of Themis's auctions: values of the knob; shorter and longer leases; a job that gets
#: nothing expects nothing ever after; what payments leave is rounded down.
KNOBS = tuple(AuctionTerms(knob) for knob in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
OTHER_TERMS = (
    AuctionTerms(lease=300.0),
    AuctionTerms(lease=3600.0),
    AuctionTerms(wait=math.inf),
    AuctionTerms(rounding="down"),
)

#: Seeds of what Themis leaves to chance.
SEEDS = (0, 1, 2)

#: The least published ratio of another scheduler's greatest fairness to Themis's.
PUBLISHED_RATIO = 2.25


class Way(NamedTuple):
    """A policy, and where it is Themis its terms and its seed."""

    policy: str
    terms: AuctionTerms = PUBLISHED_TERMS
    seed: int = 0


def ways(quick: bool) -> Iterator[Way]:
    """What is replayed."""
    for terms in (KNOBS[0], PUBLISHED_TERMS) if quick else (*KNOBS, *OTHER_TERMS):
        for seed in SEEDS[:1] if quick else SEEDS:
            yield Way("themis", terms, seed)
    for policy in OTHERS:
        yield Way(policy)


def _replays(plan: Plan) -> dict[tuple[int, Way], ReplayTask]:
    """The replays by workload and way."""
    return {
        (number, way): plan.replay(
            way.policy, plan.workload(number), themis=way.terms, seed=way.seed
        )
        for number in plan.workloads
        for way in ways(plan.quick)
    }


def _tasks(plan: Plan) -> list[Task]:
    return [*_replays(plan).values(), *alone_tasks(plan).values()]


def jains_index(values: NDArray[np.float64]) -> float:
    r"""How even numbers are, :math:`(\sum_j x_j)^2 / (n \sum_j x_j^2)`: 1 where all are equal.

    Parameters
    ----------
    values
        Of at least 0, not all 0.
    """
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def _fairness(plan: Plan) -> dict[tuple[int, Way], NDArray[np.float64]]:
    """The fairness of every job of every replay."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    return {
        key: finish_time_fairness(
            pd.read_csv(task.folder / "jobs.csv"), task.setting.cluster.num_gpus, alone
        )
        for key, task in _replays(plan).items()
    }


def _rows(plan: Plan) -> Rows:
    """A row for every replay."""
    rows: Rows = []
    found, replays = _fairness(plan), _replays(plan)
    for (number, way), rho in found.items():
        folder = replays[number, way].folder
        told = summarise(way.policy, folder)
        service = pd.read_csv(folder / "jobs.csv").attained_service.sum()
        rows.append(
            {
                "workload": number,
                "policy": way.policy,
                **terms_of(way),
                "seed": way.seed,
                "jobs": rho.size,
                "median_rho": rounded(float(np.median(rho)), 4),
                "greatest_rho": rounded(float(rho.max()), 4),
                "above_1_percent": rounded(100.0 * float((rho > 1.0).mean()), 4),
                "jains_index": rounded(jains_index(rho), 4),
                "average_jct_hours": told["average_jct_hours"],
                "gpu_hours": rounded(float(service) / HOUR, 4),
                "makespan_hours": told["makespan_hours"],
                "restarts_per_job": told["restarts_per_job"],
                "decision_ms": told["decision_ms"],
            }
        )
    return rows


def terms_of(way: Way) -> dict[str, object]:
    """The terms of Themis as columns of a row, blank for other policies."""
    if way.policy != "themis":
        return dict.fromkeys(("fairness_knob", "lease", "waits", "rounding"), "")
    knob, lease, wait, rounding = way.terms
    waits = "a lease" if wait is None else "for ever"
    return {"fairness_knob": knob, "lease": lease, "waits": waits, "rounding": rounding}


def label_of(row: Mapping[str, Any]) -> str:
    """The policy, with its terms if it has any."""
    if row["policy"] != "themis":
        return str(row["policy"])
    terms = [f"f = {row['fairness_knob']:g}"]
    if row["lease"] != LEASE:
        terms.append(f"lease {row['lease'] / 60:g} min")
    if row["waits"] != "a lease":
        terms.append(f"waits {row['waits']}")
    if row["rounding"] != PUBLISHED_TERMS.rounding:
        terms.append(f"rounded {row['rounding']}")
    return f"themis ({', '.join(terms)})"


def summarise_replays(rows: Rows) -> Rows:
    """A row for every policy and knob: means over workloads and seeds, and the worst fairness.

    The ratio is that of the mean greatest fairness to that of Themis as published.
    """
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(label_of(row), []).append(row)
    columns = (
        "median_rho",
        "greatest_rho",
        "above_1_percent",
        "jains_index",
        "average_jct_hours",
        "gpu_hours",
        "restarts_per_job",
    )
    shown = []
    for label, group in groups.items():
        line: dict[str, Any] = {"policy": label, "replays": len(group)}
        for name in columns:
            line[name] = rounded(float(np.mean([row[name] for row in group])), 4)
        greatest = [row["greatest_rho"] for row in group]
        line["least_greatest"], line["worst_greatest"] = min(greatest), max(greatest)
        shown.append(line)
    themis = next(line for line in shown if line["policy"] == f"themis (f = {FAIRNESS_KNOB:g})")
    for line in shown:
        line["ratio"] = rounded(line["greatest_rho"] / themis["greatest_rho"], 3)
        line["published_ratio"] = (
            f"> {PUBLISHED_RATIO}" if line["policy"] in {"tiresias", "optimus"} else ""
        )
    return shown


def _plot(plan: Plan, rows: Rows) -> Figure:
    """Distributions of fairness; and what the knob does to fairness and to GPU time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    pooled: dict[str, list[NDArray[np.float64]]] = {}
    for (_, way), rho in _fairness(plan).items():
        if way.terms == PUBLISHED_TERMS:
            pooled.setdefault(way.policy, []).append(rho)
    drawn = curves(pooled)
    for name, look in drawn.items():
        draw_distribution(left, np.concatenate(pooled[name]), look)
    left.axvline(1.0, color="0.5", linewidth=0.8)
    left.set_xscale("log")
    left.xaxis.set_major_formatter("{x:g}")
    left.set_xlabel("finish-time fairness ρ")
    left.set_title(f"f = {FAIRNESS_KNOB:g}", fontsize="medium")
    draw_knob(middle, rows, "greatest_rho", drawn)
    middle.set_yscale("log")
    for set_formatter in (middle.yaxis.set_major_formatter, middle.yaxis.set_minor_formatter):
        set_formatter("{x:g}")
    middle.tick_params(axis="y", which="minor", labelsize="x-small")
    middle.set_ylabel("greatest ρ")
    draw_knob(right, rows, "gpu_hours", drawn)
    right.set_ylabel("GPU time (h)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(drawn))
    return figure


def draw_knob(ax: Axes, rows: Rows, column: str, drawn: Mapping[str, Mapping[str, Any]]) -> None:
    """A column against Themis's knob: every replay, a line through the means; and the levels of
    policies that know no knob.

    Parameters
    ----------
    ax
        Where to draw.
    rows, column
        Of the table.
    drawn
        How the curves of the policies look.
    """
    own = [row for row in rows if row["policy"] == "themis"]
    own = [row for row in own if label_of(row) == f"themis (f = {row['fairness_knob']:g})"]
    knobs = sorted({row["fairness_knob"] for row in own})
    means = [np.mean([r[column] for r in own if r["fairness_knob"] == knob]) for knob in knobs]
    colour = drawn["themis"]["color"]
    ax.plot(
        [row["fairness_knob"] for row in own],
        [row[column] for row in own],
        "o",
        color=colour,
        markersize=4,
        alpha=0.5,
    )
    ax.plot(knobs, means, color=colour, linewidth=1.4)
    for policy in LEVELS:
        level = float(np.mean([row[column] for row in rows if row["policy"] == policy]))
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
    shown=summarise_replays,
    ignores=("pollux", "seeds", "gaps"),
)
