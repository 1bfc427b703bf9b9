r"""Worths from the true remaining work of the active jobs, without knowledge of arrivals.

A unit of progress of a job in phase *q* is worth

.. math:: \mu_q = c_q \Bigl( \sum_{r \ge q} c_r W_r \Bigr)^{-\alpha}                          (1)

with :math:`c_q` the least cost of a unit at constant prices of GPUs and seconds, equation (4) of
`formulations/hindsight/price_bound.py`, and :math:`W_r` the work of phase *r*: the shortest
remaining cost first for :math:`\alpha = 1`, and shares of the GPUs for less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.hindsight.price_bound import unit_costs
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import Training
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Round


@dataclass(frozen=True)
class RemainingWorths:
    """Worths by the cost of the work that is left.

    Parameters
    ----------
    trainings
        True work and rates, by the name of the application.
    seconds
        Worth of a second of a job, in prices of a GPU-second, at which costs are counted.
    power
        The power alpha.

    Raises
    ------
    ValueError
        If a number is negative.
    """

    trainings: Mapping[str, Training]
    seconds: float = 3.0
    power: float = 0.5
    _tables: dict[str, Float[Floats, " phases"]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        require_number("Worths: seconds", self.seconds, minimum=0.0)
        require_number("Worths: power", self.power, minimum=0.0)
        for name, training in self.trainings.items():
            prices = np.ones((1, len(training.rates)))
            (cost,) = unit_costs(training, prices, np.array([self.seconds]))
            left = np.cumsum((cost * training.work)[::-1])[::-1]
            self._tables[name] = cost * left**-self.power

    def worths(self, round_: Round, phases: Sequence[int]) -> list[float]:
        """Return the worths (1), each job at the start of its phase."""
        return [
            float(self._tables[job.application][phase])
            for job, phase in zip(round_.jobs, phases, strict=True)
        ]
