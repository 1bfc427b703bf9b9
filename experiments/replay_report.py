"""What replays came to: a table of policies, and a picture of how they got there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.plots import looks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

HOUR = 3600.0


def summarise(policy: str, folder: Path) -> dict[str, Any]:
    """One row of the table: job completion times, makespan and gaps of a finished replay.

    Gaps are relative, of Pollux's own objective; the 99th percentile is interpolated linearly, as
    published.
    """
    jobs, rounds = pd.read_csv(folder / "jobs.csv"), pd.read_csv(folder / "rounds.csv")
    seconds = pd.read_csv(folder / "timing.csv").decision_seconds
    weight = rounds.allocated_gpus.sum()
    efficiency = (rounds.efficiency * rounds.allocated_gpus).sum() / weight if weight else math.nan
    row = {
        "policy": policy,
        "jobs": len(jobs),
        "average_jct_hours": float(jobs.jct.mean()) / HOUR,
        "p99_jct_hours": float(np.quantile(jobs.jct, 0.99)) / HOUR,
        "makespan_hours": float(jobs.completion.max()) / HOUR,
        "restarts_per_job": float(jobs.restarts.mean()),
        "efficiency": float(efficiency),
        "mean_gap": float(rounds.gap.mean()),
        "worst_gap": float(rounds.gap.max()),
        "decision_ms": 1000.0 * float(seconds.mean()),
    }
    return {
        key: rounded(value) if isinstance(value, float) else value for key, value in row.items()
    }


def rounded(value: float, digits: int = 5) -> float:
    """A number with the digits that a table needs."""
    return float(f"{value:.{digits}g}")


def plot_replays(folders: Mapping[str, Path]) -> Figure:
    """Allocated GPUs, efficiency and gap over time, and the distribution of completion times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.5), layout="constrained")
    (gpus, efficiency), (gap, completion) = figure.subplots(2, 2)
    styles = looks(folders)
    for index, (policy, folder) in enumerate(folders.items()):
        look = {
            **styles[policy], "linewidth": 1.4, "label": policy, "markersize": 4.5,
            "markevery": (0.02 * (index + 1), 0.15),
        }  # fmt: skip
        rounds, jobs = pd.read_csv(folder / "rounds.csv"), pd.read_csv(folder / "jobs.csv")
        hours = rounds.time / HOUR
        gpus.plot(hours, _smooth(rounds.allocated_gpus), **look)
        efficiency.plot(hours, _smooth(100 * rounds.efficiency), **look)
        if rounds.gap.notna().any():
            gap.plot(hours, _smooth(100 * rounds.gap), **look)
        jct = np.sort(jobs.jct) / HOUR
        completion.step(jct, 100 * np.arange(1, jct.size + 1) / jct.size, where="post", **look)
    for axes, label in (
        (gpus, "allocated GPUs"), (efficiency, "statistical efficiency (%)"),
        (gap, "gap of the decision (%)"),
    ):  # fmt: skip
        axes.set_xlabel("time (h)")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    gap.set_yscale("symlog", linthresh=0.01)
    gap.yaxis.set_major_formatter("{x:g}")
    gpus.set_title("moving averages over 30 decisions", fontsize="medium", loc="left")
    completion.set_xscale("log")
    completion.xaxis.set_major_formatter("{x:g}")
    completion.set_xlabel("job completion time (h)")
    completion.set_ylabel("share of jobs (%)")
    for axes in figure.axes:
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    figure.legend(*gpus.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _smooth(series: pd.Series, rounds: int = 30) -> pd.Series:
    """A moving average over half an hour of rounds: single rounds are too many to look at."""
    return series.rolling(rounds, min_periods=1).mean()
