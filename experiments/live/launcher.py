"""Starts the replicas of a job on this machine whenever, and as many as, the scheduler says.

A launcher stays with its job to the end. It holds the lock of the job's folder, by which the
scheduler knows that the job is there (`cluster_folder.py`), waits until the allocation gives the
job something, and starts so many replicas of its program, with the variables that torchrun sets and
those of `AgentOptions.of_launcher`. What becomes of them is told by their exit codes:

- all 0: the job is done;
- some `EXIT_REALLOCATED`, no other: they are started again on what the allocation gives now, which
  may be nothing;
- another code, or a signal: the others are ended, and all started again from the checkpoint; after
  so many failures in a row without any progress, or one after the training was over, the launcher
  gives up.

All nodes of an allocation are taken to be this machine: what counts is the number of replicas.
Nobody is ended because the allocation takes something away: agents look at it themselves. To both
an allocation that cannot be read is no news: who runs goes on, who waits waits.

A launcher that was asked to end ends its replicas. One that was killed cannot: its first replica
sees that it is gone (`AgentReport.look`), makes a checkpoint and ends with all others. The next
launcher of the job waits for them, and after `PATIENCE` seconds ends those that are still there.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.files.job_state import read_job_state, read_placement
from goodalloc.data.files.job_submission import (
    JobSubmission,
    read_job_submission,
    write_job_submission,
)
from goodalloc.experiments.agent.cluster_folder import (
    CHECKPOINT,
    CLUSTER_VARIABLE,
    JOB_VARIABLE,
    LAUNCHER_VARIABLE,
    STATE,
    SUBMISSION,
    allocation_file,
    job_folder,
)
from goodalloc.experiments.agent.options import EXIT_REALLOCATED
from goodalloc.experiments.live.replica_group import ReplicaGroup, kill_replicas, replicas_left
from goodalloc.experiments.support.folder_lock import (
    LOCK_SECONDS,
    is_locked,
    locked,
    make_folder,
    require_locks,
)
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 30.0
"""Seconds that replicas of a former launcher have to end, and others when one was reallocated."""


class LaunchFailed(RuntimeError):
    """A job that failed too often."""


class Launched(NamedTuple):
    """What became of a job.

    Attributes
    ----------
    job
        Its name.
    starts, failures
        Times that it was started, and that it ended by an error or a signal.
    seconds
        From the launch to the end.
    """

    job: str
    starts: int
    failures: int
    seconds: float


class _Attempt(NamedTuple):
    """How a run of a job's replicas ended.

    Attributes
    ----------
    done
        Whether the job is.
    trouble
        What went wrong, if anything.
    progress
        Whether the job got further than ever before.
    """

    done: bool
    trouble: str
    progress: bool


@dataclass
class Launcher:
    """A job that is to be trained, as its user submits it.

    Parameters
    ----------
    cluster
        Folder of the cluster.
    name
        Of the job.
    command
        Program and arguments of every replica.
    replicas
        K that the user asks for; most policies choose it.
    retries
        Starts after failures in a row without progress.
    stopped
        Whether the launcher is asked to end.
    say
        Takes a line for people.
    glance
        Seconds between two looks at files and processes.
    patience
        Seconds for replicas that are to end by themselves.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """

    cluster: Path
    name: str
    command: tuple[str, ...]
    replicas: int = 1
    retries: int = 3
    stopped: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None
    glance: float = 0.2
    patience: float = PATIENCE
    _said: str = field(default="", init=False)
    _most_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        JobSubmission(self.name, self.command, 0.0, self.replicas)
        require_count(f"Job '{self.name}': retries", self.retries, 0)

    @property
    def folder(self) -> Path:
        """Of the job."""
        return job_folder(self.cluster, self.name)

    def run(self) -> Launched:
        """Train the job to its end.

        Raises
        ------
        ValueError
            If the job has a launcher already, files cannot be read or written, or a process that
            is recorded as a former replica is not known to be one.
        LaunchFailed
            If it failed too often.
        KeyboardInterrupt
            If the launcher was asked to end.
        """
        require_locks("A launcher")
        make_folder(self.folder)
        refusal = f"Job '{self.name}' has a launcher already; expected one for each job."
        with locked(self.folder, refusal, LOCK_SECONDS):
            return self._run()

    def _run(self) -> Launched:
        begin, starts, failures, in_a_row = time.monotonic(), 0, 0, 0
        self._wait_for_former()
        if self._finished():
            self._require_same_program()
            self._say("is finished already")
            return Launched(self.name, starts, failures, time.monotonic() - begin)
        self._submit()
        self._most_steps, done = self._steps(), False
        while not done:
            starts += 1
            done, trouble, progress = self._attempt()
            if trouble:
                failures, in_a_row = failures + 1, 1 if progress else in_a_row + 1
                self._give_up(trouble, in_a_row)
                where = "from its checkpoint" if self._checkpoint() else "from the beginning"
                self._say(f"{trouble}; started again {where}")
                self._sleep()
            else:
                in_a_row = 0
        return Launched(self.name, starts, failures, time.monotonic() - begin)

    def _attempt(self) -> _Attempt:
        """Train on what is given until the replicas end."""
        placement, checkpoint = self._given(), self._checkpoint()
        done, trouble = self._train(placement)
        steps, best = self._steps(), self._most_steps
        self._most_steps = max(steps, best)
        # one that leaves at once writes a checkpoint, too: then only its steps tell
        progress = steps > best or bool(trouble and self._checkpoint() != checkpoint)
        if not (done or trouble or progress) and self._given() == placement:
            trouble = f"ended with exit code {EXIT_REALLOCATED} on the same allocation"
        if done and (self.folder / STATE).exists() and not self._finished():
            self._say("its program ended before its agent said `finish()`; taken for done")
        return _Attempt(done, trouble, progress)

    def _give_up(self, trouble: str, in_a_row: int) -> None:
        """Give up a job that failed once more, if it should be.

        Raises
        ------
        LaunchFailed
            If its training was over, or it failed too often in a row.
        """
        logs = f"Its replicas' last words are in '{self.folder}'."
        if self._finished():  # who is gets nothing more
            raise LaunchFailed(
                f"Job '{self.name}' {trouble}; its training was over already. {logs}"
            )
        if in_a_row > self.retries:
            raise LaunchFailed(
                f"Job '{self.name}' {trouble}; it failed {in_a_row} times without progress. {logs}"
            )

    def _require_same_program(self) -> None:
        """Refuse to take another job of the same name for this one.

        Raises
        ------
        ValueError
            If the job that is finished had another program.
        """
        path = self.folder / SUBMISSION
        if path.exists() and (former := read_job_submission(path).command) != self.command:
            raise ValueError(
                f"Job '{self.name}' is finished, and was another program ('{' '.join(former)}'); "
                f"expected another name, or its folder '{self.folder}' removed."
            )

    def _submit(self) -> None:
        """Say that the job is there; since when it waits stays as it was said first."""
        path = self.folder / SUBMISSION
        submitted = read_job_submission(path).submitted if path.exists() else time.time()
        submission = JobSubmission(self.name, self.command, submitted, self.replicas)
        if not path.exists() or read_job_submission(path) != submission:
            write_job_submission(path, submission)

    def _wait_for_former(self) -> None:
        """Until no replica of a former launcher is left."""
        deadline = time.monotonic() + self.patience
        if replicas_left(self.folder):
            self._say("waits for replicas of its former launcher")
        while replicas_left(self.folder):
            if time.monotonic() >= deadline:
                kill_replicas(self.folder)
            self._sleep()

    def _given(self) -> dict[str, int]:
        """What the scheduler gives the job, as soon as it is something."""
        while True:
            try:
                if placement := self._placement():
                    return placement
                nobody = "" if is_locked(self.cluster) else "; its cluster has no scheduler now"
                self._say(f"waits for an allocation{nobody}")
            except ValueError as error:
                self._say(str(error))
            self._sleep()

    def _placement(self) -> dict[str, int]:
        """What the scheduler gives the job now."""
        path = allocation_file(self.cluster)
        return read_placement(path, self.name) if path.exists() else {}

    def _train(self, placement: dict[str, int]) -> tuple[bool, str]:
        """Start the replicas and wait for their end: whether all is done, what went wrong."""
        count = sum(placement.values())
        where = ", ".join(f"{node}: {gpus}" for node, gpus in placement.items())
        self._say(f"{count} {'replica' if count == 1 else 'replicas'} ({where})")
        variables = {
            JOB_VARIABLE: self.name,
            CLUSTER_VARIABLE: str(self.cluster.resolve()),
            LAUNCHER_VARIABLE: str(ProcessIdentity.of(os.getpid())),
        }
        with ReplicaGroup(self.command, count, self.folder, variables) as group:
            deadline = float("inf")
            while True:
                codes = group.codes
                wrong = [code for code in codes if code not in (None, 0, EXIT_REALLOCATED)]
                if wrong:
                    rank = codes.index(min(wrong, key=lambda code: code or 0))
                    return False, _trouble(rank, codes[rank] or 0, group.last_words(rank))
                if None not in codes or time.monotonic() > deadline:
                    return set(codes) == {0}, ""
                if EXIT_REALLOCATED in codes and deadline == float("inf"):
                    deadline = time.monotonic() + self.patience
                self._sleep()

    def _finished(self) -> bool:
        """Whether its agent said that the training is over."""
        try:
            return read_job_state(self.folder / STATE).finished
        except ValueError:
            return False

    def _steps(self) -> int:
        """How many steps its agent last told."""
        try:
            return read_job_state(self.folder / STATE).steps
        except ValueError:
            return 0

    def _checkpoint(self) -> int:
        """Which checkpoint there is: when it was written."""
        try:
            return (self.folder / CHECKPOINT).stat().st_mtime_ns
        except OSError:
            return 0

    def _sleep(self) -> None:
        """A moment, unless somebody wants the launcher to end."""
        if self.stopped():
            raise KeyboardInterrupt(
                f"Job '{self.name}' was stopped; the same command goes on from its last checkpoint."
            )
        time.sleep(self.glance)

    def _say(self, text: str) -> None:
        """Tell people, unless it is what they were told last."""
        if text != self._said:
            self._said = text
            self.say(f"{self.name}: {text}")


def _trouble(rank: int, code: int, words: str) -> str:
    """What happened to a replica, as a part of a sentence."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"failed: replica {rank} {how}{words and f' ({words[:200]})'}"
