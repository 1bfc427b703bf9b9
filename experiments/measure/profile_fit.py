r"""Fit a model of throughput to a measured profile, and say how well it predicts what it never saw.

The seven parameters are fitted as Pollux fits them. Of five parts of the configurations (nodes,
replicas, atomic batch size: what the fit tells apart, so those that differ in accumulation stay
together) each is held out once, with its share of every number of replicas. Errors of predicted
times are the RMSLE (`statistics.py`) and the median of :math:`|\hat T_i / T_i - 1|`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.reporting.statistics import rmsle
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import Observations
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters, gradient_time, step_time
from goodalloc.models.round.job import MOST_REPLICAS, Job
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Parts of the configurations.
FOLDS = 5


@dataclass(frozen=True)
class ProfileFit:
    """A profile with the fit to all of it and those to all but one part.

    Parameters
    ----------
    profile
        What was measured.
    parameters
        Fitted to everything.
    fold
        The part of each configuration, of shape (configurations,).
    held_out
        Parameters fitted without each part; none where there are too few configurations.
    """

    profile: MeasuredProfile
    parameters: ThroughputParameters
    fold: Indices
    held_out: tuple[ThroughputParameters, ...]

    def predicted(self, *, held_out: bool) -> tuple[Floats, Floats]:
        """Seconds of every pass with its update, and step, by the fit that saw it or did not."""
        fits = self.held_out if held_out else (self.parameters,)
        which = self.fold if held_out else np.zeros_like(self.fold)
        one = self.profile
        passes = np.stack([gradient_time(fit, one.atomic_batch_size) for fit in fits])
        steps = np.stack(
            [
                step_time(
                    fit, one.nodes, one.replicas, one.atomic_batch_size, one.accumulation_steps
                )
                for fit in fits
            ]
        )
        every = np.arange(len(which))
        return passes[which, every], steps[which, every]


def split_folds(profile: MeasuredProfile, seed: int) -> Indices:
    """A part for each configuration, by chance: 0 to `FOLDS` - 1, as even as can be.

    Parameters
    ----------
    profile
        What was measured.
    seed
        Of the chance.
    """
    kinds, which = np.unique(profile.configurations, axis=0, return_inverse=True)
    generator = np.random.default_rng(seed)
    fold = np.empty(len(kinds), dtype=np.int64)
    dealt = 0
    for pair in np.unique(kinds[:, :2], axis=0):
        members = generator.permutation(np.flatnonzero((kinds[:, :2] == pair).all(axis=1)))
        fold[members] = (dealt + np.arange(members.size)) % FOLDS
        dealt += members.size
    return fold[which.reshape(-1)]


def fit_profile(profile: MeasuredProfile, seed: int = 0) -> ProfileFit:
    """Fit a profile, once to everything and once without each part.

    Parameters
    ----------
    profile
        What was measured.
    seed
        Of the parts.

    Raises
    ------
    ValueError
        As `fit_throughput`.
    """
    fold = split_folds(profile, seed)
    parts = range(FOLDS) if len(np.unique(fold)) == FOLDS else range(0)
    masks = [np.ones(len(fold), dtype=bool), *(fold != part for part in parts)]
    whole = profile.observations()
    repeated = (np.repeat(column, len(masks), axis=0) for column in whole[:-1])
    together = Observations._make([*repeated, np.stack(masks)])
    found = fit_throughput(together).parameters
    fits = [ThroughputParameters(*map(float, row)) for row in np.stack(found, axis=1)]
    return ProfileFit(profile, fits[0], fold, tuple(fits[1:]))


def error_rows(fit: ProfileFit) -> list[dict[str, Any]]:
    """Errors of the predicted pass and step: as fitted, and of the parts that were held out.

    Parameters
    ----------
    fit
        As `fit_profile` returns it.
    """
    one = fit.profile
    rows = []
    for held_out in (False, True) if fit.held_out else (False,):
        passes, steps = fit.predicted(held_out=held_out)
        kinds: list[tuple[str, Floats, Floats]] = [
            ("pass", passes, one.gradient_time),
            ("step", steps, one.step_time),
        ]
        for time, predicted, measured in kinds:
            ratio = predicted / measured
            rows.append(
                {
                    "configurations": f"{FOLDS}-fold held out" if held_out else "fitted",
                    "time": time,
                    "measurements": ratio.size,
                    "rmsle": rounded(rmsle(predicted, measured)),
                    "median_error": rounded(float(np.median(np.abs(ratio - 1.0)))),
                    "worst_error": rounded(float(np.max(np.abs(ratio - 1.0)))),
                }
            )
    return rows


def goodput_model(
    fit: ProfileFit,
    *,
    noise_scale: float | None = None,
    initial: int | None = None,
    maximum: int | None = None,
) -> GoodputModel:
    """The model of a job that trains what was measured.

    Parameters
    ----------
    fit
        As `fit_profile` returns it.
    noise_scale
        Gradient noise scale (examples); None where it is not known, so that throughput alone
        counts.
    initial, maximum
        Least and largest total batch size (examples); as measured if None.

    Raises
    ------
    ValueError
        If they make no sense.
    """
    one = fit.profile
    sizes = one.atomic_batch_size.astype(int)
    totals = (one.replicas * one.atomic_batch_size * (one.accumulation_steps + 1)).astype(int)
    least = int(sizes.min()) if initial is None else initial
    most = max(int(totals.max()), least) if maximum is None else maximum
    require_count("Fit: initial batch size", least, 1)
    require_count("Fit: maximum batch size", most, least)
    batch = BatchLimits(
        least, most, int(sizes.min()), int(sizes.max()), bool(one.accumulation_steps.any())
    )
    if noise_scale is None:
        model = GoodputModel(fit.parameters, GradientStatistics(0.0, 1.0), batch).by_throughput()
    else:
        require_number("Fit: noise scale", noise_scale, 0.0)
        gradient = GradientStatistics(1.0, noise_scale / least)
        model = GoodputModel(fit.parameters, gradient, batch)
    return validate(model, "Fit")


#: Seconds since jobs that are added were submitted: with none, Pollux's penalty for restarts has
#: nothing to start a job for.
AGE = 3600.0


def with_jobs(
    instance: Instance, application: str, model: GoodputModel, largest: int, jobs: int
) -> Instance:
    """An instance with so many more jobs, which were submitted an hour ago and have not run.

    Parameters
    ----------
    instance
        The round.
    application
        What the jobs train; their names are this and a number.
    model
        Their model.
    largest
        Most replicas that were measured: a job may grow to twice as many (Pollux).
    jobs
        How many.
    """
    there = {job.name for job in instance.jobs}
    free = (name for i in itertools.count() if (name := f"{application}-{i}") not in there)
    batch = model.batch
    most = min(2 * largest, MOST_REPLICAS, int(batch.maximum) // int(batch.atomic_minimum))
    added = [
        Job(name, model, age=AGE, max_replicas=most, application=application)
        for name in itertools.islice(free, jobs)
    ]
    return instance.replace(jobs=(*instance.jobs, *added))
