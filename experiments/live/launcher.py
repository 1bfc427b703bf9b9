"""Launcher, which has the replicas of a job started as the scheduler allocates them.

A launcher runs until its job ends. It holds the lock of the folder of the job, which shows the
scheduler that the job is present (`cluster_folder.py`), waits until the job is allocated GPUs, and
starts as many replicas of its program, with the environment variables of torchrun and of
`AgentOptions.of_launcher`. Their exit codes determine the next step:

- all 0: the job is done;
- some `EXIT_REALLOCATED`, no other: they are restarted on the present allocation, or wait for one;
- another code, or a signal: the others are ended, and all are restarted from the checkpoint; the
  launcher fails after a number of failures in a row without progress, or after a failure once the
  training was over.

An engine starts them (`engines.py`): as processes of this machine, or on the nodes of a Ray
cluster, each on GPUs that no other job has. The launcher does not end replicas whose allocation
changes: agents look at it themselves. Agents and launcher ignore an allocation that cannot be read:
running jobs continue, and waiting jobs wait.

A launcher that was asked to end ends its replicas. If it was killed, its first replica notices
(`AgentReport.look`), writes a checkpoint and ends with all others; on Ray they are killed. The next
launcher of the job waits for them, and after `PATIENCE` seconds, or some minutes where the job is
finished, kills the remaining ones.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.files.job_state import read_placement
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
    SUBMISSION,
    allocation_file,
    job_folder,
)
from goodalloc.experiments.agent.options import EXIT_REALLOCATED
from goodalloc.experiments.live.agent_state import AgentState
from goodalloc.experiments.live.engines import LocalEngine
from goodalloc.experiments.live.replica_group import kill_replicas, replicas_left
from goodalloc.experiments.live.resource_requests import write_request
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

    from goodalloc.experiments.live.engines import Engine, Group
    from goodalloc.models.round.mode import Resources

#: Seconds that replicas of a former launcher have to end, and others once one was reallocated.
PATIENCE = 30.0

#: Times that many seconds more that those of a finished job have.
SAVING = 20


class LaunchFailed(RuntimeError):
    """Error of a job that failed too often."""


class Launched(NamedTuple):
    """Result of a launch.

    Attributes
    ----------
    job
        Name of the job.
    starts, failures
        Number of starts, and of ends by an error or a signal.
    seconds
        Seconds from the launch to the end.
    """

    job: str
    starts: int
    failures: int
    seconds: float


class _Attempt(NamedTuple):
    """Result of one run of the replicas of a job.

    Attributes
    ----------
    done
        Whether the job is done.
    trouble
        Description of a failure, else empty.
    progress
        Whether the job made progress beyond that of all runs before.
    """

    done: bool
    trouble: str
    progress: bool


@dataclass
class Launcher:
    """Launcher of a job.

    Parameters
    ----------
    cluster
        Folder of the cluster.
    name
        Name of the job.
    command
        Program and arguments of every replica.
    replicas
        Number of replicas K that the user requests; most policies choose their own.
    application
        Name of what it trains, which jobs that train the same share; empty if unknown.
    steps
        Predicted number of scale-invariant steps of the whole training; None if unknown.
    request
        What a replica takes beside its GPU (`resource_requests.py`).
    retries
        Restarts after failures in a row without progress.
    stopped
        Function that returns whether the launcher is asked to end.
    say
        Function that shows a line of text.
    glance
        Seconds between two looks at files and processes.
    patience
        Seconds to wait for replicas that should end by themselves.
    engine
        What starts the replicas; None for processes of this machine, on CPUs.

    Raises
    ------
    ValueError
        If `name` is not a valid name of a job, `command` is empty, `replicas` < 1, `steps` <= 0 or
        `retries` < 0.
    """

    cluster: Path
    name: str
    command: tuple[str, ...]
    replicas: int = 1
    application: str = ""
    steps: float | None = None
    request: Resources = ()
    retries: int = 3
    stopped: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None
    glance: float = 0.2
    patience: float = PATIENCE
    engine: Engine | None = None
    _agent: AgentState = field(init=False)
    _said: str = field(default="", init=False)
    _most_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        self._submission(0.0)
        self._agent = AgentState(self.folder)
        require_count(f"Job '{self.name}': retries", self.retries, 0)

    @property
    def folder(self) -> Path:
        """Folder of the job."""
        return job_folder(self.cluster, self.name)

    def run(self) -> Launched:
        """Train the job to its end.

        Raises
        ------
        ValueError
            If the job has a launcher already, it is finished and had another program, files cannot
            be read or written, or a process recorded as a former replica is not known to be one.
        LaunchFailed
            If the job failed more than `retries` times in a row without progress.
        KeyboardInterrupt
            If the launcher was asked to end.
        """
        require_locks("A launcher")
        make_folder(self.folder)
        refusal = f"Job '{self.name}' has a launcher already; expected one for each job."
        with locked(self.folder, refusal, LOCK_SECONDS):
            return self._run()

    def _run(self) -> Launched:
        """Train the job to its end, with the lock of its folder."""
        begin, starts, failures, in_a_row = time.monotonic(), 0, 0, 0
        self._wait_for_former()
        if self._agent.finished:
            self._require_same_program()
            self._say("is finished already")
            return Launched(self.name, starts, failures, time.monotonic() - begin)
        self._submit()
        self._most_steps, done = self._agent.steps, False
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
        """Train on the present allocation until the replicas end."""
        checkpoint = self._checkpoint()
        done, trouble, placement = self._train_when_free(self._given())
        steps, best = self._agent.steps, self._most_steps
        self._most_steps = max(steps, best)
        # a reallocated job always writes a checkpoint, so that only its steps show progress
        progress = steps > best or bool(trouble and self._checkpoint() != checkpoint)
        if not (done or trouble or progress) and self._present() == placement:
            trouble = f"ended with exit code {EXIT_REALLOCATED} on the same allocation"
        if done and self._agent.there and not self._agent.finished:
            self._say("its program ended before its agent said `finish()`; taken for done")
        return _Attempt(done, trouble, progress)

    def _give_up(self, trouble: str, in_a_row: int) -> None:
        """Fail if the job should not be restarted after another failure.

        Raises
        ------
        LaunchFailed
            If its training was over, or it failed more than `retries` times in a row.
        """
        logs = f"Its replicas' last words are in '{self.folder}'."
        if self._agent.finished:  # a finished job is allocated nothing more
            raise LaunchFailed(
                f"Job '{self.name}' {trouble}; its training was over already. {logs}"
            )
        if in_a_row > self.retries:
            raise LaunchFailed(
                f"Job '{self.name}' {trouble}; it failed {in_a_row} times without progress. {logs}"
            )

    def _require_same_program(self) -> None:
        """Refuse a finished job of the same name with another program.

        Raises
        ------
        ValueError
            If the finished job had another program.
        """
        path = self.folder / SUBMISSION
        if path.exists() and (former := read_job_submission(path).command) != self.command:
            raise ValueError(
                f"Job '{self.name}' is finished, and was another program ('{' '.join(former)}'); "
                f"expected another name, or its folder '{self.folder}' removed."
            )

    def _submit(self) -> None:
        """Write the submission of the job, with the time of its first submission."""
        path = self.folder / SUBMISSION
        submitted = read_job_submission(path).submitted if path.exists() else time.time()
        submission = self._submission(submitted)
        write_request(self.folder, self.request)  # first: a job is there with its submission
        if not path.exists() or read_job_submission(path) != submission:
            write_job_submission(path, submission)

    def _submission(self, submitted: float) -> JobSubmission:
        """Return the submission at a time in seconds since 1970."""
        return JobSubmission(
            self.name, self.command, submitted, self.replicas, self.application, self.steps
        )

    def _wait_for_former(self) -> None:
        """Wait until no replica of a former launcher remains."""
        deadline = time.monotonic() + self.patience
        if replicas_left(self.folder):
            self._say("waits for replicas of its former launcher")
        while replicas_left(self.folder):
            # those of a finished job may still evaluate and save
            late = time.monotonic() - (SAVING * self.patience if self._agent.finished else 0.0)
            if late >= deadline:
                kill_replicas(self.folder)
            self._sleep()

    def _given(self) -> dict[str, int]:
        """Wait until the scheduler allocates GPUs to the job; return its placement."""
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
        """Return the present placement of the job, empty if it has none."""
        path = allocation_file(self.cluster)
        return read_placement(path, self.name) if path.exists() else {}

    def _present(self) -> dict[str, int]:
        """Return the present placement of the job, empty also if it cannot be read."""
        try:
            return self._placement()
        except ValueError:  # told while the job waits
            return {}

    def _train_when_free(self, placement: dict[str, int]) -> tuple[bool, str, dict[str, int]]:
        """Train as soon as there is room that no other job has, unless the allocation changes.

        Returns
        -------
        tuple
            Whether the job is done, any failure, and the placement that it trained on.
        """
        engine = LocalEngine(self.cluster) if self.engine is None else self.engine
        variables = {
            JOB_VARIABLE: self.name,
            CLUSTER_VARIABLE: str(self.cluster.resolve()),
            LAUNCHER_VARIABLE: str(ProcessIdentity.of(os.getpid())),
        }
        while True:
            before = self._agent.published
            with engine.start(
                self.command, placement, self.folder, variables, self.request
            ) as group:
                if group is not None:
                    return *self._train(placement, group, before), placement
            self._say("waits for GPUs that another job still has, or for a node")
            self._sleep()
            placement = self._given()

    def _train(self, placement: dict[str, int], group: Group, before: float) -> tuple[bool, str]:
        """Watch the replicas to their end; return whether the job is done, and any failure."""
        count = sum(placement.values())
        where = ", ".join(f"{node}: {gpus}" for node, gpus in placement.items())
        self._say(f"{count} {'replica' if count == 1 else 'replicas'} ({where})")
        deadline = float("inf")
        while True:
            codes = group.codes
            wrong = [code for code in codes if code not in (None, 0, EXIT_REALLOCATED)]
            if wrong:
                rank = codes.index(min(wrong, key=lambda code: code or 0))
                return False, _trouble(rank, codes[rank] or 0, group.last_words(rank))
            if None not in codes or time.monotonic() > deadline:
                return set(codes) == {0}, ""
            if self._agent.misplaced(placement, before):
                self._say("was reallocated while it started")
                return False, ""
            if EXIT_REALLOCATED in codes and deadline == float("inf"):
                deadline = time.monotonic() + self.patience
            self._sleep()

    def _checkpoint(self) -> int:
        """Return the time at which the checkpoint was written, 0 if there is none."""
        try:
            return (self.folder / CHECKPOINT).stat().st_mtime_ns
        except OSError:
            return 0

    def _sleep(self) -> None:
        """Wait for `glance` seconds, unless the launcher is asked to end."""
        if self.stopped():
            raise KeyboardInterrupt(
                f"Job '{self.name}' was stopped; the same command goes on from its last checkpoint."
            )
        time.sleep(self.glance)

    def _say(self, text: str) -> None:
        """Show a line of text, unless it is the same as the last."""
        if text != self._said:
            self._said = text
            self.say(f"{self.name}: {text}")


def _trouble(rank: int, code: int, words: str) -> str:
    """Return a description of the failure of a replica, as a part of a sentence."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"failed: replica {rank} {how}{words and f' ({words[:200]})'}"
