"""What the agent of a job has published, as its launcher reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.files.job_state import read_job_state
from goodalloc.experiments.agent.cluster_folder import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.data.files.job_state import JobState


class AgentState:
    """Last readable state of a job, read again when its file has changed.

    Parameters
    ----------
    folder
        Folder of the job.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATE
        self._written: tuple[int, ...] = ()
        self._state: JobState | None = None

    @property
    def there(self) -> bool:
        """Whether there is a state, readable or not."""
        return self._path.exists()

    def read(self) -> JobState | None:
        """Return the state; None if there is none that can be read."""
        try:
            found = self._path.stat()
            written = found.st_ino, found.st_mtime_ns, found.st_size  # clocks may be coarse
            if written != self._written:
                self._state, self._written = read_job_state(self._path), written
        except (OSError, ValueError):
            self._state, self._written = None, ()
        return self._state

    @property
    def finished(self) -> bool:
        """Whether the agent reported the end of the training."""
        state = self.read()
        return state is not None and state.finished

    @property
    def steps(self) -> int:
        """Number of steps that the agent reported last."""
        state = self.read()
        return 0 if state is None else state.steps

    @property
    def published(self) -> float:
        """Time at which the state was published; 0 if there is none."""
        state = self.read()
        return 0.0 if state is None else state.published

    def misplaced(self, placement: Mapping[str, int], before: float) -> bool:
        """Return whether an agent takes another placement for the one that it runs on.

        It reads the allocation when it starts, which the scheduler may have changed since the
        launcher started it; it then waits for a change that it does not see.

        Parameters
        ----------
        placement
            Placement that it was started on.
        before
            Time of the last state before it was started.
        """
        state = self.read()
        told = None if state is None or state.published == before else state.placement
        return bool(told) and told != placement
