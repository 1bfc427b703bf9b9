"""Jobs whose losses fall on cores that they share, interval by interval, under some rule.

A rule is told of the jobs that are there what SLAQ (SoCC'17) knows: the losses that they measured
and how fast they are on how many cores. Between decisions jobs advance evenly, and cores that a
job leaves are idle until the next one. Whoever arrives waits for the next decision too.
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


#: Seconds from one decision to the next: "a few seconds" in the paper.
INTERVAL = 3.0

#: Parts of the loss reduction for which the time is taken.
LEVELS = (0.25, 0.5, 0.75, 0.9, 0.95)


class Decided(NamedTuple):
    """What a rule decides.

    Attributes
    ----------
    cores
        Of every job.
    gap
        How far its total is from the greatest, as a part of it; NaN where it has none.
    seconds
        It took so long to share the cores out, without predictions.
    """

    cores: Indices
    gap: float = float("nan")
    seconds: float = float("nan")


#: Decides on the jobs that are there, with so many iterations done, and on so many cores.
Rule = Callable[[Sequence[LossJob], Sequence[float], int], Decided]


def fair(jobs: Sequence[LossJob], done: Sequence[float], cores: int) -> Decided:
    """Everybody gets the same; what is left over goes to those that came first."""
    del done
    each, rest = divmod(cores, len(jobs))
    return Decided((each + (np.arange(len(jobs)) < rest)).astype(np.int64))


def by_gain(
    share: Callable[..., Shares],
    normalised_by: NormalisedBy = "largest_fall",
    *,
    measure_gap: bool = False,
) -> Rule:
    """The rule of SLAQ with one of its solvers.

    Parameters
    ----------
    share
        Shares cores out by their gains.
    normalised_by
        What falls are measured in.
    measure_gap
        Whether the exact optimum is found too.
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


#: The rules that are compared.
RULES: dict[str, Rule] = {
    "fair": fair,
    "slaq": by_gain(share_greedily, measure_gap=True),
    "slaq-exact": by_gain(share_exactly),
    "slaq-first-loss": by_gain(share_greedily, "first_loss"),
}


class Course(NamedTuple):
    """What became of the jobs.

    Attributes
    ----------
    times, loss, active
        After every interval in which somebody was there: seconds from the start, the mean of what
        is left of the falls of the jobs that were, and how many these were.
    delays
        Seconds from its arrival until a job has so much of its fall behind it, shape (jobs,
        levels); the last column is to its end.
    gaps, seconds
        Of every decision.
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
    """Let all jobs run to their ends.

    Parameters
    ----------
    jobs
        In order of arrival.
    cores
        How many there are.
    rule
        Decides.
    report
        Is told what part of the jobs has ended.
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
    """The iterations after which a job has so much of its fall behind it, the last its end."""
    fallen = 1.0 - job.left
    return [*(float(np.argmax(fallen >= level)) for level in LEVELS), float(job.iterations)]
