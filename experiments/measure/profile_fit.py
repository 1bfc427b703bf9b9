r"""Fit of a throughput model to a measured profile, and its errors on held-out configurations.

The seven parameters are fitted to whole steps, as in Pollux, or to steps and the parts of them that
the profiler tells apart (`models/fitting/step_parts.py`), where the update by the optimiser may
have a term of its own. The configurations (nodes, replicas, atomic batch size; the fit ignores
accumulation, so those that differ in it alone stay together) are divided into five parts, each of
which is held out once and has its share of every number of replicas. Errors of predicted times are
the RMSLE (`statistics.py`) and the median of :math:`|\hat T_i / T_i - 1|`.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from goodalloc.experiments.reporting.statistics import rmsle
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import Observations
from goodalloc.models.fitting.step_parts import StepFit, fit_step_parts
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.job import MOST_REPLICAS, Job
from goodalloc.models.round.mode import Mode
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices

#: Number of parts of the configurations.
FOLDS = 5


#: What a model is fitted to: whole steps, by Pollux's loss or weighted by their errors; also their
#: parts; and these with a term that Pollux lacks.
Method = Literal["steps", "weighted steps", "parts", "parts and update", "parts and contention"]

#: Fits with no other terms than those of Pollux, of which a goodput model can be made; and those
#: that need no parts.
PLAIN: tuple[Method, ...] = ("steps", "weighted steps", "parts")
BLIND: tuple[Method, ...] = PLAIN[:2]


@dataclass(frozen=True)
class ProfileFit:
    """Profile with a fit to all of it, and fits to all but one part.

    Parameters
    ----------
    profile
        The measured profile.
    method
        What was fitted.
    fitted
        Fit to all configurations.
    fold
        Part of each configuration, of shape (configurations,).
    held_out
        Fits without each part; none if there are too few configurations.
    """

    profile: MeasuredProfile
    method: Method
    fitted: StepFit
    fold: Indices
    held_out: tuple[StepFit, ...]

    @property
    def parameters(self) -> ThroughputParameters:
        """Parameters fitted to all configurations."""
        return self.fitted.parameters

    def predicted(self, *, held_out: bool) -> tuple[Floats, Floats]:
        """Return predicted seconds of passes with their updates, and of steps.

        Parameters
        ----------
        held_out
            Whether each configuration is predicted by the fit that held it out.
        """
        fits = self.held_out if held_out else (self.fitted,)
        which = self.fold if held_out else np.zeros_like(self.fold)
        passes, steps = (
            np.stack(times)
            for times in zip(*(predicted_times(fit, self.profile) for fit in fits), strict=True)
        )
        every = np.arange(len(which))
        return passes[which, every], steps[which, every]

    def step_error(self, *, held_out: bool) -> float:
        """Return the RMSLE of predicted steps; `held_out` as in `predicted`."""
        return rmsle(self.predicted(held_out=held_out)[1], self.profile.step_time)


def predicted_times(fit: StepFit, profile: MeasuredProfile) -> tuple[Floats, Floats]:
    """Return predicted seconds of passes with their updates, and of steps.

    Parameters
    ----------
    fit
        The fit.
    profile
        Profile with the configurations.
    """
    one = profile
    times = fit.times(one.nodes, one.replicas, one.atomic_batch_size, one.accumulation_steps)
    return times.passes + fit.update / (one.accumulation_steps + 1.0), times.steps


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


def methods_for(profile: MeasuredProfile) -> tuple[Method, ...]:
    """Return what can be fitted to a profile: parts only where the profiler saw some.

    Parameters
    ----------
    profile
        The measured profile.
    """
    return get_args(Method) if profile.has_parts else BLIND


def fit_profile(
    profile: MeasuredProfile, seed: int = 0, method: Method | None = None
) -> ProfileFit:
    """Fit a profile, once to all configurations and once without each part.

    Parameters
    ----------
    profile
        The measured profile.
    seed
        Seed of the parts.
    method
        What to fit; None for the one of `PLAIN` that predicts held-out steps best.

    Raises
    ------
    ValueError
        If the profile has no parts and the method needs some, a configuration has more nodes than
        replicas, or a part of the configurations has no usable measurement.
    """
    known = methods_for(profile)
    if method is None:
        return best_fit(fit_profile(profile, seed, one) for one in PLAIN if one in known)
    require_choice("Fit: method", method, get_args(Method))
    if method not in known:
        raise ValueError(
            f"Fit: method is '{method}', but no step of several replicas has parts that the "
            f"profiler saw; expected {' or '.join(BLIND)}."
        )
    fold = split_folds(profile, seed)
    parts = range(FOLDS) if len(np.unique(fold)) == FOLDS else range(0)
    masks = [np.ones(len(fold), dtype=bool), *(fold != part for part in parts)]
    fits = fits_to(profile, masks, method)
    return ProfileFit(profile, method, fits[0], fold, tuple(fits[1:]))


def best_fit(fits: Iterable[ProfileFit]) -> ProfileFit:
    """Return the fit, of those to make a goodput model of, that predicts held-out steps best.

    Parameters
    ----------
    fits
        Fits to one profile, of `PLAIN` and others.
    """
    plain = (fit for fit in fits if fit.method in PLAIN)
    return min(plain, key=lambda fit: fit.step_error(held_out=bool(fit.held_out)))


def fits_to(profile: MeasuredProfile, masks: Sequence[Flags], method: Method) -> list[StepFit]:
    """Return a fit to each of several selections of configurations.

    Parameters
    ----------
    profile
        The measured profile.
    masks
        Selections, each of shape (configurations,).
    method
        What to fit.
    """
    if method != "steps":
        steps = profile.steps()
        if method in BLIND:
            steps = steps.without_parts()
        chosen = (steps.select(mask) for mask in masks)
        update, contention = (method.endswith(term) for term in ("update", "contention"))
        return [
            fit_step_parts(steps, update_apart=update, contention=contention) for steps in chosen
        ]
    whole = profile.observations()
    repeated = (np.repeat(column, len(masks), axis=0) for column in whole[:-1])
    together = Observations._make([*repeated, np.stack(masks)])
    found = np.stack(fit_throughput(together).parameters, axis=1)
    return [StepFit(ThroughputParameters(*map(float, row))) for row in found]


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
        If `initial` < 1, `maximum` < `initial`, `noise_scale` < 0, the limits contradict the
        measured batch sizes, or the fit has terms that Pollux lacks.
    """
    if fit.method not in PLAIN:
        raise ValueError(
            f"Fit: method is '{fit.method}'; expected one of {', '.join(PLAIN)}, as a goodput "
            "model has no other terms."
        )
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
