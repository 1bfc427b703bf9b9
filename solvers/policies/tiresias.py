"""Tiresias: two queues by attained service, GPUs and batch sizes as requested.

References
----------
Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.2.
    https://www.usenix.org/conference/nsdi19/presentation/gu
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import FreeGpus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class Tiresias:
    """Discretised two-dimensional least attained service, as in the evaluation of Pollux.

    New jobs join the first queue and leave it for the second once their time run × GPUs reaches the
    threshold. The queues are scanned one after the other, first come first served: a job runs if
    the jobs before it leave enough GPUs, else it is preempted. Running jobs stay where they are;
    the others take the nodes with the most free GPUs.

    Parameters
    ----------
    threshold
        GPU-seconds at which a job moves to the second queue; 16 GPU-hours as published.
    promote
        The promotion knob: a job of the second queue that waited this many times as long as it ran
        goes back to the first. 0 never promotes, as published.
    gittins_delta
        GPU-seconds to look ahead: within a queue the jobs are then ordered by `gittins_index`
        (2D-Gittins). None keeps them first come, first served (2D-LAS), as in Pollux's evaluation.
    services
        Total services of jobs that ended before, in GPU-seconds, as samples for 2D-Gittins.

    Attributes
    ----------
    ended
        Total services of jobs that ended under this policy, as further samples.
    """

    threshold: float = 57_600.0
    promote: float = 0.0
    gittins_delta: float | None = None
    services: tuple[float, ...] = ()
    batch_sizes: BatchSizes = field(default="requested", init=False)
    ended: tuple[float, ...] = field(default=(), init=False)
    _first: list[str] = field(default_factory=list, init=False)
    _second: list[str] = field(default_factory=list, init=False)
    _running: set[str] = field(default_factory=set, init=False)
    _executed: Counter[str] = field(default_factory=Counter, init=False)
    _waited: Counter[str] = field(default_factory=Counter, init=False)
    _time: int = field(default=0, init=False)
    _replicas: dict[str, int] = field(default_factory=dict, init=False)

    def decide(self, round_: Round) -> Decision:
        """Account for the time since the last round, move jobs between queues, give GPUs."""
        jobs = {job.name: job for job in round_.jobs}
        elapsed, self._time = round_.time - self._time, round_.time
        known = {*self._first, *self._second}
        if self.gittins_delta is not None:
            self._learn(known - jobs.keys(), elapsed)
        self._replicas = {name: self.gpus(round_, job) for name, job in jobs.items()}
        self._first = [name for name in self._first if name in jobs]
        self._second = [name for name in self._second if name in jobs]
        self._first += [name for name in jobs if name not in known]
        for name in jobs:
            if name in self._running:
                self._executed[name] += elapsed
                served = self._executed[name] * self._replicas[name]
                if name in self._first and served >= self.threshold:
                    self._first.remove(name)
                    self._second.append(name)
            elif self._executed[name] > 0:
                self._wait(name, elapsed)
        left = round_.cluster.num_gpus
        self._running = set()
        for name in self._ordered():
            if self._replicas[name] <= left:
                self._running.add(name)
                left -= self._replicas[name]
        return self.place(round_)

    def gpus(self, round_: Round, job: ActiveJob) -> int:
        """Return the GPUs of a job when it runs: as many as requested."""
        return job.replicas

    def _learn(self, ended: set[str], elapsed: int) -> None:
        """Keep the total service of jobs that ended since the last round."""
        for name in sorted(ended):
            if name in self._running:
                self._executed[name] += elapsed
            self.ended = (*self.ended, float(self._executed[name] * self._replicas[name]))

    def _ordered(self) -> list[str]:
        """Return all jobs in the order in which they are served."""
        if self.gittins_delta is None:
            return [*self._first, *self._second]
        samples, delta = np.sort((*self.services, *self.ended)), self.gittins_delta

        def urgency(name: str) -> float:
            attained = float(self._executed[name] * self._replicas[name])
            return -gittins_index(samples, attained, delta)

        return [*sorted(self._first, key=urgency), *sorted(self._second, key=urgency)]

    def _wait(self, name: str, elapsed: int) -> None:
        """Count the waiting time of a preempted job; promote it if it starves."""
        self._waited[name] += elapsed
        starves = self._waited[name] >= self._executed[name] * self.promote
        if self.promote > 0 and name in self._second and starves:
            self._executed[name] = self._waited[name] = 0
            self._second.remove(name)
            self._first.append(name)

    def place(self, round_: Round) -> Decision:
        """Place the jobs: those that keep running stay, others take the emptiest nodes."""
        jobs = {job.name: job for job in round_.jobs}
        placements = {
            name: job.placement
            for name, job in jobs.items()
            if name in self._running and job.placement
        }
        free = FreeGpus(round_.cluster, placements.values())
        for name in self._ordered():
            if name in self._running and name not in placements:
                placements[name] = free.take(jobs[name].replicas)
        return Decision(placements)


def gittins_index(services: NDArray[np.float64], attained: float, delta: float) -> float:
    r"""Return the Gittins index of a job by its attained service (section 4.2 of Tiresias).

    .. math:: \frac{P(S - a \le \Delta \mid S > a)}{E[\min(S - a, \Delta) \mid S > a]}

    with *S* the total service of a job and *a* its attained service. (The authors' simulator omits
    the *- a* in the expectation.)

    Parameters
    ----------
    services
        Samples of *S* in GPU-seconds, ascending.
    attained, delta
        *a* and the look-ahead, in GPU-seconds.

    Returns
    -------
    float
        The index per GPU-second; 0 where no sample exceeds the attained service.
    """
    longer = services[np.searchsorted(services, attained, side="right") :] - attained
    if not longer.size:
        return 0.0
    ends = float(np.count_nonzero(longer <= delta)) / longer.size
    return ends / float(np.minimum(longer, delta).mean())
