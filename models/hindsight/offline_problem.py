r"""Offline problem: a trace of training jobs of which everything is known from the start.

Job *j* is released at :math:`r_j` and can train from :math:`b_j \ge r_j` on, since every scheduler
needs time to decide and to start it. It is done in phases *q* (an epoch, say), one after the other,
of work :math:`W_q` in units of progress. On *k* GPUs of type *a* phase *q* advances by
:math:`g_{aq}(k)` a second: the greatest rate over batch sizes and placements. At any time a job is
on GPUs of one type, and all jobs together are on at most :math:`G_a(t)` of type *a*. Wanted is

.. math:: \min \sum_j w_j (C_j - r_j)                                                         (1)

over all schedules, with :math:`C_j` the time when job *j* has done its last phase. With
:math:`w_j = 1 / n` that is the average completion time. With :math:`w_j = 1 / (n A_j)`, where
:math:`A_j` is the time of job *j* alone, it is the average finish-time ratio; here :math:`A_j` is
the time on the GPUs that its user requested (`experiments/hindsight/objectives.py`), not on an
equal share of the cluster as in Themis.

Restarts, nodes and what a scheduler cannot know are left out, so that (1) is below every schedule
of such a trace that gives each GPU to one job at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import (
    real_array,
    require_all,
    require_name,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class Training:
    """Work of a kind of job, phase by phase, and its greatest rates.

    Parameters
    ----------
    name
        Name of the kind.
    work
        Units of progress of every phase, above 0; shape (phases,).
    gpus
        Numbers of GPUs on which it can run, above 0 and ascending; shape (counts,).
    rates
        Units of progress a second by type of GPU, phase and number of GPUs; 0 where it cannot run;
        shape (types, phases, counts).

    Raises
    ------
    ValueError
        If a number is not finite or negative, a shape is wrong, `gpus` does not ascend from above
        0, or a phase cannot advance anywhere.
    """

    name: str
    work: Float[Floats, " phases"]
    gpus: Float[Floats, " counts"]
    rates: Float[Floats, "types phases counts"]

    def __post_init__(self) -> None:
        require_name("Training: name", self.name)
        item = f"Training '{self.name}'"
        for field in ("work", "gpus", "rates"):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=float))
        if self.rates.ndim != 3 or not self.rates.size:
            raise ValueError(
                f"{item}: rates have shape {self.rates.shape}; expected one for every type of GPU, "
                "phase and number of GPUs."
            )
        _, phases, counts = self.rates.shape
        real_array(f"{item}: work", self.work, (phases,))
        real_array(f"{item}: gpus", self.gpus, (counts,))
        right = np.isfinite(self.work) & (self.work > 0)
        require_all(right, f"{item}: phase", "work", self.work, "a finite number above 0")
        right = np.isfinite(self.gpus) & (np.diff(self.gpus, prepend=0.0) > 0)
        require_all(right, f"{item}: entry", "gpus", self.gpus, "finite numbers that ascend from 0")
        right = np.isfinite(self.rates) & (self.rates >= 0)
        if not right.all():
            raise ValueError(
                f"{item}: a rate is {self.rates[~right][0]:g}; expected finite numbers from 0."
            )
        stuck = ~(self.rates > 0).any(axis=(0, 2))
        if stuck.any():
            raise ValueError(
                f"{item}: phase {int(stuck.argmax())} advances on no number of GPUs; expected a "
                "rate above 0."
            )

    @property
    def num_phases(self) -> int:
        """Number of phases."""
        return self.work.size

    @cached_property
    def least_phase_seconds(self) -> Float[Floats, " phases"]:
        """Seconds that every phase takes if it advances as fast as it can."""
        return np.asarray(self.work / self.rates.max(axis=(0, 2)))

    @cached_property
    def least_seconds(self) -> float:
        """Seconds that it takes if every phase advances as fast as it can."""
        return float(self.least_phase_seconds.sum())

    def seconds_on(self, gpus: float) -> float:
        """Return the seconds that it takes on at most so many GPUs of the best type.

        Parameters
        ----------
        gpus
            Number of GPUs.

        Raises
        ------
        ValueError
            If a phase cannot run on so few.

        Examples
        --------
        >>> import numpy as np
        >>> from goodalloc.models.hindsight import Training
        >>> rates = np.array([[[1.0, 1.5, 1.2]]])
        >>> Training("one", np.array([60.0]), np.array([1.0, 2.0, 3.0]), rates).seconds_on(3)
        40.0
        """
        rates = self.rates[:, :, self.gpus <= gpus].max(axis=2, initial=0.0)
        runs = (rates > 0).all(axis=1)
        if not runs.any():
            raise ValueError(
                f"Training '{self.name}': it cannot run on {gpus:g} GPUs; expected a number on "
                "which every phase advances."
            )
        return float((self.work / rates[runs]).sum(axis=1).min())


@dataclass(frozen=True)
class OfflineJob:
    """Job of a trace.

    Parameters
    ----------
    name
        Name of the job.
    training
        Name of its training.
    release
        Seconds when it is submitted.
    begin
        Seconds when it can train first, whoever schedules it.
    weight
        Weight of its completion time, above 0.

    Raises
    ------
    ValueError
        If a time is negative, not finite or out of order, or the weight not above 0.
    """

    name: str
    training: str
    release: float
    begin: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_name("Job: name", self.name)
        require_number(f"Job '{self.name}': release", self.release, minimum=0.0)
        require_number(f"Job '{self.name}': begin", self.begin, minimum=self.release)
        require_number(f"Job '{self.name}': weight", self.weight, minimum=0.0, strict=True)


@dataclass(frozen=True)
class Supply:
    """GPUs of a cluster over time: as many from each of `times` to the next, the last for ever.

    Parameters
    ----------
    types
        Names of the types of GPU.
    times
        Seconds at which the numbers change; the first is 0, then they ascend; shape (changes,).
    gpus
        Numbers of GPUs from then on; shape (changes, types).

    Raises
    ------
    ValueError
        If there is no type or a name occurs twice, the times do not ascend from 0, a number is
        negative or not finite, or a type has no GPU in the end.
    """

    types: tuple[str, ...]
    times: Float[Floats, " changes"]
    gpus: Float[Floats, "changes types"]

    def __post_init__(self) -> None:
        for field in ("times", "gpus"):
            object.__setattr__(self, field, np.asarray(getattr(self, field), dtype=float))
        if not self.types or len(set(self.types)) < len(self.types):
            raise ValueError(f"Supply: types are {self.types}; expected different names.")
        real_array("Supply: times", self.times, (self.times.size,))
        real_array("Supply: gpus", self.gpus, (self.times.size, len(self.types)))
        if not self.times.size or self.times[0] != 0 or (np.diff(self.times) <= 0).any():
            raise ValueError(f"Supply: times are {self.times.tolist()}; expected to ascend from 0.")
        right = np.isfinite(self.gpus) & (self.gpus >= 0)
        if not right.all():
            raise ValueError(
                f"Supply: a number of GPUs is {self.gpus[~right][0]:g}; expected finite numbers "
                "from 0."
            )
        for name, number in zip(self.types, self.gpus[-1].tolist(), strict=True):
            if not number:
                raise ValueError(f"Supply: type '{name}' has no GPU in the end; expected some.")

    @classmethod
    def constant(cls, gpus: Mapping[str, float]) -> Supply:
        """Return a supply that does not change.

        Parameters
        ----------
        gpus
            Number of GPUs of every type.

        Examples
        --------
        >>> from goodalloc.models.hindsight import Supply
        >>> Supply.constant({"t4": 64.0}).gpus.tolist()
        [[64.0]]
        """
        return cls(tuple(gpus), np.zeros(1), np.array([[*gpus.values()]], dtype=float))

    def mean(self, edges: Float[Floats, " edges"]) -> Float[Floats, "intervals types"]:
        """Return the mean number of GPUs in every interval between `edges`.

        Parameters
        ----------
        edges
            Seconds that ascend from 0.
        """
        lengths = np.diff(self.times, append=max(float(edges[-1]), float(self.times[-1])) + 1.0)
        before = np.concatenate([[[0.0] * len(self.types)], np.cumsum(self.gpus.T * lengths, 1).T])
        at = np.searchsorted(self.times, edges, side="right") - 1
        total = before[at] + self.gpus[at] * (edges - self.times[at])[:, None]
        return np.asarray(np.diff(total, axis=0) / np.diff(edges)[:, None])


@dataclass(frozen=True)
class OfflineProblem:
    """Offline problem of a trace.

    Parameters
    ----------
    trainings
        The kinds of jobs.
    jobs
        The jobs.
    supply
        The GPUs.

    Raises
    ------
    ValueError
        If there is no job, a name occurs twice, a training is unknown or has rates for another
        number of types.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 30.0), OfflineJob("b", "one", 10.0, 60.0))
    >>> OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0})).training("one").work
    array([60.])
    """

    trainings: tuple[Training, ...]
    jobs: tuple[OfflineJob, ...]
    supply: Supply

    def __post_init__(self) -> None:
        if not self.jobs:
            raise ValueError("Offline problem: it has no jobs; expected some.")
        for what, items in (("training", self.trainings), ("job", self.jobs)):
            name, count = Counter(item.name for item in items).most_common(1)[0]
            if count > 1:
                raise ValueError(
                    f"Offline problem: {what} '{name}' occurs {count} times; expected once."
                )
        types = len(self.supply.types)
        for training in self.trainings:
            if len(training.rates) != types:
                raise ValueError(
                    f"Training '{training.name}': it has rates for {len(training.rates)} types of "
                    f"GPU; expected {types}, those of the supply."
                )
        for job in self.jobs:
            if job.training not in self._trainings:
                raise ValueError(
                    f"Job '{job.name}': training '{job.training}' is unknown; expected one of "
                    f"{', '.join(self._trainings)}."
                )

    @cached_property
    def _trainings(self) -> dict[str, Training]:
        return {training.name: training for training in self.trainings}

    def training(self, name: str) -> Training:
        """Return a training by its name."""
        return self._trainings[name]

    def jobs_of(self, training: str) -> Int[Indices, " jobs"]:
        """Return the indices of the jobs of a training."""
        return np.array([i for i, job in enumerate(self.jobs) if job.training == training], int)

    def total(self, completion: Sequence[float] | Float[Floats, " jobs"]) -> float:
        """Return the objective (1) of completion times, in the order of the jobs."""
        return float(
            sum(
                job.weight * (end - job.release)
                for job, end in zip(self.jobs, completion, strict=True)
            )
        )
