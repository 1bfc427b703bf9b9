"""Results of replays: a table of policies, and pictures of the course of the replays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.reporting.plots import looks
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


#: Policies in the order of the colours, so that a policy looks the same in every picture.
LOOKS = (
    "pollux",
    "optimus",
    "tiresias",
    "pollux-genetic",
    "fifo",
    "srtf",
    "equal",
    "pollux-greedy",
    "sia",
    "synergy-tune",
    "sia-exact",
    "pollux-proportional",
)

#: Files of a finished replay from which the table is made.
RECORDS = ("jobs", "rounds", "timing")


def summarise(policy: str, folder: Path) -> dict[str, Any]:
    """Return a row of the table: job completion times, makespan and gaps of a finished replay.

    Gaps are relative, in the objective of Pollux, beside their parts (`parts_of_gaps`); the 99th
    percentile is interpolated linearly, as published.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments.replay import ReplayTask, summarise
    >>> workload = (Submission("a", time=0, application="ncf", replicas=1, batch_size=32768),)
    >>> task = ReplayTask(Path("fifo"), "fifo", workload, gaps=False)
    >>> task.run()
    >>> row = summarise("fifo", task.folder)
    >>> row["jobs"], row["restarts_per_job"]
    (1, 0.0)
    """
    jobs, rounds, timing = (_records(folder / f"{name}.csv") for name in RECORDS)
    row = {
        "policy": policy,
        "jobs": len(jobs),
        **completion_columns(jobs.jct.to_numpy(float), jobs.completion.to_numpy(float)),
        "restarts_per_job": float(jobs.restarts.mean()),
        "efficiency": mean_efficiency(rounds),
        **parts_of_gaps(rounds),
        "mean_gap": float(rounds.gap.mean()),
        "worst_gap": float(rounds.gap.max()),
        "decision_ms": 1000.0 * float(timing.decision_seconds.mean()),
        "worst_decision_ms": 1000.0 * float(timing.decision_seconds.max()),
        "replay_seconds": float(timing.round_seconds.sum()),
    }
    return {
        key: rounded(value, 4) if isinstance(value, float) else value for key, value in row.items()
    }


#: Columns of the parts of the gaps of a replay.
GAP_PARTS = ("mean_starved", "mean_more_starved", "served_over_best")


def parts_of_gaps(rounds: pd.DataFrame) -> dict[str, float]:
    """Return the parts of the gaps of rows of ``rounds.csv``.

    They are (`goodalloc.models.round.starved_jobs`) the mean number of starved jobs, the mean
    excess over the starved jobs of the best known answers, and the geometric mean ratio of the
    fitness of the served jobs to that of those answers; NaN where no round was judged.

    Examples
    --------
    >>> import pandas as pd
    >>> from goodalloc.experiments.replay import parts_of_gaps
    >>> rounds = pd.DataFrame({"starved": [2, 1], "best_starved": [1, 1]})
    >>> rounds[["served_fitness", "best_served_fitness"]] = [[1.8, 2.0], [2.0, 2.0]]
    >>> {name: round(value, 3) for name, value in parts_of_gaps(rounds).items()}
    {'mean_starved': 1.5, 'mean_more_starved': 0.5, 'served_over_best': 0.949}
    """
    starved, served, best_starved, best_served = (
        rounds[name].astype(float)
        for name in ("starved", "served_fitness", "best_starved", "best_served_fitness")
    )
    ratios = np.log((served / best_served).dropna().to_numpy())
    return {
        "mean_starved": float(starved.mean()),
        "mean_more_starved": float((starved - best_starved).mean()),
        "served_over_best": float(np.exp(ratios.mean())) if ratios.size else math.nan,
    }


def _records(path: Path) -> pd.DataFrame:
    """Return a file of a finished replay.

    Raises
    ------
    ValueError
        If the file is missing or empty.
    """
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"File '{path}' cannot be read; expected the records of a finished replay, or an empty "
            "folder."
        ) from error


def completion_columns(
    seconds: NDArray[np.float64], completions: NDArray[np.float64]
) -> dict[str, float]:
    """Return average and 99th percentile of completion times, and the makespan, in hours.

    Parameters
    ----------
    seconds, completions
        From the submission to the completion of every job, and from the start of the replay.
    """
    return {
        "average_jct_hours": float(seconds.mean()) / HOUR,
        "p99_jct_hours": float(np.quantile(seconds, 0.99)) / HOUR,
        "makespan_hours": float(completions.max()) / HOUR,
    }


def mean_efficiency(rounds: pd.DataFrame) -> float:
    """Return the mean statistical efficiency of a training GPU over rows of ``rounds.csv``.

    Examples
    --------
    >>> import pandas as pd
    >>> from goodalloc.experiments.replay import mean_efficiency
    >>> rounds = pd.DataFrame({"efficiency": [1.0, 0.5], "training_gpus": [1.0, 3.0]})
    >>> mean_efficiency(rounds)  # (1 * 1 + 0.5 * 3) / 4
    0.625
    """
    known = rounds[rounds.efficiency.notna()]
    weight = known.training_gpus.sum()
    return float((known.efficiency * known.training_gpus).sum() / weight) if weight else math.nan


def plot_replays(folders: Mapping[str, Path]) -> Figure:
    """Draw GPUs, efficiency and, if judged, gap over time, and the completion times of jobs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments.replay import ReplayTask, plot_replays
    >>> workload = (Submission("a", time=0, application="ncf", replicas=1, batch_size=32768),)
    >>> task = ReplayTask(Path("fifo"), "fifo", workload, gaps=False)
    >>> task.run()
    >>> len(plot_replays({"fifo": task.folder}).axes)  # without gaps
    3
    """
    from matplotlib.figure import Figure

    judged = any(pd.read_csv(path / "rounds.csv").gap.notna().any() for path in folders.values())
    figure = Figure(figsize=(11.0, 7.5) if judged else (14.0, 4.2), layout="constrained")
    figure.set_figheight(figure.get_figheight() + 0.17 * max(math.ceil(len(folders) / 4) - 2, 0))
    panels = figure.subplots(2, 2) if judged else figure.subplots(1, 3)
    gpus, efficiency, *others, completion = panels.flat
    draw_over_time(gpus, folders, "allocated_gpus", "allocated GPUs")
    draw_over_time(efficiency, folders, "efficiency", "statistical efficiency (%)", 100.0)
    for gap in others:
        draw_over_time(gap, folders, "gap", "gap of the decision's fitness (%)", 100.0)
        gap.set_yscale("symlog", linthresh=0.01)
        gap.set_ylim(bottom=-0.003)  # so that a gap of zero is visible
        gap.yaxis.set_major_formatter("{x:g}")
    figure.suptitle("over time: moving averages over half an hour", fontsize="medium")
    for policy, look in curves(folders).items():
        draw_distribution(completion, _completion_hours(folders[policy]), look)
    completion.set_xscale("log")
    completion.xaxis.set_major_formatter("{x:g}")
    completion.set_xlabel("job completion time (h)")
    figure.legend(*gpus.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _completion_hours(folder: Path) -> NDArray[np.float64]:
    """Return the completion time of every job, in hours from its submission."""
    return pd.read_csv(folder / "jobs.csv").jct.to_numpy(float) / HOUR


def curves(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the style of the curve of each name; markers are staggered along the curves.

    Examples
    --------
    >>> from goodalloc.experiments.replay import curves
    >>> styles = curves(["pollux", "tiresias"])
    >>> styles["pollux"]["label"], styles["pollux"]["markevery"]
    ('pollux', (0.02, 0.15))
    """
    return {
        name: {
            **look,
            "linewidth": 1.4,
            "label": name,
            "markersize": 4.5,
            "markevery": (0.02 * (index % 7 + 1), 0.15),
        }
        for index, (name, look) in enumerate(looks(names, LOOKS).items())
    }


def draw_over_time(
    ax: Axes, folders: Mapping[str, Path], column: str, label: str, factor: float = 1.0
) -> None:
    """Draw a column of the rounds of every replay as a moving average over half an hour.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.replay import draw_over_time
    >>> from goodalloc.experiments.reporting import new_axes
    >>> _ = Path("rounds.csv").write_text("time,allocated_gpus\\n60,1\\n120,3\\n")
    >>> ax = new_axes()
    >>> draw_over_time(ax, {"fifo": Path()}, "allocated_gpus", "allocated GPUs")
    >>> ax.lines[0].get_ydata().tolist()
    [1.0, 2.0]
    """
    for name, look in curves(folders).items():
        smooth = over_time(pd.read_csv(folders[name] / "rounds.csv"), column)
        if smooth.notna().any():
            ax.plot(smooth.index.to_numpy() / HOUR, factor * smooth, **look)
    ax.set_xlabel("time (h)")
    ax.set_ylabel(label)
    ax.set_ylim(bottom=0)
    _rule(ax)


def over_time(rounds: pd.DataFrame, column: str, window: float = 1800.0) -> pd.Series:
    """Return a column of ``rounds.csv`` averaged over the `window` seconds before each interval.

    While no job is active there is no round: no GPU is allocated then, and all other columns are
    unknown.
    """
    steps = np.diff(rounds.time)
    interval = int(np.gcd.reduce(steps)) if steps.size else 60
    times = np.arange(rounds.time.iloc[0], rounds.time.iloc[-1] + interval, interval)
    series = rounds.set_index("time")[column].reindex(times)
    if column == "allocated_gpus":
        series = series.fillna(0.0)
    rows = max(round(window / interval), 1)
    return series.rolling(rows, min_periods=1).mean().where(series.notna())


def draw_distribution(ax: Axes, values: NDArray[np.float64], look: Mapping[str, Any]) -> None:
    """Draw the share of jobs with at most each of `values`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.experiments.replay import draw_distribution
    >>> from goodalloc.experiments.reporting import new_axes
    >>> ax = new_axes()
    >>> draw_distribution(ax, np.array([3.0, 1.0]), {"color": "black"})
    >>> ax.lines[0].get_ydata().tolist()
    [50.0, 100.0]
    """
    ordered = np.sort(values)
    share = 100 * np.arange(1, ordered.size + 1) / ordered.size
    ax.step(ordered, share, where="post", **look)
    ax.set_ylabel("share of jobs (%)")
    ax.set_ylim(0, 103)
    _rule(ax)


def _rule(ax: Axes) -> None:
    """Draw a grid behind the curves."""
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
