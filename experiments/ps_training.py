"""Training with parameter servers as processes of this machine: started, watched, ended (PyTorch).

As a scheduler would, `PsTraining` starts every server and worker (`ps_process.py`) with a fresh
interpreter and waits for all of them at every stage; so the seconds of a stage end when the last
process has reached it. A change of configuration is a checkpoint, a stop and a start: the state is
one file, of which every server writes its part, and however many there are then read theirs.

None is left behind: when one dies or says nothing for too long, the others are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.extras import require_extra
from goodalloc.experiments.ps_checkpoint import new_state, read_checkpoint, write_checkpoint
from goodalloc.experiments.ps_process import LEFT_ALONE, Role
from goodalloc.experiments.ps_training_job import StartSeconds, StepSeconds
from goodalloc.models.validation import require_count, require_number

if TYPE_CHECKING:
    from typing import NoReturn, Self

    from goodalloc.experiments.ps_training_job import TrainingJob

PROGRAM = "goodalloc.experiments.ps_process"

#: Most servers and most workers.
MOST = 64

#: Seconds that a command may take before it counts as hung.
PATIENCE = 120.0

#: Seconds in which a process ends of which the others say that it is gone, and how often to look.
GRACE = 1.0
GLANCE = 0.01


class PsTraining:
    """Servers and workers under way; as a context manager it leaves none behind.

    Parameters
    ----------
    job
        What is trained.
    servers, workers
        How many processes of each.
    checkpoint
        Folder of the checkpoint to go on from; None to begin.
    patience
        Seconds after which a command counts as hung, above 0.

    Raises
    ------
    ValueError
        If anything makes no sense, the checkpoint is of another network or cannot be read, or
        PyTorch is not installed.
    ChildProcessError
        If a process ends early or says nothing for too long; all others have been killed then.
    """

    def __init__(
        self, job: TrainingJob, servers: int, workers: int,
        checkpoint: str | os.PathLike[str] | None = None, patience: float = PATIENCE,
    ) -> None:  # fmt: skip
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
        self.patience = patience
        self._places = [("server", number) for number in range(servers)]
        self._places += [("worker", number) for number in range(workers)]
        self._names = [f"{kind} {number}" for kind, number in self._places]
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._heard: queue.Queue[tuple[int, str]] = queue.Queue()
        self._answers: list[deque[dict[str, Any]]] = [deque() for _ in self._names]
        self._last_words = [""] * len(self._names)
        self._ended = False
        try:
            self.start = self._start("" if found is None else str(found.file))
        except BaseException:
            self.kill()
            raise

    @property
    def processes(self) -> dict[str, int]:
        """The numbers that the system gave the processes, by name."""
        pids = [process.pid for process in self._processes]
        return dict(zip(self._names, pids, strict=True))

    def train(self, steps: int) -> StepSeconds:
        """Make some steps.

        Parameters
        ----------
        steps
            How many, at least 1.
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

    def stop(self) -> None:
        """End all processes as they end by themselves."""
        self._say([{"order": "stop"}] * len(self._names), "stopping")
        deadline = time.monotonic() + self.patience
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.0))
        if any(process.poll() != 0 for process in self._processes):
            self._fail("stopping")
        self.kill()

    def kill(self) -> None:
        """End all processes that there still are."""
        self._ended = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # what nobody has read is lost
                process.stdin.close()
        for listener in self._listeners:
            listener.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start(self, file: str) -> StartSeconds:
        """Start all processes, and bring them to where they can train."""
        token = secrets.token_hex(16)
        path = os.pathsep.join(filter(None, sys.path))
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        clock = [time.perf_counter()]
        for index in range(len(self._names)):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
            )  # fmt: skip
            self._processes.append(process)
            listener = threading.Thread(target=self._listen, args=(index, process), daemon=True)
            listener.start()
            self._listeners.append(listener)
        roles = [
            Role(
                *place, self.servers, self.workers, self.job.network, self.job.seed,
                self.job.batch_size, self.job.learning_rate, self.job.momentum, token,
                self.patience, self.steps, file, os.getpid(),
            )._asdict()
            for place in self._places
        ]  # fmt: skip
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

    def _order(self, doing: str, **order: Any) -> list[dict[str, Any]]:
        """What all processes answer to an order."""
        self._say([order] * len(self._names), doing)
        return self._wait(doing)

    def _say(self, messages: list[dict[str, Any]], doing: str, first: int = 0) -> None:
        """Tell every process from the first one on something.

        Raises
        ------
        ValueError
            If they have been ended.
        """
        if self._ended:
            raise ValueError("Training: its processes have ended; expected one that is under way.")
        for process, message in zip(self._processes[first:], messages, strict=True):
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
            except OSError:
                self._fail(doing)

    def _listen(self, index: int, process: subprocess.Popen[str]) -> None:
        """Pass on what a process says, and that it has ended."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._heard.put((index, line))
        self._heard.put((index, ""))

    def _wait(self, doing: str) -> list[dict[str, Any]]:
        """The next answer of every process."""
        deadline = time.monotonic() + self.patience
        while not all(self._answers):
            try:
                index, line = self._heard.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                self._fail(doing)
            if not line:
                self._fail(doing)
            if line.startswith("{"):
                self._answers[index].append(json.loads(line))
            else:  # from its interpreter, or a library
                self._last_words[index] = line.strip() or self._last_words[index]
        return [answers.popleft() for answers in self._answers]

    def _fail(self, doing: str) -> NoReturn:
        """Kill all, and say which process is to blame.

        Raises
        ------
        ChildProcessError
            Always.
        """
        deadline = time.monotonic() + GRACE
        while (culprit := self._culprit()) is None and time.monotonic() < deadline:
            time.sleep(GLANCE)
        answers = zip(self._names, self._answers, strict=True)
        silent = ", ".join(name for name, answered in answers if not answered)
        self.kill()
        if culprit is None:
            what = f"no answer from {silent} within {self.patience:g} s"
        else:
            words = self._last_words[culprit]
            what = f"{self._names[culprit]} ended with exit code "
            what += f"{self._processes[culprit].returncode}{words and f' ({words})'}"
        raise ChildProcessError(
            f"Training with parameter servers ({self.servers}) and workers ({self.workers}): "
            f"{what} while {doing}; all others were ended."
        )

    def _culprit(self) -> int | None:
        """The first process that ended, but not because another one had."""
        for index, process in enumerate(self._processes):
            if process.poll() not in (None, 0, LEFT_ALONE):
                return index
        return None
