"""Seeded workloads like those of Gavel's simulations (OSDI'20, section 7).

A documented reading of the generator in the published code (`generate_job` of `scheduler/utils.py`,
`scheduler/scripts/utils/generate_trace.py`): the first job comes at time 0, further ones in a
Poisson process, or all at once. A job has 1, 2, 4 or 8 replicas with probabilities 0.7, 0.1, 0.15
and 0.05, trains a configuration drawn evenly from those that run on that many GPUs, and would
take 10^x minutes on V100s, x uniform between 1.5 and 3 with probability 0.8 and else between 3 and
4. Its steps are that time multiplied by its rate there. Equal arguments give equal jobs, and the
jobs of a short workload begin a longer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import (
    literal,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.gavel.rate_table import Configuration, RateTable
    from goodalloc.models.support.array_types import Floats


HOUR, MINUTE = 3600.0, 60.0

#: Times the duration on the fastest type that jobs may take.
DEADLINE_FACTORS = (1.2, 2.0, 10.0)


class GavelJob(NamedTuple):
    """Job of the workload: its arrival, configuration and length.

    Attributes
    ----------
    name
        Unique in its workload.
    submission
        Seconds from the start of the workload.
    configuration
        Configuration that it trains.
    replicas
        GPUs that it takes, all or none.
    steps
        Total steps of all replicas together.
    """

    name: str
    submission: float
    configuration: Configuration
    replicas: int
    steps: float


@dataclass(frozen=True, slots=True)
class GavelWorkload:
    """Parameters of a workload.

    Parameters
    ----------
    jobs_per_hour
        Mean arrivals per hour; None if all jobs arrive at time 0.
    replicas
        Numbers of replicas and their probabilities, which add up to 1.
    short_share
        Fraction of short jobs.
    short, long
        Least and largest x of short and of long jobs.
    gpu_type
        Type of GPU on which a job takes 10^x minutes.
    replicas_first
        Whether replicas are drawn before the configuration, as in the published simulations. Where
        they are not, as in its traces, configurations are all equally likely, and those that run on
        one GPU only have one replica.
    families
        Families of the models; empty for all.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    jobs_per_hour: float | None = None
    replicas: tuple[tuple[int, float], ...] = ((1, 0.7), (2, 0.1), (4, 0.15), (8, 0.05))
    short_share: float = 0.8
    short: tuple[float, float] = (1.5, 3.0)
    long: tuple[float, float] = (3.0, 4.0)
    gpu_type: str = "v100"
    replicas_first: bool = True
    families: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        item = "Gavel's workload"
        if self.jobs_per_hour is not None:
            require_number(f"{item}: jobs_per_hour", self.jobs_per_hour, minimum=0.0, strict=True)
        for number, likelihood in self.replicas:
            require_count(f"{item}: replicas", number, minimum=1)
            require_share(f"{item}: likelihood of {number} replicas", likelihood)
        numbers = [number for number, _ in self.replicas]
        total = sum(likelihood for _, likelihood in self.replicas)
        if len(set(numbers)) < len(numbers) or abs(total - 1.0) > 1e-9:
            raise ValueError(
                f"{item}: replicas {numbers} have likelihoods that add up to {total:g}; expected "
                "each number once, and 1."
            )
        require_share(f"{item}: short_share", self.short_share)
        for name, (least, largest) in (("short", self.short), ("long", self.long)):
            require_number(f"{item}: {name}", least)
            require_number(f"{item}: {name}", largest, minimum=least)
            if largest > 9:
                raise ValueError(
                    f"{item}: {name} is {literal(largest)}; expected at most 9, minutes as a power "
                    "of ten."
                )
        require_flag(f"{item}: replicas_first", self.replicas_first)


#: As published, all jobs at time 0.
PUBLISHED = GavelWorkload()


def draw_gavel_jobs(
    seed: int, jobs: int, rates: RateTable, workload: GavelWorkload = PUBLISHED
) -> tuple[GavelJob, ...]:
    """Draw jobs, in the order in which they come.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    jobs
        Number of jobs.
    rates
        Rates of the configurations: `goodalloc.data.gavel.model.shipped_gavel_rates` or
        `goodalloc.data.gavel.rates.read_gavel_rates`. The same draws give the same configurations
        with both.
    workload
        Parameters of the workload.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, or no configuration runs on a drawn number of GPUs.

    Examples
    --------
    >>> from goodalloc.data.gavel import draw_gavel_jobs, gavel_rates
    >>> [job.replicas for job in draw_gavel_jobs(0, 4, gavel_rates(None))]
    [1, 1, 1, 1]
    """
    require_count("Gavel's workload: seed", seed, minimum=0)
    require_count("Gavel's workload: jobs", jobs, minimum=1, maximum=1_000_000)
    require_choice("Gavel's workload: GPU type", workload.gpu_type, rates.types)
    submissions = _submissions(_stream(seed, 0), jobs, workload)
    minutes = 10.0 ** _powers(_stream(seed, 1), jobs, workload)
    found = []
    for index, (configuration, replicas) in enumerate(_what(seed, jobs, rates, workload)):
        rate = rates.rate(configuration, replicas, workload.gpu_type)
        steps = float(minutes[index]) * MINUTE * rate
        found.append(
            GavelJob(f"job-{index}", float(submissions[index]), configuration, replicas, steps)
        )
    return tuple(found)


def draw_deadlines(
    seed: int,
    jobs: Sequence[GavelJob],
    rates: RateTable,
    factors: tuple[float, ...] = DEADLINE_FACTORS,
) -> dict[str, float]:
    """Draw the deadlines of jobs, in seconds from the start of the workload, by name.

    A deadline is 1.2, 2 or 10 times the job's duration on its fastest type, with equal probability,
    as in the published experiment on cost (our reading).

    Parameters
    ----------
    seed
        Seed of all random numbers.
    jobs
        Jobs with deadlines.
    rates
        Rates of the configurations.
    factors
        Factors of that duration.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.gavel import draw_deadlines, draw_gavel_jobs, gavel_rates
    >>> rates = gavel_rates(None)
    >>> sorted(draw_deadlines(0, draw_gavel_jobs(0, 2, rates), rates))
    ['job-0', 'job-1']
    """
    require_count("Deadlines: seed", seed, minimum=0)
    for factor in factors:
        require_number("Deadlines: factor", factor, minimum=1.0)
    drawn = _stream(seed, 4).integers(len(factors), size=len(jobs)).tolist()
    fastest = rates.alone_rates(
        [job.configuration for job in jobs], [job.replicas for job in jobs]
    ).max(axis=1)
    return {
        job.name: job.submission + factors[which] * job.steps / float(rate)
        for job, which, rate in zip(jobs, drawn, fastest, strict=True)
    }


def _stream(seed: int, purpose: int) -> np.random.Generator:
    """Return random numbers for one purpose, so that more jobs do not change the first."""
    return np.random.default_rng([seed, purpose])


def _submissions(generator: np.random.Generator, jobs: int, workload: GavelWorkload) -> Floats:
    """Draw the arrival times of jobs in seconds, shape (jobs,)."""
    if workload.jobs_per_hour is None:
        return np.zeros(jobs)
    gaps = generator.exponential(HOUR / workload.jobs_per_hour, size=jobs)
    times: Floats = np.cumsum(gaps) - gaps[0]
    return times


def _powers(generator: np.random.Generator, jobs: int, workload: GavelWorkload) -> Floats:
    """Draw x of every job, shape (jobs,)."""
    which, where = generator.random((jobs, 2)).T
    ends = np.where(which[:, None] < workload.short_share, workload.short, workload.long)
    powers: Floats = ends[:, 0] + where * (ends[:, 1] - ends[:, 0])
    return powers


def _what(
    seed: int, jobs: int, rates: RateTable, workload: GavelWorkload
) -> list[tuple[Configuration, int]]:
    """Draw the configuration and replicas of every job."""
    numbers = [number for number, _ in workload.replicas]
    edges = np.cumsum([likelihood for _, likelihood in workload.replicas])
    drawn = np.searchsorted(edges[:-1], _stream(seed, 2).random(jobs), side="right").tolist()
    places = _stream(seed, 3).random(jobs).tolist()
    kind = rates.types.index(workload.gpu_type)
    runs = {
        number: [
            configuration
            for configuration in rates.configurations
            if not workload.families or configuration.family in workload.families
            if rates.alone_rates([configuration], [number])[0, kind] > 0
        ]
        for number in {*numbers, min(rates.replicas)}
    }
    everything = runs[min(rates.replicas)]
    found = []
    for which, place in zip(drawn, places, strict=True):
        number = numbers[which]
        allowed = runs[number] if workload.replicas_first else everything
        if not allowed:
            raise ValueError(
                f"Gavel's workload: no configuration runs on {number} GPUs of type "
                f"{workload.gpu_type}; expected one."
            )
        configuration = allowed[int(place * len(allowed))]
        fits = configuration in runs[number]
        found.append((configuration, number if fits else min(rates.replicas)))
    return found
