"""Table and figure of the replays of jobs with execution plans (`arena_replay.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows

#: Terms of restarts and progress: the same for all, or as in the published simulator.
Terms = Literal["equal", "published"]
EQUAL: Terms = "equal"
PUBLISHED: Terms = "published"

#: Policy over whose completion times those of the others stand.
BASE = "arena"


class ArenaRow(NamedTuple):
    """Outcome of a replay.

    Attributes
    ----------
    trace, policy, terms
        What was replayed.
    jobs
        Number of jobs.
    average_jct_hours, median_jct_hours
        Completion times of all jobs.
    in_time, in_time_jct_hours
        Number of jobs that were complete when the last one was submitted, and their average, which
        is what the published simulator averages; None without any.
    makespan_hours, restarts_per_job, gpu_hours
        Hours to the end of the last job, restarts, and hours of GPUs that were held.
    below_optimum_percent
        How far the examples a second of Arena's decisions are below the greatest possible, on
        average over every twentieth round; None for other policies.
    worst_gap
        Largest relative gap of a decision that is made with a proof.
    decision_ms, worst_decision_ms
        Milliseconds of a decision, on average and at most.
    """

    trace: str
    policy: str
    terms: Terms
    jobs: int
    average_jct_hours: float
    median_jct_hours: float
    in_time: int
    in_time_jct_hours: float | None
    makespan_hours: float
    restarts_per_job: float
    gpu_hours: float
    below_optimum_percent: float | None
    worst_gap: float
    decision_ms: float
    worst_decision_ms: float


def ratio(rows: list[ArenaRow], row: ArenaRow) -> float:
    """Return the average completion time of a row over that of Arena on the same trace and terms.

    Parameters
    ----------
    rows
        All rows.
    row
        One of them.
    """
    base = next(
        one for one in rows if (one.trace, one.policy, one.terms) == (row.trace, BASE, row.terms)
    )
    return row.average_jct_hours / base.average_jct_hours


def summarise_arena(rows: list[ArenaRow]) -> Rows:
    """Return a row for every policy and terms: hours on each trace, and the ratio to Arena."""
    shown = []
    for terms, policy in dict.fromkeys((row.terms, row.policy) for row in rows):
        group = [row for row in rows if (row.terms, row.policy) == (terms, policy)]
        ratios = [ratio(rows, row) for row in group]
        told = f"{ratios[0]:.2f}"
        if len(ratios) > 1:
            told = estimate_of(ratios).text(".2f")
        shown.append(
            {
                "terms": terms,
                "policy": policy,
                **{f"{row.trace}_jct_(h)": rounded(row.average_jct_hours, 3) for row in group},
                "over_arena": told,
                "restarts_a_job": rounded(float(np.mean([r.restarts_per_job for r in group])), 3),
                "decision_(ms)": rounded(float(np.mean([r.decision_ms for r in group])), 3),
                "worst_(ms)": rounded(max(row.worst_decision_ms for row in group), 3),
            }
        )
    return shown


def plot_arena(rows: list[ArenaRow]) -> Figure:
    """Draw average completion times over Arena's, a panel for each kind of terms."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(row.terms for row in rows))
    counts = [len({row.policy for row in rows if row.terms == terms}) for terms in panels]
    figure = Figure(figsize=(9.0, 1.6 + 0.34 * sum(counts)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=counts)
    traces = list(dict.fromkeys(row.trace for row in rows))
    for ax, terms in zip(axes[:, 0], panels, strict=True):
        policies = list(dict.fromkeys(row.policy for row in rows if row.terms == terms))
        for row in rows:
            if row.terms == terms:
                place = traces.index(row.trace)
                ax.plot(
                    ratio(rows, row),
                    policies.index(row.policy) + 0.18 * (place - (len(traces) - 1) / 2),
                    marker="os^Dv"[place % 5],
                    color=COLOURS[place % len(COLOURS)],
                    linestyle="none",
                    label=row.trace if row.policy == BASE and ax is axes[0, 0] else None,
                )
        ax.axvline(1.0, color="0.6", linewidth=1.0)
        ax.set_yticks(range(len(policies)), policies)
        ax.set_ylim(len(policies) - 0.4, -0.6)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("{x:g}")
        ax.tick_params(axis="x", which="minor", labelsize="small")
        ax.set_title(f"{terms} terms", fontsize="medium")
        ax.grid(axis="x", which="both", color="0.9")
        ax.set_axisbelow(True)
    axes[-1, 0].set_xlabel("average completion time over that under Arena")
    axes[0, 0].legend(fontsize="small", loc="lower right")
    return figure
