"""What an agent and its scheduler tell each other, by files.

The first replica keeps the seconds of steps, has the throughput model refitted by a child process,
writes the job's state (`data/files/job_state.py`) now and then, and looks what the scheduler gives
it.
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


FIRST = 2.0
"""Seconds after which a job first publishes, and asks for a fit, unless it is to do so oftener."""


class AgentReport:
    """The scheduler's side of a training agent.

    Parameters
    ----------
    options
        Those of the agent.
    replicas
        K, what the job runs on.

    Attributes
    ----------
    nodes
        N.
    stale
        Whether the job was given something else before it began.
    times
        Measured seconds.
    throughput
        The last fit; before there is one what the options say, which may be None.
    restarts
        Times the job was restarted.

    Raises
    ------
    ValueError
        If there are more nodes than replicas, or the job's folder cannot be made.
    """

    def __init__(self, options: AgentOptions, replicas: int) -> None:
        self._options, self._replicas = options, replicas
        make_folder(Path(options.folder))
        self.times, self._fits = PassTimes(), FitProcess()
        self.throughput: ThroughputParameters | None = options.throughput
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
        """What the scheduler gives the job; None if it has said nothing that can be read."""
        file = self._options.allocation
        if file is None:
            return None
        try:
            return read_placement(file, self._options.name)
        except ValueError:  # no news: the scheduler writes the file anew when it next decides
            return None

    def look(self) -> bool:
        """Whether the job has to be started again: asked now and then.

        That is when the scheduler gives it something else than it runs on, or when its launcher is
        gone, for the next one starts replicas of its own.
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
            # what the launcher read just before the file could not be read any more
            self._placement, self.nodes = wanted, len(wanted)
        return wanted != self._placement

    @property
    def due(self) -> bool:
        """Whether it is time to publish: first after `FIRST`, then twice as late each time."""
        age = self._published - self._started
        interval = min(self._options.publish_seconds, max(FIRST, age))
        return time.monotonic() - self._published >= interval

    def publish(self, batch: BatchLimits, **known: Any) -> None:
        """Take in a fit, ask for the next one, and write the job's state.

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
            **known,
        )
        write_job_state(self._options.file(STATE), state)
        self._published = time.monotonic()

    def _attained(self, now: float) -> float:
        """GPU-seconds so far."""
        return self._service + self._replicas * max(now - self._began, 0.0)

    def close(self) -> None:
        """End the child."""
        self._fits.close()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "times": self.times.state(),
            "restarts": self.restarts,
            "most": self._most,
            "submitted": self._submitted,
            "service": self._attained(time.time()),
            "throughput": self.throughput and [*self.throughput],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state, as a restarted job."""
        self.times.load(state["times"])
        self.restarts, self._most = state["restarts"] + 1, max(state["most"], self._replicas)
        self._submitted, self._service = state["submitted"], state["service"]
        if state["throughput"] is not None:
            self.throughput = ThroughputParameters(*state["throughput"])
