r"""Fit of a throughput model to a measured profile, and its errors on held-out configurations.

The seven parameters are fitted as in Pollux. The configurations (nodes, replicas, atomic batch
size; the fit ignores accumulation, so those that differ in it alone stay together) are divided into
five parts, each of which is held out once and has its share of every number of replicas. Errors of
predicted times are the RMSLE (`statistics.py`) and the median of :math:`|\hat T_i / T_i - 1|`.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
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
from goodalloc.models.round.mode import Mode
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices

#: Number of parts of the configurations.
FOLDS = 5


@dataclass(frozen=True)
class ProfileFit:
    """Profile with a fit to all of it, and fits to all but one part.

    Parameters
    ----------
    profile
        The measured profile.
    parameters
        Parameters fitted to all configurations.
    fold
        Part of each configuration, of shape (configurations,).
    held_out
        Parameters fitted without each part; none if there are too few configurations.
    """

    profile: MeasuredProfile
    parameters: ThroughputParameters
    fold: Indices
    held_out: tuple[ThroughputParameters, ...]

    def predicted(self, *, held_out: bool) -> tuple[Floats, Floats]:
        """Return predicted seconds of passes with their updates, and of steps.

        Parameters
        ----------
        held_out
            Whether each configuration is predicted by the fit that held it out.
        """
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
    """Return a random part for each configuration: 0 to `FOLDS` - 1, as evenly as possible.

    Parameters
    ----------
    profile
        The measured profile.
    seed
        Seed of the parts.
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
    """Fit a profile, once to all configurations and once without each part.

    Parameters
    ----------
    profile
        The measured profile.
    seed
        Seed of the parts.

    Raises
    ------
    ValueError
        If a configuration has more nodes than replicas, or a part of the configurations has no
        usable measurement.
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
    """Return rows of errors of predicted passes and steps, fitted and held out.

    Parameters
    ----------
    fit
        The result of `fit_profile`.
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
    """Return the goodput model of a job that trains the measured model.

    Parameters
    ----------
    fit
        The result of `fit_profile`.
    noise_scale
        Gradient noise scale (examples); None if it is unknown, so that throughput alone counts.
    initial, maximum
        Least and largest total batch size (examples); those of the profile if None.

    Raises
    ------
    ValueError
        If `initial` < 1, `maximum` < `initial`, `noise_scale` < 0, or the limits contradict the
        measured batch sizes.
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


#: Age of added jobs in seconds: at age 0 the restart penalty of Pollux leaves no gain of a start.
AGE = 3600.0


def with_jobs(
    instance: Instance,
    application: str,
    model: GoodputModel | Mapping[str, GoodputModel],
    largest: int,
    jobs: int,
) -> Instance:
    """Return an instance with more jobs, which were submitted an hour ago and have not run.

    Parameters
    ----------
    instance
        The round.
    application
        Application of the jobs; their names are this and a number.
    model
        Their goodput model; or one for each type of GPU, by its name, for a mode of each.
    largest
        Most replicas that were measured: a job may grow to twice as many, as in Pollux.
    jobs
        Number of jobs to add.

    Raises
    ------
    ValueError
        If the cluster has no GPU of a type.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.measure import with_jobs
    >>> instance = load_benchmark("tiny-cold")
    >>> more = with_jobs(instance, "mine", instance.jobs[0].model, largest=4, jobs=2)
    >>> [(job.name, job.max_replicas) for job in more.jobs[-2:]]
    [('mine-0', 8), ('mine-1', 8)]
    """
    there = {job.name for job in instance.jobs}
    free = (name for i in itertools.count() if (name := f"{application}-{i}") not in there)
    by_type = model if isinstance(model, Mapping) else {"": model}
    there_are = instance.cluster.gpu_types
    for kind in by_type:
        if kind and kind not in there_are:
            known = ", ".join(f"'{name}'" for name in there_are)
            raise ValueError(
                f"Jobs of '{application}': gpu_type is '{kind}'; expected one of the cluster's "
                f"({known})."
            )
    modes = tuple(Mode(kind, own, gpu_type=kind) for kind, own in by_type.items() if kind)
    alone = by_type.get("")
    limits = [own.batch for own in by_type.values()]
    fits = max(int(batch.maximum) // int(batch.atomic_minimum) for batch in limits)
    most = min(2 * largest, MOST_REPLICAS, fits)
    added = [
        Job(name, alone, age=AGE, max_replicas=most, application=application, modes=modes)
        for name in itertools.islice(free, jobs)
    ]
    return instance.replace(jobs=(*instance.jobs, *added))
