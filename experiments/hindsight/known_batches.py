"""Jobs of a replay that know their true best batch sizes: those by which the bound is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.hindsight.placements import MEASURED_NODES, Placements
from goodalloc.experiments.replay.job_oracle import TrueOracle
from goodalloc.experiments.replay.simulated_job import SimulatedJob, requested_split
from goodalloc.experiments.replay.simulator import Simulator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats


class BestSplits(Placements):
    """Best batch sizes of an application on GPUs of one type, and its rates by them.

    Parameters
    ----------
    application, cluster, gpu_type
        As in `Placements`.
    """

    def __init__(self, application: Application, cluster: Cluster, gpu_type: str) -> None:
        super().__init__(application, cluster, gpu_type)
        self._splits: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._gained: dict[tuple[int, int], Floats] = {}
        self._rates: dict[tuple[int, ...], list[float]] = {}

    def split(self, spread: Sequence[int], epoch: int) -> tuple[int, int]:
        """Return the examples per GPU and pass, and further passes, of the greatest rate.

        Parameters
        ----------
        spread
            Number of GPUs on each node, on which the application was measured.
        epoch
            The epoch, counted from 0.
        """
        return self._best(_alike(spread))[epoch]

    def _best(self, spread: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the splits of every epoch."""
        if spread not in self._splits:
            gpus, limits = sum(spread), self._application.batch
            sizes, seconds = self._seconds([spread])
            known = np.isfinite(seconds[0])
            totals = sizes[known].tolist()
            if (gpus, len(totals)) not in self._gained:
                self._gained[gpus, len(totals)] = self._gains.at(totals)
            rates = self._gained[gpus, len(totals)] / seconds[0, known, None]
            best = rates.argmax(axis=0).tolist()
            used = {index: requested_split(totals[index], gpus, limits) for index in set(best)}
            self._splits[spread] = [used[index] for index in best]
        return self._splits[spread]

    def rates(self, spread: Sequence[int]) -> list[float]:
        """Return the true progress a second in every epoch, as a replay computes it.

        Parameters
        ----------
        spread
            As in `split`; by the best batch size.
        """
        key = _alike(spread)
        if key not in self._rates:
            self._rates[key] = self._rates_on(key)
        return self._rates[key]

    def _rates_on(self, spread: tuple[int, ...]) -> list[float]:
        """Return the rate in every epoch."""
        application, splits = self._application, self._best(spread)
        used = sorted(set(splits))
        gains = self._gains.at([sum(spread) * atomic * (further + 1) for atomic, further in used])
        rates = {}
        for (atomic, further), gain in zip(used, gains.tolist(), strict=True):
            step, synchronisation = application.step_times(spread, atomic)
            seconds = step + further * (step - synchronisation)
            rates[atomic, further] = [one / (seconds * application.slowdown) for one in gain]
        return [rates[split][epoch] for epoch, split in enumerate(splits)]


def _alike(spread: Sequence[int]) -> tuple[int, ...]:
    """Return the placement that stands for all that are as fast as one (`Placements.spreads`)."""
    number = len(spread)
    if number > MEASURED_NODES:
        each, more = divmod(sum(spread), number)
        return (each + 1,) * more + (each,) * (number - more)
    given = tuple(spread)
    return min(given[start:] + given[:start] for start in range(number))


class KnownBatchJob(SimulatedJob):
    """Job of a replay whose batch size is the true best in every epoch.

    Parameters
    ----------
    job
        The job as it is when it is submitted.
    splits
        Best batch sizes of its application.
    """

    def __init__(self, job: SimulatedJob, splits: BestSplits) -> None:
        vars(self).update(vars(job))
        self._splits = splits

    @property
    def chooses_batch_size(self) -> bool:
        """Whether its batch size follows from its model: never, it knows better."""
        return False

    def set_requested_batch(self) -> None:
        """Set the best batch size for its GPUs in this epoch."""
        self.set_batch(*self._splits.split(self.spread, self.epoch))

    def train(self, now: float, seconds: float, interference: float) -> float:
        """Train to the end of the epoch or of the interval; see `SimulatedJob.train`."""
        epoch = self.epoch
        left = super().train(now, seconds, interference)
        if self.epoch != epoch and self.completion is None:
            self.set_requested_batch()
        return left


@dataclass
class KnownBatchSimulator(Simulator):
    """Replay on GPUs of one type whose jobs know their best batch sizes; see `Simulator`.

    Parameters
    ----------
    splits
        Best batch sizes by the name of the application.
    """

    splits: dict[str, BestSplits] = field(kw_only=True)

    def submit(self, submission: Submission) -> None:
        """Add a job that is not submitted before the last one; see `Simulator.submit`."""
        super().submit(submission)
        job = KnownBatchJob(self.jobs[-1], self.splits[submission.application])
        self.jobs[-1] = job
        self._oracles[submission.name] = TrueOracle(job, speeds=self._speeds)
