"""Figure 3 of Pollux (OSDI'21): throughput as predicted by its model, beside that measured.

The seven parameters are fitted as Pollux fits them, but to half of the measured allocations only;
the others are held out, so that their throughput is predicted and not merely fitted. Allocations
that the model cannot tell apart, those of as many GPUs on one node or on several, are held out
together, and each half has its share of those on one node. Of both halves each is held out once.
Pollux itself extrapolates: it lets a job grow to twice the GPUs that it has run on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


#: Of the halves that are shown and tabulated.
SEED = 0

#: Most GPUs that a job has run on before it is given up to twice as many, as Pollux allows.
GROWN_FROM = (8, 16, 32)


@dataclass(frozen=True)
class CrossValidation:
    """An application's measurements with two fits, each to one half of the allocations.

    Parameters
    ----------
    observations
        As `read_observations` returns them, of shape (measurements, 5).
    half
        The half, 0 or 1, that each measurement belongs to.
    fits
        Parameters fitted to half 0 and to half 1.
    """

    observations: Floats
    half: Indices
    fits: tuple[ThroughputParameters, ThroughputParameters]

    def step_times(self, *, held_out: bool) -> Floats:
        """Seconds of every measured step by the fit that did not, or did, see it."""
        nodes, replicas, atomic = self.observations.T[:3]
        both = np.stack([step_time(fit, nodes, replicas, atomic, 0.0) for fit in self.fits])
        which = 1 - self.half if held_out else self.half
        return np.asarray(both[which, np.arange(len(which))])

    def seen(self, nodes: int, gpus: int) -> bool:
        """Whether the first fit saw these allocations."""
        same = (_kinds(self.observations) == (min(nodes, 2), gpus)).all(axis=1)
        return not self.half[same].any()


def _kinds(observations: Floats) -> Indices:
    """What the model tells apart: one node or several as 1 or 2, and GPUs; (measurements, 2)."""
    nodes, replicas = observations.T[:2].astype(np.int64)
    return np.stack([np.minimum(nodes, 2), replicas], axis=1)


def split_halves(observations: Floats, seed: int) -> Indices:
    """Put the allocations of every kind into one of two halves by chance: 0 or 1 a measurement."""
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
        Of the halves.
    """
    halves = {name: split_halves(table, seed) for name, table in tables.items()}
    parts = [tables[name][half == side] for name, half in halves.items() for side in (0, 1)]
    fits = _fit(parts)
    return {
        name: CrossValidation(tables[name], half, (fits[2 * index], fits[2 * index + 1]))
        for index, (name, half) in enumerate(halves.items())
    }


def _fit(parts: Sequence[Floats]) -> list[ThroughputParameters]:
    """Parameters fitted to each table, in one call."""
    fitted = fit_throughput(pad_observations(parts)).parameters
    return [ThroughputParameters(*map(float, row)) for row in np.stack(fitted, axis=1)]


def predict_doubled(tables: Mapping[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """Observations on up to twice the GPUs that were fitted, and their predicted step times.

    Of jobs that have run on every allocation of at most 8, 16 or 32 GPUs.
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
    """Least RMSLE of step time of any model that tells no more allocations apart than this one.

    It predicts one time, at best the geometric mean, for every kind of allocation and atomic batch
    size.
    """
    same = np.column_stack([_kinds(observations), observations[:, 2]])
    _, which, count = np.unique(same, axis=0, return_inverse=True, return_counts=True)
    which, times = which.reshape(-1), np.log(observations[:, 4])
    mean = np.bincount(which, times) / count
    return float(np.sqrt(np.mean((times - mean[which]) ** 2)))


def read_tables(traces: Path) -> dict[str, Floats]:
    """The measurements of every application."""
    with reading(traces):
        return {
            name: read_observations(traces / name, known) for name, known in APPLICATIONS.items()
        }


def fig3_rows(traces: str | None) -> list[dict[str, Any]]:
    """Errors of the predicted step time by application, on what was fitted and on what was not.

    Root mean squared logarithmic error, and median, 90th percentile and maximum of
    abs(predicted / measured - 1); `least_rmsle` is of any model that tells no more apart.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If it is None or cannot be read.
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
            rows.append(
                {
                    "application": name,
                    "allocations": allocations,
                    "measurements": len(table),
                    "rmsle": rounded(rmsle(predicted, measured)),
                    "least_rmsle": rounded(least_error(table)),
                    **{
                        k: rounded(value)
                        for k, value in relative_errors(predicted, measured).items()
                    },
                }
            )
    return rows
