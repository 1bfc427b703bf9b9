r"""Offline problem of jobs whose rates stay the same until they are done.

Job *j* is released at :math:`r_j`, can run from :math:`b_j \ge r_j` on, and has the work
:math:`W_j`. In a configuration *c* of its kind (a type of GPU with a number, say, or so many cores
with a GPU) it does :math:`g_c` of it a second and holds the amount :math:`u_{ca}` of resource *a*,
of which :math:`U_a` is there for all jobs together. It may change its configuration at any time, or
pause. Wanted is

.. math:: \min \sum_j w_j (C_j - r_j)                                                         (1)

with :math:`C_j` the time when job *j* is done. `OfflineProblem` has jobs whose rates change from
phase to phase, on GPUs alone; here jobs of one kind may differ in their work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import real_array, require_all, require_name

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class Configurations:
    """Configurations of a kind of job.

    Parameters
    ----------
    name
        Name of the kind.
    rates
        Units of work a second in every configuration, above 0; shape (configurations,).
    uses
        Amount of every resource that it holds, at least 0; shape (configurations, resources).

    Raises
    ------
    ValueError
        If there is no configuration, a shape is wrong or a number out of range.
    """

    name: str
    rates: Float[Floats, " configurations"]
    uses: Float[Floats, "configurations resources"]

    def __post_init__(self) -> None:
        require_name("Configurations: name", self.name)
        item = f"Configurations '{self.name}'"
        for field in ("rates", "uses"):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=float))
        if not self.rates.size or self.uses.ndim != 2:
            raise ValueError(
                f"{item}: rates and uses have shapes {self.rates.shape} and {self.uses.shape}; "
                "expected a row of resources for every configuration, and at least one."
            )
        real_array(f"{item}: rates", self.rates, (self.rates.size,))
        real_array(f"{item}: uses", self.uses, (self.rates.size, self.uses.shape[1]))
        right = np.isfinite(self.rates) & (self.rates > 0)
        require_all(right, f"{item}: entry", "rate", self.rates, "a finite number above 0")
        right = np.isfinite(self.uses) & (self.uses >= 0)
        if not right.all():
            raise ValueError(
                f"{item}: a use is {self.uses[~right][0]:g}; expected finite numbers from 0."
            )


@dataclass(frozen=True)
class SteadyJobs:
    """Offline problem of jobs whose rates stay the same.

    Parameters
    ----------
    kinds
        The kinds of jobs.
    kind
        Index of the kind of every job; shape (jobs,).
    work
        Units of work of every job, above 0; shape (jobs,).
    release, begin
        Seconds when it is submitted, and when it can run first; shape (jobs,).
    weight
        Weight of its completion time, above 0; shape (jobs,).
    supply
        Amount of every resource, above 0; shape (resources,).

    Raises
    ------
    ValueError
        If there is no job, a shape is wrong, a number is out of range, a kind is unknown, or a
        configuration does not fit on the resources.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import Configurations, SteadyJobs
    >>> kind = Configurations("bert", np.array([1.0, 1.5]), np.array([[1.0], [2.0]]))
    >>> two, zeros = np.ones(2), np.zeros(2)
    >>> jobs = SteadyJobs((kind,), np.array([0, 0]), 60 * two, zeros, zeros, two, np.array([2.0]))
    >>> jobs.least_seconds.tolist()
    [40.0, 40.0]
    """

    kinds: tuple[Configurations, ...]
    kind: Int[Indices, " jobs"]
    work: Float[Floats, " jobs"]
    release: Float[Floats, " jobs"]
    begin: Float[Floats, " jobs"]
    weight: Float[Floats, " jobs"]
    supply: Float[Floats, " resources"]

    def __post_init__(self) -> None:
        for field in ("work", "release", "begin", "weight", "supply"):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=float))
        object.__setattr__(self, "kind", np.asarray(self.kind))
        if not self.work.size:
            raise ValueError("Steady jobs: there are no jobs; expected some.")
        for field in ("work", "release", "begin", "weight"):
            real_array(f"Steady jobs: {field}", getattr(self, field), (self.work.size,))
        real_array("Steady jobs: supply", self.supply, (self.supply.size,))
        right = np.isin(self.kind, np.arange(len(self.kinds)))
        if self.kind.shape != self.work.shape or not right.all():
            raise ValueError(
                f"Steady jobs: kinds of jobs are {self.kind.tolist()}; expected one of 0 to "
                f"{len(self.kinds) - 1} for each of {self.work.size} jobs."
            )
        for field in ("work", "weight", "supply"):
            value = getattr(self, field)
            right = np.isfinite(value) & (value > 0)
            require_all(right, "Steady jobs: entry", field, value, "a finite number above 0")
        right = np.isfinite(self.release) & (self.release >= 0)
        require_all(right, "Steady jobs: job", "release", self.release, "seconds from 0")
        right = np.isfinite(self.begin) & (self.begin >= self.release)
        require_all(right, "Steady jobs: job", "begin", self.begin, "seconds from its release")
        for kind in self.kinds:
            if kind.uses.shape[1] != self.supply.size or (kind.uses > self.supply).any():
                raise ValueError(
                    f"Configurations '{kind.name}': uses are {kind.uses.tolist()}; expected "
                    f"amounts of {self.supply.size} resources up to {self.supply.tolist()}."
                )

    @cached_property
    def least_seconds(self) -> Float[Floats, " jobs"]:
        """Seconds of every job in its fastest configuration."""
        fastest = np.array([kind.rates.max() for kind in self.kinds])
        return np.asarray(self.work / fastest[self.kind])

    @property
    def lone_value(self) -> float:
        """Objective (1) if every job were alone, below which no schedule is."""
        return float(self.weight @ (self.begin - self.release + self.least_seconds))
