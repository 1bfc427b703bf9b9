"""Profiles of the applications of Pollux (OSDI'21): how fast and how efficiently each trains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats


FORMAT = "goodalloc-profiles"
VERSION = 1

#: Where it ships.
SHIPPED = "profiles/applications.json"


class Restriction(NamedTuple):
    """Total batch size (examples) and replicas that Pollux fixes for an application."""

    batch_size: int
    replicas: int


class ErrorSummary(NamedTuple):
    """Relative errors ``abs(fitted / measured - 1)`` over all measurements."""

    median: float
    percentile_90: float
    maximum: float


class FitErrors(NamedTuple):
    """Errors of the fitted throughput parameters.

    Attributes
    ----------
    observations
        Number of measurements fitted.
    loss
        Value of the fitted loss.
    gradient_time, step_time
        Errors of the pass without synchronisation, and of the whole step.
    """

    observations: int
    loss: float
    gradient_time: ErrorSummary
    step_time: ErrorSummary


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Profile of an application: throughput, batch limits and gradient statistics by progress.

    Attributes
    ----------
    name, title
        Short name, and model with data set.
    category
        Size of its jobs by GPU time: "small", "medium", "large" or "extra large".
    throughput
        Fitted throughput parameters.
    batch
        Batch limits in examples.
    progress
        Fraction of the training done at the end of each epoch, of shape (epochs,); the last is 1.
    batch_sizes
        Total batch sizes at which the statistics were measured, of shape (batch sizes,), ascending;
        the first is the initial one.
    gradient_square, gradient_variance
        Gradient statistics, of shape (batch sizes, epochs).
    total_progress
        Length of the training in optimiser steps at the initial batch size.
    epochs
        Length of the training in epochs.
    share
        Its share of the jobs in the published workloads.
    restriction
        Batch size and replicas that Pollux fixes; None for neither.
    fit_errors
        How well the throughput parameters fit.
    """

    name: str
    title: str
    category: str
    throughput: ThroughputParameters
    batch: BatchLimits
    progress: Floats
    batch_sizes: Floats
    gradient_square: Floats
    gradient_variance: Floats
    total_progress: float
    epochs: int
    share: float
    restriction: Restriction | None
    fit_errors: FitErrors

    def __post_init__(self) -> None:
        """Refuse values out of range, and make the arrays read-only."""
        item = f"profile {self.name!r}"
        require_count(f"{item}: epochs", self.epochs, 1)
        require_number(f"{item}: total_progress", self.total_progress, 0.0, strict=True)
        require_number(f"{item}: share", self.share, 0.0)
        self._require_shape("progress", (self.epochs,))
        self._require_shape("batch_sizes", (len(self.batch_sizes),))
        for name in ("gradient_square", "gradient_variance"):
            self._require_shape(name, (len(self.batch_sizes), self.epochs))
        steps = np.diff(self.progress, prepend=0.0)
        if not ((steps > 0.0).all() and self.progress[-1] == 1.0):
            raise ValueError(f"{item}: progress ends at {self.progress[-1]}; expected a rise to 1.")
        if not (
            (np.diff(self.batch_sizes) > 0.0).all() and self.batch_sizes[0] == self.batch.initial
        ):
            raise ValueError(
                f"{item}: batch_sizes start at {self.batch_sizes[0]:g}; "
                f"expected a rise from the initial batch size {self.batch.initial}."
            )
        gradient = GradientStatistics(self.gradient_square, self.gradient_variance)
        validate(GoodputModel(self.throughput, gradient, self.batch), item)

    def _require_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse an array of another shape, and make it read-only."""
        array = getattr(self, name)
        if array.shape != shape:
            raise ValueError(
                f"profile {self.name!r}: {name} has shape {array.shape}; expected {shape}."
            )
        array.flags.writeable = False

    def gradient_statistics(
        self, progress: float, batch_size: float | None = None
    ) -> GradientStatistics:
        """Return the gradient statistics at a stage of the training.

        Constant within an epoch. Between measured batch sizes they are interpolated linearly, as
        in the published simulator; beyond them the nearest counts.

        Parameters
        ----------
        progress
            Fraction of the training that is done, in [0, 1].
        batch_size
            Total batch size in examples; the initial one if None.

        Raises
        ------
        ValueError
            If a number is out of its range.
        """
        if not 0.0 <= progress <= 1.0:
            raise ValueError(
                f"profile {self.name!r}: progress is {progress}; expected a fraction from 0 to 1."
            )
        if batch_size is None:
            batch_size = float(self.batch.initial)
        require_number(f"profile {self.name!r}: batch_size", batch_size, 0.0, strict=True)
        epoch = min(int(np.searchsorted(self.progress, progress, side="right")), self.epochs - 1)
        return self.gradient_in_epoch(epoch, batch_size)

    def gradient_in_epoch(self, epoch: int, batch_size: float) -> GradientStatistics:
        """Return `gradient_statistics` in an epoch counted from 0, without checks."""
        return GradientStatistics(
            float(np.interp(batch_size, self.batch_sizes, self.gradient_square[:, epoch])),
            float(np.interp(batch_size, self.batch_sizes, self.gradient_variance[:, epoch])),
        )

    def goodput_model(self, progress: float) -> GoodputModel:
        """Return the goodput model at a stage of the training.

        Parameters
        ----------
        progress
            Fraction of the training that is done, in [0, 1].

        Raises
        ------
        ValueError
            If the fraction is out of its range.
        """
        return GoodputModel(self.throughput, self.gradient_statistics(progress), self.batch)


def parse_profiles(text: str) -> dict[str, Profile]:
    """Read profiles in the format of `profiles/README.md`.

    Parameters
    ----------
    text
        The JSON document.

    Raises
    ------
    ValueError
        If the format or version differs, a field is missing, or a number is out of range.
    """
    document = parse_document(text, FORMAT, VERSION)
    return {name: _profile(name, entry) for name, entry in document["applications"].items()}


def _profile(name: str, entry: dict[str, Any]) -> Profile:
    """Build one profile from its entry."""
    try:
        gradient, fixed, errors = entry["gradient"], entry["restriction"], entry["fit_errors"]
        return Profile(
            name=name,
            title=entry["title"],
            category=entry["category"],
            throughput=ThroughputParameters(**entry["throughput"]),
            batch=BatchLimits(**entry["batch"]),
            progress=np.array(gradient["progress"], dtype=float),
            batch_sizes=np.array(gradient["batch_sizes"], dtype=float),
            gradient_square=np.array(gradient["square"], dtype=float),
            gradient_variance=np.array(gradient["variance"], dtype=float),
            total_progress=entry["total_progress"],
            epochs=entry["epochs"],
            share=entry["share"],
            restriction=None if fixed is None else Restriction(**fixed),
            fit_errors=parse_fit_errors(errors),
        )
    except KeyError as error:
        raise ValueError(f"profile {name!r} lacks the field {error}; expected it.") from error


def parse_fit_errors(errors: dict[str, Any]) -> FitErrors:
    """Build the errors of a fit from their entry."""
    return FitErrors(
        errors["observations"],
        errors["loss"],
        ErrorSummary(**errors["gradient_time"]),
        ErrorSummary(**errors["step_time"]),
    )


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Profile]:
    """Return the profiles shipped with the package, read once."""
    return parse_profiles(read_shipped(SHIPPED))


def application_names() -> tuple[str, ...]:
    """Return the names of the shipped profiles in alphabetical order.

    Examples
    --------
    >>> from goodalloc.data.applications import application_names
    >>> application_names()
    ('bert', 'cifar10', 'deepspeech2', 'imagenet', 'ncf', 'yolov3')
    """
    return tuple(sorted(_shipped()))


def load_profile(name: str) -> Profile:
    """Return a shipped profile.

    Parameters
    ----------
    name
        One of `application_names()`.

    Raises
    ------
    ValueError
        If there is no such profile.

    Examples
    --------
    >>> from goodalloc.data import load_profile
    >>> profile = load_profile("cifar10")
    >>> profile.batch.initial
    128
    """
    profiles = _shipped()
    if name not in profiles:
        raise ValueError(
            f"application is {name!r}; expected one of {', '.join(application_names())}."
        )
    return profiles[name]
