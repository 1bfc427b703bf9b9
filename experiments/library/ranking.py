"""Ranking of submissions on the rounds that all of them ran.

Solvers are ranked by the rounds that they solve, then by the shifted geometric mean of their
seconds, in which a round that is not solved counts a multiple of its limit (`protocol.PENALTY`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.library.catalogue import find_round
from goodalloc.data.library.library_round import CATEGORIES
from goodalloc.experiments.library.protocol import PENALTY, SECONDS_SHIFT, WITHIN
from goodalloc.experiments.reporting.plots import plot_gap_profile, plot_performance_profile
from goodalloc.experiments.reporting.statistics import shifted_geometric_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.library.protocol import Judged, Runs


class Rank(NamedTuple):
    """Line of a ranking.

    Attributes
    ----------
    rank
        Place, from 1.
    solver
        Name of the submission.
    rounds, solved
        Number of rounds, and of those solved to proven optimality by the library's bound.
    within_1, within_5
        Number of rounds whose value is within 1 % and 5 % of the best known one.
    none
        Number of rounds without an allocation.
    seconds
        Shifted geometric mean, penalties included.
    mean_loss_percent
        Mean of how far values are below the best known one, 100 without an allocation.
    """

    rank: int
    solver: str
    rounds: int
    solved: int
    within_1: int
    within_5: int
    none: int
    seconds: float
    mean_loss_percent: float


def common_rounds(submissions: Mapping[str, Runs]) -> tuple[str, ...]:
    """Return the rounds that all submissions ran, in the order of the first.

    Raises
    ------
    ValueError
        If there is none.
    """
    first, *others = submissions.values()
    common = tuple(name for name in first if all(name in runs for runs in others))
    if not common:
        named = ", ".join(submissions)
        raise ValueError(f"Ranking: no round was run by all of {named}; expected one at least.")
    return common


def ranked(submissions: Mapping[str, Runs], rounds: Sequence[str]) -> list[Rank]:
    """Rank submissions on some rounds.

    Parameters
    ----------
    submissions
        Judged runs by the name of the submission.
    rounds
        Names of rounds that all of them ran.

    Examples
    --------
    >>> from goodalloc.data.library import find_round
    >>> from goodalloc.experiments.library import judge, ranked
    >>> line = find_round("tiny-cold")
    >>> good = {line.name: judge(line, "good", 10.0, 0.1, line.fitness)}
    >>> poor = {line.name: judge(line, "poor", 10.0, 0.1, 0.9 * line.fitness)}
    >>> [one.solver for one in ranked({"poor": poor, "good": good}, [line.name])]
    ['good', 'poor']
    """
    lines = []
    for solver, runs in submissions.items():
        mine = [runs[name] for name in rounds]
        losses = np.array([run.loss for run in mine])
        found = np.array([not math.isnan(run.fitness) for run in mine])
        lines.append(
            Rank(
                rank=0,
                solver=solver,
                rounds=len(mine),
                solved=sum(run.solved for run in mine),
                within_1=int((losses <= WITHIN[0]).sum()),
                within_5=int((losses <= WITHIN[1]).sum()),
                none=int((~found).sum()),
                seconds=shifted_geometric_mean(map(counted_seconds, mine), SECONDS_SHIFT),
                mean_loss_percent=100.0 * float(losses.mean()),
            )
        )
    lines.sort(key=lambda one: (-one.solved, one.seconds))
    return [line._replace(rank=place) for place, line in enumerate(lines, start=1)]


def counted_seconds(run: Judged) -> float:
    """Return the seconds that a run counts: its own if it solved the round, else the penalty."""
    return run.seconds if run.solved else PENALTY * run.limit


def by_category(submissions: Mapping[str, Runs], rounds: Sequence[str]) -> dict[str, list[Rank]]:
    """Return a ranking for every class that has rounds."""
    groups = {
        category: [name for name in rounds if find_round(name).category == category]
        for category in CATEGORIES
    }
    return {name: ranked(submissions, group) for name, group in groups.items() if group}


def rank_rows(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """Return a ranking as rows of a table for people and machines."""
    return [
        line._asdict()
        | {
            "seconds": round(line.seconds, 4),
            "mean_loss_percent": round(line.mean_loss_percent, 4),
        }
        for line in ranks
    ]


def plot_ranking(submissions: Mapping[str, Runs], rounds: Sequence[str]) -> Figure:
    """Draw the share of rounds solved within a factor of the fastest, and within a loss."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    mine = {solver: [runs[name] for name in rounds] for solver, runs in submissions.items()}
    seconds = {
        solver: [run.seconds if run.solved else math.nan for run in runs]
        for solver, runs in mine.items()
    }
    if any(math.isfinite(value) for values in seconds.values() for value in values):
        plot_performance_profile(seconds, left)
        left.set_ylabel("share of rounds solved within the factor")
    losses = {
        solver: [math.nan if math.isnan(run.fitness) else run.loss for run in runs]
        for solver, runs in mine.items()
    }
    plot_gap_profile(losses, right)
    right.set_xlabel("loss to the best known value (%)")
    right.set_ylabel("share of rounds within the loss")
    return figure
