"""Benchmark of throughput fits; `python -m goodalloc.experiments.benchmarks.fitting`.

Each row of the CSV is one number of jobs with one number of observations each: seconds of the
first call (compiling and running, unless the size was compiled for an earlier row), seconds of the
fastest repeat, and fits per second. The published procedure, L-BFGS-B of SciPy for one job at a
time, is run on the first of the same jobs: its fits per second, the mean loss of both, the largest
excess of ours, the share of jobs for which ours is clearly smaller, and the mean over the jobs of
the median relative error of the step time.

The observations are drawn from the published measurements if `--reference` names their folder,
else from the shipped profiles with noise.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.applications.measurements import APPLICATIONS, read_observations
from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.models.fitting.fit import CPU_LANES, fit_throughput
from goodalloc.models.fitting.problem import (
    FitOptions,
    pad_observations,
    pad_problem,
    settings_of,
    state_problem,
)
from goodalloc.models.goodput.throughput_model import ThroughputParameters, gradient_time, step_time
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.fitting.fit import Fit
    from goodalloc.models.fitting.problem import Observations
    from goodalloc.models.support.array_types import Floats

LOGGER = logging.getLogger(__name__)

#: Difference in loss that counts as clear.
CLEARLY = 1e-4

#: Standard deviation of the logarithm of a drawn time.
NOISE = 0.05

#: Numbers of replicas, one of which is the most that a job ran on: agents see few at first.
LARGEST_REPLICAS = (2, 4, 16)


class Measurement(NamedTuple):
    """Row of the table."""

    jobs: int
    observations: int
    first_call_seconds: float
    run_seconds: float
    fits_per_second: float
    published_fits_per_second: float
    mean_loss: float
    published_mean_loss: float
    largest_excess_loss: float
    share_clearly_smaller: float
    step_error: float
    published_step_error: float


def published_loss(point: Floats, table: Floats) -> tuple[float, Floats]:
    """Return the published loss and its gradient, by explicit formulas.

    Parameters
    ----------
    point
        The seven parameters in the order of `ThroughputParameters`.
    table
        Observations of one job, of shape (observations, 5).
    """
    nodes, replicas, atomic, gradient, step = table.T
    alpha, beta, alpha_local, beta_local, alpha_node, beta_node, gamma = point
    excess = np.maximum(replicas - 2.0, 1e-8)
    local, node = (replicas > 1) & (nodes == 1), nodes > 1
    wait = local * (alpha_local + beta_local * excess) + node * (alpha_node + beta_node * excess)
    wait = np.where(replicas == 1, 1e-8, wait) + 1e-16
    compute = alpha + beta * atomic
    powers = compute**gamma, wait**gamma
    total = powers[0] + powers[1]
    residuals = np.log(compute / gradient), np.log(total) / gamma - np.log(step)
    roots = [np.sqrt(np.mean(residual**2)) for residual in residuals]
    ratios = beta_local / alpha_local, beta_node / alpha_node
    loss = sum(roots) + 1e-3 * (gamma - 1.0) ** 2 + 1e-2 * (ratios[0] ** 2 + ratios[1] ** 2)
    pulls = [
        residual / (len(table) * root) if root > 0.0 else np.zeros_like(residual)
        for residual, root in zip(residuals, roots, strict=True)
    ]
    by_compute = (pulls[0] + pulls[1] * powers[0] / total) / compute
    by_wait = pulls[1] * powers[1] / total / wait
    mean_log = (powers[0] * np.log(compute) + powers[1] * np.log(wait)) / total
    slopes = (
        by_compute,
        by_compute * atomic,
        by_wait * local,
        by_wait * local * excess,
        by_wait * node,
        by_wait * node * excess,
        pulls[1] * (mean_log - np.log(total) / gamma) / gamma,
    )
    # sums, as dot products of a threaded BLAS are slower on arrays this small
    slope = np.array([part.sum() for part in slopes])
    slope[[2, 4]] -= 2e-2 * np.square(ratios) / (alpha_local, alpha_node)
    slope[[3, 5]] += 2e-2 * np.array(ratios) / (alpha_local, alpha_node)
    slope[6] += 2e-3 * (gamma - 1.0)
    return float(loss), slope


def published_fit(table: Floats) -> tuple[Floats, float]:
    """Fit one job as published: L-BFGS-B with bounds, unseen regimes fixed at their lower bounds.

    Parameters
    ----------
    table
        Observations of one job, of shape (observations, 5).

    Returns
    -------
    ndarray, float
        The seven parameters (those of several nodes at their bounds, if unseen) and the loss.
    """
    from scipy.optimize import Bounds, minimize

    nodes, replicas, atomic, gradient, _ = table.T
    start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    lower = np.array([1e-8] * 6 + [1.0])
    upper = np.array([np.inf] * 6 + [10.0])
    fixed = np.zeros(7, dtype=bool)
    if len(np.unique(atomic)) == 1:
        fixed[0], lower[0] = True, gradient.mean() / 2.0
    fixed[2:4] |= not ((nodes == 1) & (replicas > 1)).any()
    fixed[4:6] |= not (nodes > 1).any()
    fixed[[3, 5]] |= not (replicas > 2).any()
    start, upper = np.where(fixed, lower, start), np.where(fixed, lower, upper)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = minimize(
            published_loss,
            start,
            args=(table,),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower, upper, keep_feasible=True),
        )
    return result.x, float(result.fun)


def measured_tables(reference: Path) -> list[Floats]:
    """Return the published measurements of each application."""
    return [
        read_observations(reference / "pollux" / "traces" / name, application)
        for name, application in APPLICATIONS.items()
    ]


def drawn_tables(generator: np.random.Generator, size: int = 500) -> list[Floats]:
    """Draw measurements of each shipped profile.

    Parameters
    ----------
    generator
        Random number generator.
    size
        Number of measurements of each.
    """
    tables = []
    for name in application_names():
        profile = load_profile(name)
        replicas = generator.integers(1, LARGEST_REPLICAS[-1] + 1, size).astype(float)
        nodes = np.minimum(generator.integers(1, 5, size), replicas)
        low, high = profile.batch.atomic_minimum, profile.batch.atomic_maximum
        atomic = np.rint(np.exp(generator.uniform(np.log(low), np.log(high), size)))
        noise = np.exp(generator.normal(0.0, NOISE, (2, size)))
        gradient = gradient_time(profile.throughput, atomic) * noise[0]
        step = step_time(profile.throughput, nodes, replicas, atomic, 0.0) * noise[1]
        tables.append(np.stack([nodes, replicas, atomic, gradient, step], axis=1))
    return tables


def draw_jobs(
    tables: Sequence[Floats], jobs: int, observations: int, generator: np.random.Generator
) -> list[Floats]:
    """Draw the observations of each job, as an agent would have them.

    Parameters
    ----------
    tables
        Measurements of each application.
    jobs, observations
        Number of jobs, and of observations of each.
    generator
        Random number generator.
    """
    drawn = []
    for index in range(jobs):
        table = tables[index % len(tables)]
        table = table[table[:, 1] <= generator.choice(LARGEST_REPLICAS)]
        rows = generator.choice(len(table), min(observations, len(table)), replace=False)
        drawn.append(table[rows])
    return drawn


def step_error(point: Floats, table: Floats) -> float:
    """Return the median relative error of the step time of one job."""
    nodes, replicas, atomic, _, step = table.T
    predicted = step_time(ThroughputParameters(*point.tolist()), nodes, replicas, atomic, 0.0)
    return float(np.median(np.abs(predicted / step - 1.0)))


def _timed(observations: Observations) -> tuple[Fit, float]:
    """Return the fit of jobs, and its seconds."""
    start = time.perf_counter()
    fit = fit_throughput(observations)
    return fit, time.perf_counter() - start


def measure(tables: Sequence[Floats], published: int, repeats: int) -> Measurement:
    """Fit jobs together, and the first of them as published.

    Parameters
    ----------
    tables
        Observations of each job.
    published
        Number of jobs to fit as published.
    repeats
        Number of fits of all jobs.
    """
    padded = pad_observations(tables)
    fit, first_seconds = _timed(padded)
    seconds = min(_timed(padded)[1] for _ in range(repeats))
    few = tables[:published]
    published_fit(few[0])  # imports
    start = time.perf_counter()
    others = [published_fit(table) for table in few]
    published_seconds = time.perf_counter() - start
    losses = np.array([loss for _, loss in others])
    excess = fit.loss[: len(few)] - losses
    LOGGER.info("%d jobs: %.3g fits per second", len(tables), len(tables) / seconds)
    return Measurement(
        jobs=len(tables),
        observations=max(map(len, tables)),
        first_call_seconds=first_seconds,
        run_seconds=seconds,
        fits_per_second=len(tables) / seconds,
        published_fits_per_second=len(few) / published_seconds,
        mean_loss=float(fit.loss[: len(few)].mean()),
        published_mean_loss=float(losses.mean()),
        largest_excess_loss=float(excess.max()),
        share_clearly_smaller=float((excess < -CLEARLY).mean()),
        step_error=float(fit.step_error.median[: len(few)].mean()),
        published_step_error=float(
            np.mean(
                [step_error(point, table) for (point, _), table in zip(others, few, strict=True)]
            )
        ),
    )


class FittingWork(NamedTuple):
    """Work of a fit, the mean over jobs.

    Attributes
    ----------
    mean_evaluations
        Iterations from all starts.
    functions_each
        Transcendental functions: an iteration predicts the times of all observations at each point
        that it tries and twice more, with 6 functions an observation and 8 a point; half of the
        tried points take a logarithm for each parameter.
    bytes_each
        Bytes of its observations, starts and bounds.
    """

    mean_evaluations: float
    functions_each: float
    bytes_each: float


def fitting_work(observations: Observations) -> FittingWork:
    """Return the work of the fits of jobs.

    Parameters
    ----------
    observations
        Measured steps of the jobs.
    """
    import jax

    from goodalloc.models.fitting.search import DAMPINGS, LENGTHS, SIZE, search

    options = FitOptions()
    problem, _ = state_problem(observations, options)
    jobs, padded = len(problem.nodes), pad_problem(problem)
    with jax.enable_x64(True):
        found = search(padded, np.int64(jobs), settings_of(options), CPU_LANES)
        iterations = float(np.asarray(found.iterations)[:jobs].sum()) / jobs
    tried, seen = 2 * len(DAMPINGS) * len(LENGTHS), padded.nodes.shape[1]
    functions = (tried + 2) * (6 * seen + 8) + SIZE * tried / 2
    moved = sum(np.asarray(leaf)[0].nbytes for leaf in leaves(padded))
    return FittingWork(iterations, functions * iterations, float(moved))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_fitting", __doc__)
    parser.add_argument("--jobs", type=whole(1), nargs="+", default=[1, 16, 64, 256, 1024])
    parser.add_argument("--observations", type=whole(1), nargs="+", default=[5])
    parser.add_argument("--published", type=whole(1), default=100, help="jobs to fit as published")
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--reference", type=Path, help="folder that holds pollux/")
    given = parser.parse_args(argv)
    generator = np.random.default_rng(given.seed)
    tables = measured_tables(given.reference) if given.reference else drawn_tables(generator)
    rows = [
        measure(draw_jobs(tables, jobs, observations, generator), given.published, given.repeats)
        for observations in given.observations
        for jobs in given.jobs
    ]
    write_measurements(Measurement._fields, rows, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
