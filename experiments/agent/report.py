"""Communication of an agent with its scheduler, by files.

The first replica keeps the seconds of steps, has a child process refit the throughput model, writes
the state of the job (`data/files/job_state.py`) at intervals, and looks at the allocation of the
scheduler.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.job_state import JobState, read_placement, write_job_state
from goodalloc.experiments.agent.cluster_folder import STATE
from goodalloc.experiments.agent.fit_process import FitProcess
from goodalloc.experiments.agent.pass_times import PassTimes
from goodalloc.experiments.support.folder_lock import make_folder
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from goodalloc.experiments.agent.options import AgentOptions
    from goodalloc.models.goodput.model import BatchLimits

#: Seconds until a job first publishes and requests a fit, unless its interval is shorter.
FIRST = 2.0


class AgentReport:
    """Part of a training agent that communicates with the scheduler.

    Parameters
    ----------
    options
        Options of the agent.
    replicas
        Number of replicas of the job, K.

    Attributes
    ----------
    nodes
        Number of nodes, N.
    stale
        Whether the job was reallocated before it began.
    times
        Measured seconds of passes on the present type of GPU.
    throughput
        Parameters of the last fit on the present type; before it, those of the options, which may
        be None.
    elsewhere
        Measured seconds and the last fit on other types of GPU that the job ran on, by name.
    restarts
        Number of restarts of the job.

    Raises
    ------
    ValueError
        If there are more nodes than replicas, or the folder of the job cannot be made.
    """

    def __init__(self, options: AgentOptions, replicas: int) -> None:
        self._options, self._replicas = options, replicas
        make_folder(Path(options.folder))
        self.times, self._fits = PassTimes(), FitProcess()
        self.throughput: ThroughputParameters | None = options.throughput
        self.elsewhere: dict[str, tuple[PassTimes, ThroughputParameters | None]] = {}
        self.restarts, self._most, self._service = 0, replicas, 0.0
        self._began = self._submitted = time.time()
        self._started = self._published = self._looked = time.monotonic()
        self._fitted_at = 0
        self._placement = self._wanted()
        given = self._placement or {}
        self.stale = self._placement is not None and sum(given.values()) != replicas
        self.nodes = len(given) if given and not self.stale else options.nodes
        if not self.stale:
            item = f"Training agent of '{options.name}': nodes"
            require_count(item, self.nodes, 1, replicas)

    def _wanted(self) -> dict[str, int] | None:
        """Return the placement that the scheduler decided; None if there is no readable one."""
        file = self._options.allocation
        if file is None:
            return None
        try:
            return read_placement(file, self._options.name)
        except ValueError:  # the scheduler writes the file again with its next decision
            return None

    def look(self) -> bool:
        """Return whether the job has to be restarted; looks at most every `look_seconds`.

        It has to when the scheduler has decided another placement, or when its launcher has ended,
        as the next launcher starts replicas of its own.
        """
        now, options = time.monotonic(), self._options
        if now - self._looked < options.look_seconds:
            return False
        self._looked = now
        if options.launcher is not None and not options.launcher.alive:
            return True
        wanted = self._wanted()
        if wanted is None:
            return False
        launched = options.launcher is not None
        if self._placement is None and launched and sum(wanted.values()) == self._replicas:
            # the launcher read this placement, before the file became unreadable for a while
            self._placement, self.nodes = wanted, len(wanted)
        return wanted != self._placement

    @property
    def believed(self) -> ThroughputParameters | None:
        """Parameters by which a batch size is chosen: of another type before a fit on this one."""
        others = (fit for _, fit in self.elsewhere.values() if fit is not None)
        return self.throughput or next(others, None)

    @property
    def due(self) -> bool:
        """Whether it is time to publish: after `FIRST` seconds, later at doubled intervals."""
        age = self._published - self._started
        interval = min(self._options.publish_seconds, max(FIRST, age))
        return time.monotonic() - self._published >= interval

    def publish(self, batch: BatchLimits, **known: Any) -> None:
        """Collect a fit, request the next one, and write the state of the job.

        Parameters
        ----------
        batch
            Limits of the batch size.
        known
            Further fields of `JobState`.
        """
        self.throughput = self._fits.collect() or self.throughput
        if self.times.steps > self._fitted_at and not self._fits.busy:
            self._fits.submit(self.times.table())
            self._fitted_at = self.times.steps
        now = max(time.time(), self._submitted)
        state = JobState(
            name=self._options.name,
            batch=batch,
            submitted=self._submitted,
            published=now,
            replicas=self._replicas,
            nodes=self.nodes,
            placement={} if self.stale else self._placement or {},
            restarts=self.restarts,
            attained_service=self._attained(now),
            most_replicas=self._most,
            throughput=self.throughput,
            measured=self.times.measured(),
            gpu_type=self._options.gpu_type,
            elsewhere={name: fit for name, (_, fit) in self.elsewhere.items() if fit is not None},
            **known,
        )
        write_job_state(self._options.file(STATE), state)
        self._published = time.monotonic()

    def _attained(self, now: float) -> float:
        """Return the GPU-seconds that the job has held."""
        return self._service + self._replicas * max(now - self._began, 0.0)

    def close(self) -> None:
        """End the child process."""
        self._fits.close()

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        here = {self._options.gpu_type: (self.times, self.throughput)}
        return {
            "types": {
                name: (times.state(), fit and [*fit])
                for name, (times, fit) in (here | self.elsewhere).items()
            },
            "restarts": self.restarts,
            "most": self._most,
            "submitted": self._submitted,
            "service": self._attained(time.time()),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state` in a restarted job."""
        for name, (times, fit) in state["types"].items():
            measured, found = PassTimes(), fit and ThroughputParameters(*fit)
            measured.load(times)
            if name == self._options.gpu_type:
                self.times, self.throughput = measured, found or self.throughput
            else:
                self.elsewhere[name] = measured, found
        self.restarts, self._most = state["restarts"] + 1, max(state["most"], self._replicas)
        self._submitted, self._service = state["submitted"], state["service"]
