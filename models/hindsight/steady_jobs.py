r"""Offline problem of jobs whose rates stay the same until they are done.

Job *j* is released at :math:`r_j`, can run from :math:`b_j \ge r_j` on, and has the work
:math:`W_j`. In a configuration *c* of its kind (a type of GPU with a number, say, or so many cores
with a GPU) it does :math:`g_c` of it a second and holds the amount :math:`u_{ca}` of resource *a*,
of which :math:`U_a` is there for all jobs together. It may change its configuration at any time, or
pause; whenever it starts in *c*, it does no work for the first :math:`d_c` seconds. Wanted is

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
    delays
        Seconds without work after every start in a configuration, at least 0, such as those of a
        restart: one number for all, or one for each; shape (configurations,).

    Raises
    ------
    ValueError
        If there is no configuration, a shape is wrong or a number out of range.
    """

    name: str
    rates: Float[Floats, " configurations"]
    uses: Float[Floats, "configurations resources"]
    delays: Float[Floats, " configurations"] | float = 0.0

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
        delays = real_array(f"{item}: delays", self.delays, (), (self.rates.size,))
        object.__setattr__(self, "delays", np.broadcast_to(delays, self.rates.shape))
        right = np.isfinite(self.rates) & (self.rates > 0)
        require_all(right, f"{item}: entry", "rate", self.rates, "a finite number above 0")
        right = np.isfinite(self.uses) & (self.uses >= 0)
        if not right.all():
            raise ValueError(
                f"{item}: a use is {self.uses[~right][0]:g}; expected finite numbers from 0."
            )
        right = np.isfinite(delays) & (delays >= 0)
        require_all(right, f"{item}: entry", "delay", delays, "seconds from 0")

    @property
    def least_delay(self) -> float:
        """Fewest seconds from a start until it does work."""
        return float(np.min(self.delays))

    def least_seconds(self, work: Float[Floats, " jobs"]) -> Float[Floats, " jobs"]:
        """Return the fewest seconds from the first start of jobs to their ends, each alone.

        Parameters
        ----------
        work
            Units of work of every job; shape (jobs,).

        Examples
        --------
        >>> import numpy as np
        >>> from goodalloc.models.hindsight import Configurations
        >>> kind = Configurations("bert", [1.0, 1.5], [[1.0], [2.0]], delays=[10.0, 30.0])
        >>> kind.least_seconds(np.array([30.0, 120.0])).tolist()
        [40.0, 110.0]
        """
        return np.asarray((np.asarray(self.delays) + np.divide.outer(work, self.rates)).min(axis=1))


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
        Seconds when it is submitted, and when it can start first; shape (jobs,).
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
    >>> jobs.first_end.tolist()
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
        right = np.isin(self.kind, np.arange(len(self.kinds))) & (self.kind.dtype.kind in "iu")
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
    def first_work(self) -> Float[Floats, " jobs"]:
        """Seconds before which a job does no work: its begin, and its shortest delay."""
        delays = np.array([kind.least_delay for kind in self.kinds])
        return np.asarray(self.begin + delays[self.kind])

    @cached_property
    def first_end(self) -> Float[Floats, " jobs"]:
        """Seconds when every job ends that starts at its begin and is alone.

        It takes the sum of a delay and the time at a rate, the least of all configurations. No
        schedule ends earlier: whichever of its configurations has the greatest rate, it waited for
        the delay of that one, and was never faster.
        """
        found = self.begin.copy()
        for index, kind in enumerate(self.kinds):
            own = self.kind == index
            found[own] += kind.least_seconds(self.work[own])
        return found

    @property
    def lone_value(self) -> float:
        """Objective (1) if every job were alone, below which no schedule is."""
        return float(self.weight @ (self.first_end - self.release))
