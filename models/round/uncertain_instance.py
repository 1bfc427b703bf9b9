"""Rounds whose models are uncertain: speedups over draws of the fitted parameters.

A model that was fitted to noisy measurements is one of many that would fit. `robust_instance` draws
some of them and gives every job the mean of its speedups under all, or the least. The result is a
round like any other, with tables of speedups in place of models, so that every solver decides it
and every bound of it is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args
from zlib import crc32

import numpy as np

from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import speedup_table
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.mode import JobModel, Mode
    from goodalloc.models.support.array_types import Floats

#: How the speedups of all draws become one.
View = Literal["mean", "least"]


@dataclass(frozen=True)
class Uncertainty:
    """Distribution of the true parameters around the fitted ones, and how to decide under it.

    The logarithms of the throughput parameters other than gamma, and of the gradient variance, are
    normal and independent; draws come in pairs of opposite errors.

    Parameters
    ----------
    step_time, noise_scale
        Standard deviations of the logarithms of a throughput parameter, and of the gradient
        variance.
    view
        ``"mean"`` for the mean of the speedups over all draws, ``"least"`` for the worst case.
    pairs
        Number of pairs of draws.
    seed
        Seed of the draws.

    Raises
    ------
    ValueError
        If a deviation is negative or not a number, `view` is unknown, `pairs` is below 1, or `seed`
        is negative.

    Examples
    --------
    >>> from goodalloc.models.round import Uncertainty
    >>> Uncertainty(step_time=0.2, view="least").pairs
    8
    """

    step_time: float = 0.2
    noise_scale: float = 0.2
    view: View = "mean"
    pairs: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("step_time", "noise_scale"):
            require_number(f"Uncertainty: {name}", getattr(self, name), minimum=0.0)
        require_choice("Uncertainty: view", self.view, get_args(View))
        require_count("Uncertainty: pairs", self.pairs, minimum=1)
        require_count("Uncertainty: seed", self.seed, minimum=0)

    def draws(self, job: str, mode: int) -> Floats:
        """Return factors of the parameters and of the gradient variance, (draws, 7).

        Parameters
        ----------
        job, mode
            Name of the job and number of its mode, from which with the seed they are drawn.
        """
        random = np.random.default_rng([self.seed, crc32(job.encode()), mode])
        errors = random.standard_normal((self.pairs, 7))
        errors *= np.array([*[self.step_time] * 6, self.noise_scale])
        factors: Floats = np.exp(np.concatenate([errors, -errors]))
        return factors


def robust_instance(instance: Instance, uncertainty: Uncertainty) -> Instance:
    """Return a round with the speedups of all models over draws of their parameters.

    Jobs without a model, or with a table, keep what they have.

    Parameters
    ----------
    instance
        The round.
    uncertainty
        Distribution of the parameters.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.models.round import SpeedupTable, Uncertainty, robust_instance
    >>> instance = load_benchmark("tiny-cold")
    >>> robust = robust_instance(instance, Uncertainty(step_time=0.3))
    >>> robust.num_jobs == instance.num_jobs
    True
    """
    draws = {
        (job.name, mode.name): uncertainty.draws(job.name, number)
        for job in instance.jobs
        for number, mode in enumerate(job.all_modes)
    }
    tables = []
    for draw in range(2 * uncertainty.pairs):
        factors = {key: found[draw].tolist() for key, found in draws.items()}
        tables.append(speedup_table(_with_models(instance, partial(_drawn, factors))))
    combine = np.mean if uncertainty.view == "mean" else np.min
    table = combine(np.array(tables), axis=0)
    rows = dict(zip(draws, table[:, :, 1:].tolist(), strict=True))

    def tabulated(job: str, mode: Mode) -> JobModel:
        known = isinstance(mode.model, GoodputModel)
        return SpeedupTable(*map(tuple, rows[job, mode.name])) if known else mode.model

    return _with_models(instance, tabulated)


def _drawn(factors: dict[tuple[str, str], list[float]], job: str, mode: Mode) -> JobModel:
    """Return the model of a mode with its parameters times factors."""
    model = mode.model
    if not isinstance(model, GoodputModel):
        return model
    *times, variance = factors[job, mode.name]
    names = model.throughput._fields[: len(times)]
    scaled = {
        name: getattr(model.throughput, name) * factor
        for name, factor in zip(names, times, strict=True)
    }
    return model._replace(
        throughput=model.throughput._replace(**scaled),
        gradient=model.gradient._replace(variance=model.gradient.variance * variance),
    )


def _with_models(instance: Instance, model_of: Callable[[str, Mode], JobModel]) -> Instance:
    """Return the round with other models of the modes of its jobs."""
    jobs = []
    for job in instance.jobs:
        if job.modes:
            modes = tuple(replace(mode, model=model_of(job.name, mode)) for mode in job.modes)
            jobs.append(job.replace(modes=modes))
        else:
            jobs.append(job.replace(model=model_of(job.name, job.all_modes[0])))
    return instance.replace(jobs=tuple(jobs))
