"""Predicted and measured speed of real jobs between the decisions of their scheduler."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Shortest time in seconds over which a speed is measured: shorter ones hold few steps.
SHORTEST = 1.0


class RoundSpeed(NamedTuple):
    """Speed of a job between two decisions, in steps at M0 a second.

    Attributes
    ----------
    job
        Name of the job.
    slots
        Its slots.
    predicted
        Speed predicted at the first decision, by the fit and the noise scale of that time.
    measured
        Progress from that decision to the next over the time, as the agent published both.
    """

    job: str
    slots: int
    predicted: float
    measured: float


def round_speeds(decisions: Sequence[Mapping[str, Any]]) -> list[RoundSpeed]:
    """Return the speeds of all jobs between decisions that left their placements as they were.

    Parameters
    ----------
    decisions
        Lines of `decisions.jsonl` in order. A job counts from one to the next if it kept its
        placement at the first one, so that no restart lies between, and published its state anew.
    """
    found = []
    before: Mapping[str, Any] = {}
    for one, following in pairwise(decisions):
        for job, nodes in one["placements"].items():
            predicted, progress = one["predicted"].get(job), one["progress"].get(job)
            later = following["progress"].get(job)
            if before.get(job) != nodes or not predicted or progress is None or later is None:
                continue
            seconds, steps = (np.array(later) - np.array(progress)).tolist()
            if seconds >= SHORTEST:
                found.append(RoundSpeed(job, sum(nodes.values()), predicted, steps / seconds))
        before = one["placements"]
    return found


def median_ratio(speeds: Sequence[RoundSpeed]) -> float | None:
    """Return the median of measured over predicted speed; None without any."""
    return float(np.median([one.measured / one.predicted for one in speeds])) if speeds else None
