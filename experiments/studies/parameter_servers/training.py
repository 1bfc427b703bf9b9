"""Training with parameter servers as processes of this machine (PyTorch).

As a scheduler would, `PsTraining` starts every server and worker (`parameter_servers/process.py`)
with a fresh interpreter and waits for all of them at every stage, so that a stage ends when the
last process has reached it. A change of configuration is a checkpoint, a stop and a start: the
state is one file, of which every server writes its part, and any number of servers read theirs.

When one process dies or does not answer in time, all others are killed.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.studies.parameter_servers.checkpoint import (
    new_state,
    read_checkpoint,
    write_checkpoint,
)
from goodalloc.experiments.studies.parameter_servers.process import Role
from goodalloc.experiments.studies.parameter_servers.training_job import StartSeconds, StepSeconds
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.processes import Processes
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    import os

    from goodalloc.experiments.studies.parameter_servers.training_job import TrainingJob

PROGRAM = "goodalloc.experiments.studies.parameter_servers.process"

#: Most servers and most workers.
MOST = 64

#: Seconds that a command may take before it counts as hung.
PATIENCE = 120.0


class PsTraining(Processes):
    """Running servers and workers, which end with the context.

    Parameters
    ----------
    job
        Trained job.
    servers, workers
        Numbers of processes of each role.
    checkpoint
        Folder of the checkpoint to resume from; None to begin.
    patience
        Seconds after which a command counts as hung, above 0.

    Raises
    ------
    ValueError
        If a value is out of range, the checkpoint is damaged or of another network, or PyTorch is
        not installed.
    ChildProcessError
        If a process ends early or does not answer in time; then all others are killed.
    """

    def __init__(
        self,
        job: TrainingJob,
        servers: int,
        workers: int,
        checkpoint: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        require_extra("measure", "Training with parameter servers")
        require_count("Training: servers", servers, 1, MOST)
        require_count("Training: workers", workers, 1, min(MOST, job.batch_size))
        require_number("Training: patience", patience, 0.0, strict=True)
        found = None if checkpoint is None else read_checkpoint(checkpoint)
        if found is not None and found.network != job.network:
            raise ValueError(
                f"Checkpoint '{checkpoint}': network is '{found.network}'; expected "
                f"'{job.network}' as in the job."
            )
        self.job, self.servers, self.workers = job, servers, workers
        self.steps = 0 if found is None else found.steps
        self._places = [("server", number) for number in range(servers)]
        self._places += [("worker", number) for number in range(workers)]
        super().__init__(
            PROGRAM,
            [f"{kind} {number}" for kind, number in self._places],
            f"Training with parameter servers ({servers}) and workers ({workers})",
            patience,
        )
        try:
            self.start = self._start("" if found is None else str(found.file))
        except BaseException:
            self.kill()
            raise

    def train(self, steps: int) -> StepSeconds:
        """Make some steps.

        Parameters
        ----------
        steps
            Number of steps, at least 1.
        """
        require_count("Training: steps", steps, 1)
        answers = self._order("training", order="train", steps=steps)
        self.steps += steps
        seconds = [np.array(answer["seconds"]) for answer in answers]
        update = np.max([one[:, 0] for one in seconds[: self.servers]], axis=0)
        forward, backward, push, pull = np.mean(seconds[self.servers :], axis=0).T
        update = np.minimum(update, pull)
        processor = sum(answer["processor"] for answer in answers) / steps
        return StepSeconds(forward, backward, push, update, pull - update, processor)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a checkpoint, to the disk; it is there as a whole or not at all.

        Parameters
        ----------
        folder
            Where; it takes the place of the one that is there.
        """
        file = new_state(folder)
        self._order("writing a checkpoint", order="save", file=str(file))
        write_checkpoint(folder, self.job.network, self.steps, file)

    def _start(self, file: str) -> StartSeconds:
        """Start all processes, and bring them to where they can train."""
        token = secrets.token_hex(16)
        clock = [time.perf_counter()]
        self._launch()
        roles = [
            Role(
                *place,
                self.servers,
                self.workers,
                self.job.network,
                self.job.seed,
                self.job.batch_size,
                self.job.learning_rate,
                self.job.momentum,
                token,
                self.patience,
                self.steps,
                file,
            )._asdict()
            for place in self._places
        ]
        self._say(roles, "starting")
        self._wait("starting an interpreter")
        clock.append(time.perf_counter())
        ports = [answer.get("port") for answer in self._wait("importing PyTorch")]
        clock.append(time.perf_counter())
        ready = {"ports": ports[: self.servers]}
        self._say([ready] * self.workers, "connecting", first=self.servers)
        self._wait("connecting")
        clock.append(time.perf_counter())
        processor = sum(answer["processor"] for answer in self._wait("loading its state"))
        clock.append(time.perf_counter())
        interpreters, imports, connection, state = np.diff(clock).tolist()
        return StartSeconds(interpreters, imports, connection, state, processor)
