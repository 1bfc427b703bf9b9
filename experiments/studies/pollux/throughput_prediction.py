"""Figure 3 of Pollux: throughput, predicted by its model and measured.

The seven parameters are fitted as Pollux fits them, but to half of the measured allocations only;
the throughput of the other half is predicted, not fitted. Allocations that the model cannot
distinguish, those of equally many GPUs on one node or on several, are held out together, and each
half has its share of those on one node. Each half is held out once. Pollux itself extrapolates: it
lets a job grow to twice the GPUs that it has run on.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.applications.measurements import (
    APPLICATIONS,
    read_observations,
    relative_errors,
)
from goodalloc.experiments.reporting.statistics import rmsle
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.pollux.predictions import reading, require_traces
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.throughput_model import ThroughputParameters, step_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats, Indices


#: Seed of the halves in the figure and the table.
SEED = 0

#: Most GPUs of the fitted allocations; those of up to twice as many are predicted.
GROWN_FROM = (8, 16, 32)


@dataclass(frozen=True)
class CrossValidation:
    """Measurements of an application with two fits, each to one half of the allocations.

    Parameters
    ----------
    observations
        Measurements as `read_observations` returns them, shape (measurements, 5).
    half
        Half of each measurement, 0 or 1, shape (measurements,).
    fits
        Parameters fitted to half 0 and to half 1.
    """

    observations: Floats
    half: Indices
    fits: tuple[ThroughputParameters, ThroughputParameters]

    def step_times(self, *, held_out: bool) -> Floats:
        """Return the step times by the fit to the other half, or to the own one, in seconds."""
        nodes, replicas, atomic = self.observations.T[:3]
        both = np.stack([step_time(fit, nodes, replicas, atomic, 0.0) for fit in self.fits])
        which = 1 - self.half if held_out else self.half
        return np.asarray(both[which, np.arange(len(which))])

    def seen(self, nodes: int, gpus: int) -> bool:
        """Return whether the first fit is to allocations of `gpus` on that many `nodes`."""
        same = (_kinds(self.observations) == (min(nodes, 2), gpus)).all(axis=1)
        return not self.half[same].any()


def _kinds(observations: Floats) -> Indices:
    """Return one node or several (1 or 2) and the GPUs, shape (measurements, 2)."""
    nodes, replicas = observations.T[:2].astype(np.int64)
    return np.stack([np.minimum(nodes, 2), replicas], axis=1)


def split_halves(observations: Floats, seed: int) -> Indices:
    """Divide the kinds of allocation randomly into two halves: 0 or 1 for every measurement."""
    kinds, which = np.unique(_kinds(observations), axis=0, return_inverse=True)
    generator = np.random.default_rng(seed)
    half = np.empty(len(kinds), dtype=np.int64)
    for several in (1, 2):
        members = np.flatnonzero(kinds[:, 0] == several)
        half[generator.permutation(members)] = np.arange(members.size) % 2
    return half[which.reshape(-1)]


def cross_validate(tables: Mapping[str, Floats], seed: int = SEED) -> dict[str, CrossValidation]:
    """Fit every application twice, each time to one half of its allocations.

    Parameters
    ----------
    tables
        Measurements by application, each as `read_observations` returns them.
    seed
        Seed of the halves.
    """
    halves = {name: split_halves(table, seed) for name, table in tables.items()}
    parts = [tables[name][half == side] for name, half in halves.items() for side in (0, 1)]
    fits = _fit(parts)
    return {
        name: CrossValidation(tables[name], half, (fits[2 * index], fits[2 * index + 1]))
        for index, (name, half) in enumerate(halves.items())
    }


def _fit(parts: Sequence[Floats]) -> list[ThroughputParameters]:
    """Return the parameters fitted to each table, in one call."""
    fitted = fit_throughput(pad_observations(parts)).parameters
    return [ThroughputParameters(*map(float, row)) for row in np.stack(fitted, axis=1)]


def predict_doubled(tables: Mapping[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """Return observations on up to twice the fitted GPUs, and their predicted step times.

    Fits are to all allocations of at most 8, 16 and 32 GPUs.
    """
    cases = [(name, most) for name in tables for most in GROWN_FROM]
    parts = [tables[name][tables[name][:, 1] <= most] for name, most in cases]
    found: dict[str, list[tuple[Floats, Floats]]] = {name: [] for name in tables}
    for (name, most), fit in zip(cases, _fit(parts), strict=True):
        gpus = tables[name][:, 1]
        beyond = tables[name][(gpus > most) & (gpus <= 2 * most)]
        nodes, replicas, atomic = beyond.T[:3]
        found[name].append((beyond, np.asarray(step_time(fit, nodes, replicas, atomic, 0.0))))
    return {
        name: (np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs]))
        for name, pairs in found.items()
    }


def least_error(observations: Floats) -> float:
    """Return the least RMSLE of step time of any model that distinguishes no more allocations.

    Such a model predicts one time, at best the geometric mean, for every kind of allocation and
    atomic batch size.
    """
    same = np.column_stack([_kinds(observations), observations[:, 2]])
    _, which, count = np.unique(same, axis=0, return_inverse=True, return_counts=True)
    which, times = which.reshape(-1), np.log(observations[:, 4])
    mean = np.bincount(which, times) / count
    return float(np.sqrt(np.mean((times - mean[which]) ** 2)))


def read_tables(traces: Path) -> dict[str, Floats]:
    """Read the measurements of every application."""
    with reading(traces):
        return {
            name: read_observations(traces / name, known) for name, known in APPLICATIONS.items()
        }


class ErrorRow(NamedTuple):
    """Errors of the predicted step times of an application.

    Attributes
    ----------
    allocations
        "fitted", "held out" or "GPUs doubled".
    rmsle
        Root mean squared logarithmic error.
    least_rmsle
        The least of any model that distinguishes no more allocations (`least_error`).
    median, percentile_90, maximum
        Statistics of abs(predicted / measured - 1).
    """

    application: str
    allocations: str
    measurements: int
    rmsle: float
    least_rmsle: float
    median: float
    percentile_90: float
    maximum: float


def fig3_rows(traces: str | None) -> list[ErrorRow]:
    """Return the errors of every application on fitted, held-out and larger allocations.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If `traces` is None, or its files are missing or malformed.
    """
    rows = []
    tables = read_tables(require_traces(traces, 3))
    doubled = predict_doubled(tables)
    for name, found in cross_validate(tables).items():
        for allocations, table, predicted in (
            ("fitted", found.observations, found.step_times(held_out=False)),
            ("held out", found.observations, found.step_times(held_out=True)),
            ("GPUs doubled", *doubled[name]),
        ):
            measured = table[:, 4]
            errors = relative_errors(predicted, measured)
            rows.append(
                ErrorRow(
                    name,
                    allocations,
                    len(table),
                    rmsle=rounded(rmsle(predicted, measured)),
                    least_rmsle=rounded(least_error(table)),
                    median=rounded(errors["median"]),
                    percentile_90=rounded(errors["percentile_90"]),
                    maximum=rounded(errors["maximum"]),
                )
            )
    return rows
