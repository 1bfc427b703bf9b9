"""Cluster of cores shared by jobs with falling losses, under a rule that decides every interval.

A rule sees of the active jobs what SLAQ knows: the losses that they have measured, and their speed
by the number of cores. Between decisions jobs advance at a constant rate; cores of a job that ends
stay idle until the next decision, and a job that arrives waits for it.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.classical.loss_jobs import LossJob
from goodalloc.models.classical.unit_gains import one_each, unit_violations
from goodalloc.models.losses.reduction import loss_reductions
from goodalloc.solvers.classical.unit_shares import share_exactly, share_greedily

if TYPE_CHECKING:
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.losses.reduction import NormalisedBy
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.classical.unit_shares import Shares


#: Seconds between decisions: "a few seconds" in the paper.
INTERVAL = 3.0

#: Fractions of the loss reduction whose delays are measured.
LEVELS = (0.25, 0.5, 0.75, 0.9, 0.95)


class Decided(NamedTuple):
    """Decision of a rule.

    Attributes
    ----------
    cores
        Cores of every job, shape (jobs,).
    gap
        Relative gap of the total gain to the maximum; NaN where it is not measured.
    seconds
        Seconds of the allocation, without the predictions of gains.
    """

    cores: Indices
    gap: float = float("nan")
    seconds: float = float("nan")


#: Rule: active jobs, the iterations that each has done, and the number of cores.
Rule = Callable[[Sequence[LossJob], Sequence[float], int], Decided]


def fair(jobs: Sequence[LossJob], done: Sequence[float], cores: int) -> Decided:
    """Share the cores equally; the remainder goes to the jobs that arrived first."""
    del done
    each, rest = divmod(cores, len(jobs))
    return Decided((each + (np.arange(len(jobs)) < rest)).astype(np.int64))


def by_gain(
    share: Callable[..., Shares],
    normalised_by: NormalisedBy = "largest_fall",
    *,
    measure_gap: bool = False,
) -> Rule:
    """Return the rule of SLAQ with one of its solvers.

    Parameters
    ----------
    share
        Solver that allocates cores by their gains.
    normalised_by
        Unit of the loss reductions.
    measure_gap
        Whether to find the exact optimum too, for the gap.
    """

    def decide(jobs: Sequence[LossJob], done: Sequence[float], cores: int) -> Decided:
        choices = np.arange(cores + 1.0)
        ahead = INTERVAL * np.stack([job.rate(choices) for job in jobs])
        histories = [job.history(steps) for job, steps in zip(jobs, done, strict=True)]
        gains = loss_reductions(histories, ahead, normalised_by)
        problem = one_each(gains, cores)
        shared = share(problem)
        best = share_exactly(problem).total if measure_gap else float("nan")
        broken = unit_violations(problem, shared.amounts, shared.total)
        if broken:
            raise RuntimeError(f"SLAQ: {broken[0]}")
        gap = max(1.0 - shared.total / best, 0.0) if best > 0 else best
        return Decided(shared.amounts, gap, shared.seconds)

    return decide


#: Rules that the study compares.
RULES: dict[str, Rule] = {
    "fair": fair,
    "slaq": by_gain(share_greedily, measure_gap=True),
    "slaq-exact": by_gain(share_exactly),
    "slaq-first-loss": by_gain(share_greedily, "first_loss"),
}


class Course(NamedTuple):
    """Outcome of a simulated run.

    Attributes
    ----------
    times, loss, active
        After every interval with active jobs: seconds from the start, mean remaining fraction of
        the loss reduction of the active jobs, and their number; shape (intervals,).
    delays
        Seconds from a job's arrival until it reaches each level of `LEVELS` and, in the last
        column, its end; shape (jobs, levels + 1).
    gaps, seconds
        Gap and seconds of every decision, shape (intervals,).
    """

    times: Floats
    loss: Floats
    active: Indices
    delays: Floats
    gaps: Floats
    seconds: Floats


def run_cluster(
    jobs: Sequence[LossJob], cores: int, rule: Rule, report: Report = lambda _: None
) -> Course:
    """Simulate all jobs to their ends.

    Parameters
    ----------
    jobs
        Jobs in order of arrival.
    cores
        Number of cores.
    rule
        Rule that decides every `INTERVAL` seconds.
    report
        Called with the fraction of jobs that have ended.

    Raises
    ------
    RuntimeError
        If `rule` allocates more than `cores` cores, or fewer than 0 to a job.
    """
    done, delays = np.zeros(len(jobs)), np.full((len(jobs), len(LEVELS) + 1), np.nan)
    goals = np.array([_goals(job) for job in jobs])
    rows: list[tuple[float, float, int, float, float]] = []
    now = 0.0
    while np.isnan(delays[:, -1]).any():
        there = [
            index
            for index, job in enumerate(jobs)
            if job.arrival <= now and np.isnan(delays[index, -1])
        ]
        if not there:
            now += INTERVAL
            continue
        active = [jobs[index] for index in there]
        decided = rule(active, done[there].tolist(), cores)
        if decided.cores.sum() > cores or (decided.cores < 0).any():
            raise RuntimeError(f"Cores used: {decided.cores.sum()}; there are {cores}.")
        left = []
        for index, job, held in zip(there, active, decided.cores.tolist(), strict=True):
            rate = float(job.rate(np.array(float(held))))
            before, after = done[index], done[index] + rate * INTERVAL
            passed = np.isnan(delays[index]) & (goals[index] <= after)
            if rate > 0:
                delays[index, passed] = now - job.arrival + (goals[index, passed] - before) / rate
            done[index] = min(after, job.iterations)
            left.append(job.left_after(done[index]))
        now += INTERVAL
        rows.append((now, float(np.mean(left)), len(there), decided.gap, decided.seconds))
        report(1.0 - float(np.isnan(delays[:, -1]).mean()))
    times, loss, count, gaps, seconds = np.array(rows).T
    return Course(times, loss, count.astype(np.int64), delays, gaps, seconds)


def _goals(job: LossJob) -> list[float]:
    """Return the iterations at which a job reaches each of `LEVELS`, and its last iteration."""
    fallen = 1.0 - job.left
    return [*(float(np.argmax(fallen >= level)) for level in LEVELS), float(job.iterations)]
