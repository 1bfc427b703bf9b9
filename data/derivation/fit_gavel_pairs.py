"""Fits of Gavel's pairs: how much two jobs slow each other down, and which fit on one GPU.

Slow-downs (2) of `data/gavel/model.py` minimise the same loss as the times do, over all pairs on a
type; memory (3) is a linear program: the least sum of what is missing to say rightly, with a
margin, what runs and what does not. Tenths of the pairs are held out one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares, linprog

from goodalloc.data.gavel.model import AVERAGING_MEMORY, relative_sizes
from goodalloc.data.gavel.rates import REPLICAS

if TYPE_CHECKING:
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.support.array_types import Flags, Floats


#: Up to about this relative error the loss is quadratic, beyond it is linear.
SCALE = 0.1

#: How much the parameters of slow-downs are drawn to 0 where the pairs do not tell.
PRIOR = 0.03

#: Part of a GPU's memory that should be left, or lack, beyond what is said to fit or not.
MARGIN = 0.02

#: Parts that the pairs are held out in.
PARTS = 10


class Slowdowns:
    """Pairs that share a GPU of a type, and the fit of (2) to them.

    Parameters are the logarithms of delta, by the families of both, then the powers x and y of
    every family.
    """

    def __init__(self, measured: RateTable, kind: int) -> None:
        shares = measured.paired[:, :, 0, kind] / measured.alone[:, 0, kind, 0][:, None]
        self.one, self.other = np.nonzero(shares)
        self.logs = np.log(shares[self.one, self.other])
        low, high = np.minimum(self.one, self.other), np.maximum(self.one, self.other)
        self.part = (low + 3 * high) % PARTS
        names = [configuration.family for configuration in measured.configurations]
        self.families = sorted(set(names))
        family = np.array([self.families.index(name) for name in names])
        sizes = np.log(relative_sizes(measured.configurations))
        many = len(self.families)
        columns = np.zeros((self.logs.size, many * many + 2 * many))
        rows = np.arange(self.logs.size)
        columns[rows, family[self.one] * many + family[self.other]] = 1.0
        columns[rows, many * many + family[self.one]] = sizes[self.one]
        columns[rows, many * many + many + family[self.other]] = sizes[self.other]
        self.columns = columns

    def predicted(self, parameters: Floats) -> Floats:
        """Return the logarithm of the rate beside the other job over the rate alone."""
        found: Floats = -np.logaddexp(0.0, self.columns @ parameters)
        return found

    def fit(self, seen: Flags) -> Floats:
        """Fit the parameters to the pairs that `seen` selects."""
        columns, logs = self.columns[seen], self.logs[seen]
        prior = PRIOR * np.eye(columns.shape[1])

        def residuals(values: Floats) -> Floats:
            return np.concatenate([-np.logaddexp(0.0, columns @ values) - logs, prior @ values])

        def jacobian(values: Floats) -> Floats:
            slope = -1.0 / (1.0 + np.exp(-columns @ values))
            return np.concatenate([columns * slope[:, None], prior])

        found: Floats = least_squares(
            residuals,
            np.zeros(columns.shape[1]),
            jac=jacobian,
            loss="soft_l1",
            f_scale=SCALE,
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
            max_nfev=1000,
        ).x
        return found

    def held_out(self) -> Floats:
        """Return predicted over measured slow-downs, each by a fit without it."""
        quotients = np.zeros_like(self.logs)
        for part in range(PARTS):
            out = self.part == part
            predicted = self.predicted(self.fit(~out))
            quotients[out] = np.exp(predicted - self.logs)[out]
        return quotients

    def entries(self, parameters: Floats) -> dict[str, dict[str, Any]]:
        """Return the parameters in the form of the document, by family."""
        many = len(self.families)
        parameters = np.where(self.columns.any(axis=0), parameters, 0.0)
        beside = np.exp(parameters[: many * many]).reshape(many, many).tolist()
        own, other = parameters[many * many :].reshape(2, many).tolist()
        return {
            name: {
                "beside": dict(zip(self.families, beside[index], strict=True)),
                "own_power": own[index],
                "other_power": other[index],
            }
            for index, name in enumerate(self.families)
        }


def fit_memory(measured: RateTable, kind: int) -> dict[str, dict[str, float]]:
    """Fit the parameters of (3) on a type, by family."""
    configurations = measured.configurations
    families = sorted({configuration.family for configuration in configurations})
    largest = {
        name: max(1, *(size for family, size in configurations if family == name))
        for name in families
    }
    needs = np.zeros((len(configurations), 2 * len(families)))
    for index, (family, size) in enumerate(configurations):
        needs[index, 2 * families.index(family)] = 1.0
        needs[index, 2 * families.index(family) + 1] = size / largest[family]
    cases, runs = [], []
    for one, need in enumerate(needs):
        for other in range(one, len(needs)):
            cases.append(need + needs[other])
            runs.append(measured.paired[one, other, 0, kind] > 0)
        several = measured.alone[one, 1:, :, 0].any()
        for place in range(len(REPLICAS) if several else 1):
            cases.append(need * (1 + AVERAGING_MEMORY * (place > 0)))
            runs.append(measured.alone[one, place, kind, 0] > 0)
    sign = np.where(runs, 1.0, -1.0)
    missing = np.eye(len(cases))
    cost = np.concatenate([np.full(needs.shape[1], 1e-4), np.ones(len(cases))])
    found = linprog(
        cost, A_ub=np.hstack([np.array(cases) * sign[:, None], -missing]), b_ub=sign - MARGIN
    ).x[: needs.shape[1]]
    return {
        name: {
            "memory_fixed": max(float(found[2 * index]), 0.0),
            "memory_per_example": max(float(found[2 * index + 1]) / largest[name], 0.0),
        }
        for index, name in enumerate(families)
    }
