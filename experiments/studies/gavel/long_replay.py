r"""Replays of thousands of rigid jobs under max-min fairness, on arrays: Gavel's own simulation.

It is a documented reading of the published simulator (`scheduler/scheduler.py`), for workloads that
go on until some jobs are complete. Whole types of GPU are shared, without nodes, so that replicas
count as consolidated. Shares :math:`X_{jw}` are computed anew when jobs came or went, but only
some time after the last time; who comes in between has none until then. In a round every type in
turn takes the jobs that have no GPUs yet, by

.. math:: \text{priority}_{jw} = X_{jw} \, \frac{\sum_i t_{iw}}{t_{jw}},                         (1)

with :math:`t_{jw}` the seconds that a job had on the type since the shares were computed, half a
round more than it had. Ties are broken by what the job lacks of all its earlier shares, then by the
share, then by age. GPUs that are left go to jobs without a share. Other than the published code, a
job ends within a round, not with it.

`RateSimulator` replays on nodes, any policy, and makes a few hundred jobs in the time of these
thousands.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 5. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.gavel.class_levels import ClassLevels
from goodalloc.solvers.gavel.share_rounds import LEAST_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Int

    from goodalloc.data.gavel.workload import GavelJob
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.support.array_types import Flags, Floats, Indices

#: Seconds of a round, least seconds between two computations of shares, and seconds between counts
#: of the present jobs, those of the published simulator and ours.
ROUND, RESET, COUNTED = 360.0, 1920.0, 36000.0


class LongResult(NamedTuple):
    """Outcome of a replay.

    Attributes
    ----------
    jct
        Seconds from submission to completion of the jobs that were waited for, in their order; of
        those that are not complete at the end, so far.
    unfinished
        How many of them are not complete.
    present
        Jobs that were there, counted every `COUNTED` seconds.
    seconds
        Seconds at the end.
    """

    jct: Float[Floats, " jobs"]
    unfinished: int
    present: Int[Indices, " counts"]
    seconds: float


class _Classes(NamedTuple):
    """Classes of equal jobs, and the class of every job."""

    of_job: Indices
    rate: Floats
    replicas: Indices


@dataclass
class _Present:
    """Jobs that are there, in the order in which they came: one row each."""

    job: Indices
    left: Floats
    shares: Floats
    had: Floats
    lacks: Floats

    def keep(self, stay: Flags) -> None:
        """Drop the others."""
        for name, values in vars(self).items():
            setattr(self, name, values[stay])

    def add(self, job: int, steps: float, types: int) -> None:
        """Add a job without shares."""
        self.job = np.append(self.job, job)
        self.left = np.append(self.left, steps)
        nothing = np.zeros((1, types))
        self.shares = np.concatenate([self.shares, nothing])
        self.had = np.concatenate([self.had, nothing + ROUND / 2.0])
        self.lacks = np.concatenate([self.lacks, nothing])


@dataclass
class LongReplay:
    """Replay of rigid jobs that goes on until the first of them are complete, or all have come.

    Parameters
    ----------
    jobs
        In order of submission.
    rates
        Steps per second.
    gpus
        GPUs of every type, in the order of `rates.types`.
    blind
        Whether all types count as equal: shares are of all GPUs together, and a job has as much of
        every type as its part of the GPUs; the types take jobs in a random order.
    until
        Number of jobs that are waited for.
    seed
        Seed of the order of the types.
    reset_seconds
        Least seconds between two computations of shares.
    spare
        Whether GPUs that are left go to jobs without a share of them.
    interior
        Whether the shares are those of an interior-point solver; see `ClassLevels`.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    jobs: Sequence[GavelJob]
    rates: RateTable
    gpus: tuple[int, ...]
    blind: bool
    until: int
    seed: int = 0
    reset_seconds: float = RESET
    spare: bool = True
    interior: bool = False
    _classes: _Classes = field(init=False, repr=False)
    _levels: ClassLevels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_count("Replay: until", self.until, minimum=1, maximum=len(self.jobs))
        require_number("Replay: reset_seconds", self.reset_seconds, minimum=0.0)
        for kind, count in zip(self.rates.types, self.gpus, strict=True):
            require_count(f"Replay: GPUs of type {kind}", count, minimum=1)
        self._classes = _classes_of(self.jobs, self.rates)
        rate, replicas, gpus = self._classes.rate, self._classes.replicas, np.array(self.gpus)
        if self.blind:
            replicas = np.unique(replicas)
            rate, gpus = np.ones((replicas.size, 1)), gpus.sum(keepdims=True)
        self._levels = ClassLevels(rate, gpus, replicas, self.interior)

    def run(self, report: Callable[[float], None] = lambda _: None) -> LongResult:
        """Replay.

        Parameters
        ----------
        report
            Called with the part of the jobs waited for that are complete.
        """
        types, order = len(self.gpus), np.random.default_rng([self.seed, 5])
        submission = np.array([job.submission for job in self.jobs])
        ends, present, came = np.full(len(self.jobs), np.nan), list[int](), 0
        there = _Present(np.zeros(0, dtype=np.int64), np.zeros(0), *np.zeros((3, 0, types)))
        time, since, changed = 0.0, -math.inf, False
        while came < submission.size and np.isnan(ends[: self.until]).any():
            if not there.job.size:  # nothing happens until somebody comes
                time = max(time, math.ceil(submission[came] / ROUND) * ROUND)
            while came < submission.size and submission[came] <= time:
                there.add(came, self.jobs[came].steps, types)
                came, changed = came + 1, True
            if time >= len(present) * COUNTED:
                present.append(there.job.size)
                report(1.0 - float(np.isnan(ends[: self.until]).mean()))
            if changed and time - since >= self.reset_seconds:
                self._share(there, time - max(since, 0.0))
                since, changed = time, False
            kinds = order.permutation(types) if self.blind else np.arange(types)
            ended, at = self._round(there, kinds.tolist())
            if ended.any():
                ends[there.job[ended]] = time + at[ended]
                there.keep(~ended)
                changed = True
            time += ROUND
        waited = ends[: self.until]
        seconds = time if np.isnan(waited).any() else float(waited.max())
        jct = np.where(np.isnan(waited), seconds, waited) - submission[: self.until]
        return LongResult(jct, int(np.isnan(waited).sum()), np.array(present), seconds)

    def _share(self, there: _Present, elapsed: float) -> None:
        """Compute the shares of all, and what they lack of those before."""
        there.lacks += there.shares * elapsed - (there.had - ROUND / 2.0)
        there.had[:] = ROUND / 2.0
        classes = self._classes.of_job[there.job]
        if not self.blind:
            counts = np.bincount(classes, minlength=len(self._classes.rate))
            there.shares = self._levels.solve(counts).shares[classes]
            return
        replicas = self._classes.replicas[classes]
        place = np.searchsorted(self._levels.replicas, replicas)
        counts = np.bincount(place, minlength=self._levels.replicas.size)
        part = np.array(self.gpus) / sum(self.gpus)
        there.shares = self._levels.solve(counts).shares[place] * part

    def _round(self, there: _Present, kinds: list[int]) -> tuple[Flags, Floats]:
        """Run a round; return who ended, and when, in seconds from its begin."""
        classes = self._classes.of_job[there.job]
        replicas, type_of = self._classes.replicas[classes], np.full(there.job.size, -1)
        for kind in kinds:
            least = 0.0 if self.spare else LEAST_SHARE
            may = (type_of < 0) & (self._classes.rate[classes, kind] > 0)
            may = np.flatnonzero(may & (there.shares[:, kind] >= least))
            share = there.shares[may, kind]
            keys = (-share, -there.lacks[may, kind], -share / there.had[may, kind])
            chosen = may[np.lexsort(keys)]
            type_of[_fitting(chosen, replicas[chosen], self.gpus[kind])] = kind
        runs = np.flatnonzero(type_of >= 0)
        rate = self._classes.rate[classes[runs], type_of[runs]]
        needed = there.left[runs] / rate
        there.left[runs] -= rate * ROUND
        there.had[runs, type_of[runs]] += ROUND
        ended, at = np.zeros(there.job.size, dtype=bool), np.zeros(there.job.size)
        ended[runs], at[runs] = needed <= ROUND, needed
        return ended, at


def _fitting(jobs: Indices, replicas: Indices, gpus: int) -> Indices:
    """Return those, in their order, that get GPUs, as long as there are enough for the next."""
    if replicas.size and replicas.max() == 1:
        return jobs[:gpus]
    found = []
    for place, wanted in enumerate(replicas.tolist()):
        if wanted <= gpus:
            found.append(place)
            gpus -= wanted
            if not gpus:
                break
    return jobs[found]


def _classes_of(jobs: Sequence[GavelJob], rates: RateTable) -> _Classes:
    """Return the classes of jobs that train the same configuration on as many GPUs."""
    kinds = sorted({(job.configuration, job.replicas) for job in jobs})
    places = {kind: place for place, kind in enumerate(kinds)}
    return _Classes(
        np.array([places[job.configuration, job.replicas] for job in jobs]),
        rates.alone_rates([one for one, _ in kinds], [number for _, number in kinds]),
        np.array([number for _, number in kinds]),
    )
