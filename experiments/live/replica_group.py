"""Replicas of a job as processes of this machine, started and ended together.

Each leads a process group of its own, so that its children end with it. Their identities are kept
in a file, by which a later launcher can wait for them or kill them. The file is not trusted: only
processes that were started as replicas of the job, on this machine, are sent a signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump, parse, read_text
from goodalloc.experiments.agent.cluster_folder import CLUSTER_VARIABLE, JOB_VARIABLE, REPLICAS
from goodalloc.experiments.support.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

#: Seconds that a replica has to end on request, and between two looks.
GRACE, GLANCE = 3.0, 0.02

#: Seconds in which a process that starts or ends may not show its environment.
SILENCE = 0.5

#: Bytes at the end of a log that are searched for its last line.
TAIL = 4096


class ReplicaGroup:
    """Processes of one program; as a context manager it ends them at its end.

    Parameters
    ----------
    command
        The program and its arguments.
    count
        Number of processes, K.
    folder
        Folder of the job, for logs (`replica-0.log`, …) and the file of identities.
    variables
        Environment variables, beside those of torchrun and of this process.
    keeps
        Handles that the processes inherit.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        folder: Path,
        variables: Mapping[str, str],
        keeps: Sequence[int] = (),
    ) -> None:
        self._keeps = tuple(keeps)
        self._command, self._folder, self._count = list(command), folder, count
        usual = {"OMP_NUM_THREADS": "1"} | dict(os.environ)
        self._variables = usual | dict(variables)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def codes(self) -> list[int | None]:
        """Exit codes so far, negative for a signal; None for running processes."""
        return [process.poll() for process in self._processes]

    def last_words(self, rank: int) -> str:
        """Return the last line of the output of a replica; empty if there is none."""
        return last_line(log_of(self._folder, rank))

    def __enter__(self) -> Self:
        """Start the processes.

        Raises
        ------
        ValueError
            If the program or a log cannot be opened.
        """
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            port = str(door.getsockname()[1])
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(self._count))
        try:
            for rank in range(self._count):
                self._start(rank, shared | dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)))
        except BaseException as error:
            self.end()
            if isinstance(error, OSError):
                reason = (error.strerror or str(error)).lower()
                raise ValueError(
                    f"Command '{self._command[0]}' cannot be started ({reason})."
                ) from error
            raise
        return self

    def _start(self, rank: int, variables: Mapping[str, str]) -> None:
        """Start a process and record its identity."""
        with log_of(self._folder, rank).open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._variables | dict(variables),
                start_new_session=True,
                pass_fds=self._keeps,
            )
        self._processes.append(process)
        known = [ProcessIdentity.of(one.pid) for one in self._processes]
        texts = [str(one) for one in known if one.start]
        write_atomically(self._folder / REPLICAS, dump(texts) + "\n")

    def end(self) -> None:
        """Ask running processes to end, and kill the remaining ones, with their children."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        try:
            while None in self.codes and time.monotonic() < deadline:
                time.sleep(GLANCE)
        finally:  # also if the wait is interrupted
            self._signal(signal.SIGKILL)
            for process in self._processes:
                process.wait()

    def _signal(self, number: int) -> None:
        """Send a signal to the groups of all processes."""
        for process in self._processes:
            if process.poll() is not None and ProcessIdentity.of(process.pid).start:
                continue  # its number was reused
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def __exit__(self, *_: object) -> None:
        self.end()
        (self._folder / REPLICAS).unlink(missing_ok=True)


def log_of(folder: Path, rank: int) -> Path:
    """Return the path of the log of a replica.

    Parameters
    ----------
    folder
        Folder of the job.
    rank
        Index of the replica.
    """
    return folder / f"replica-{rank}.log"


def last_line(log: Path) -> str:
    """Return the last line of a log that can be printed; empty if there is none.

    Parameters
    ----------
    log
        The file; one that is not there has no line.
    """
    try:
        with log.open("rb") as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - TAIL, 0))
            lines = stream.read().decode("utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    shown = ("".join(filter(str.isprintable, line)).strip() for line in reversed(lines))
    return next(filter(None, shown), "")


def replicas_left(folder: Path) -> list[ProcessIdentity]:
    """Return the recorded replicas that still run here; none if the file cannot be read.

    Parameters
    ----------
    folder
        Folder of the job.
    """
    try:
        known = [ProcessIdentity.parse(text) for text in parse(read_text(folder / REPLICAS))]
    except (ValueError, TypeError):
        return []
    return [one for one in known if one.alive]


def kill_replicas(folder: Path) -> None:
    """Kill the replicas of a former launcher, each with its children.

    Parameters
    ----------
    folder
        Folder of the job.

    Raises
    ------
    ValueError
        If a recorded process was not started as a replica of the job, or the system does not show
        its environment; that process is not killed.

    Examples
    --------
    >>> from goodalloc.experiments.agent import job_folder
    >>> from goodalloc.experiments.live import kill_replicas
    >>> kill_replicas(job_folder("cluster", "digits"))  # there are none
    """
    cluster = folder.parent.parent.resolve()
    variables = {JOB_VARIABLE: folder.name, CLUSTER_VARIABLE: str(cluster)}
    deadline = time.monotonic() + SILENCE
    for one in replicas_left(folder):
        while not one.started_with(variables) and one.alive and time.monotonic() < deadline:
            time.sleep(GLANCE)
        if one.started_with(variables):
            one.kill()
        elif one.alive:
            raise ValueError(
                f"File '{folder / REPLICAS}' names process {one.number}, which is not known to be "
                f"a replica of job '{folder.name}'; expected that process ended, or the file "
                "removed."
            )
