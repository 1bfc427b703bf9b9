"""Whether exact decisions lose more to errors of the measurements than the genetic algorithm's.

An optimum of a round of wrong models may be worse than an answer that was not optimised as far:
an exact solver may follow the errors. Each workload is replayed with and without errors of what
agents observe, under the exact solver and under the genetic algorithm; the losses of the two are
compared in pairs by workload.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.paired_comparison import replayed
from goodalloc.experiments.studies.pollux.scenario import PUBLISHED
from goodalloc.experiments.studies.pollux.studies import EXACT, GENETIC, NOISY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.pollux.paired_comparison import Way

#: Without errors, and with the larger ones of the study `noise`.
OBSERVED = (PUBLISHED, NOISY[1])

#: Ways to decide.
WAYS = (EXACT, GENETIC)


class NoisyDecisionRow(NamedTuple):
    """Loss of a way to decide on one workload.

    Attributes
    ----------
    way
        Label of the way, or `DIFFERENCE`.
    seeds
        Number of seeds of the genetic algorithm, over which its hours are means.
    hours, noisy_hours
        Average completion time without and with errors; those of the difference are its own.
    loss_percent
        Increase of the average completion time by the errors.
    """

    workload: int
    way: str
    seeds: int
    hours: float
    noisy_hours: float
    loss_percent: float


#: Label of the exact loss less the genetic algorithm's.
DIFFERENCE = f"{EXACT.label} less {GENETIC.label}"


def _replays(plan: Plan, way: Way, number: int) -> list[list[ReplayTask]]:
    """Return the replays of a workload without and with errors, one for every seed."""
    return [way.tasks(plan, scenario, number) for scenario in OBSERVED]


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [
        task
        for number in plan.workloads
        for way in WAYS
        for tasks in _replays(plan, way, number)
        for task in tasks
    ]


def _hours(tasks: Sequence[ReplayTask]) -> float:
    """Return the average completion time of a workload, a mean over the seeds."""
    return float(np.mean([replayed(task.folder).average_hours for task in tasks]))


def _rows(plan: Plan) -> list[NoisyDecisionRow]:
    """Return a row for every workload and way, and for the difference of the ways."""
    rows = []
    for number in plan.workloads:
        losses = []
        for way in WAYS:
            exactly, noisily = _replays(plan, way, number)
            hours, noisy = _hours(exactly), _hours(noisily)
            losses.append(100.0 * (noisy / hours - 1.0))
            rows.append(
                NoisyDecisionRow(
                    number,
                    way.label,
                    len(exactly),
                    rounded(hours, 6),
                    rounded(noisy, 6),
                    rounded(losses[-1], 4),
                )
            )
        exact, genetic = rows[-2:]
        rows.append(
            NoisyDecisionRow(
                number,
                DIFFERENCE,
                genetic.seeds,
                rounded(exact.hours - genetic.hours, 6),
                rounded(exact.noisy_hours - genetic.noisy_hours, 6),
                rounded(losses[0] - losses[1], 4),
            )
        )
    return rows


def mean_losses(rows: list[NoisyDecisionRow]) -> Rows:
    """Return the means over the workloads, with 95 % intervals, of every way.

    Parameters
    ----------
    rows
        Rows of all workloads.

    Returns
    -------
    rows
        A row for every way and for the difference.
    """
    found = []
    for way in dict.fromkeys(row.way for row in rows):
        group = [row for row in rows if row.way == way]
        found.append(
            {
                "way": way,
                "workloads": len(group),
                "seeds": group[0].seeds,
                "average (h)": estimate_of([row.hours for row in group]).text(".3f"),
                "with errors (h)": estimate_of([row.noisy_hours for row in group]).text(".3f"),
                "loss (%)": estimate_of([row.loss_percent for row in group]).text("+.1f"),
            }
        )
    return found


def plot_losses(rows: list[NoisyDecisionRow]) -> Figure:
    """Draw the loss of every workload under both ways, joined by a line.

    Parameters
    ----------
    rows
        Rows of all workloads.
    """
    numbers = list(dict.fromkeys(row.workload for row in rows))
    ax = new_axes(7.0, 1.6 + 0.35 * len(numbers))
    losses = {way.label: [row.loss_percent for row in rows if row.way == way.label] for way in WAYS}
    places = range(len(numbers))
    ax.hlines(places, losses[EXACT.label], losses[GENETIC.label], color="0.7", linewidth=1.0)
    for index, (way, values) in enumerate(losses.items()):
        ax.plot(
            values,
            places,
            marker=MARKERS[index],
            color=COLOURS[index],
            markerfacecolor=COLOURS[index] if index == 0 else "white",
            linestyle="none",
            label=way,
        )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(places, [f"workload {number}" for number in numbers])
    ax.invert_yaxis()
    ax.set_xlabel("increase of the average completion time by errors (%)")
    ax.set_title("Errors of the measurements, by who decides", fontsize="medium")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


NOISY_DECISIONS = Reproduction(
    "Whether exact decisions lose more to noisy measurements than genetic ones",
    _tasks,
    _rows,
    lambda _, rows: plot_losses(rows),
    shown=mean_losses,
    ignores=("pollux",),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
