"""Process that runs solvers, so that a hang or a crash ends one run only."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.gap.comparison import attempt
from goodalloc.experiments.support.process_identity import end_with
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.dotted_path import load_callable
from goodalloc.solvers.interface.base import SOLVERS, find_solver
from goodalloc.solvers.interface.result import Status

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.interface.stop import Stop


@dataclass(frozen=True, slots=True)
class Task:
    """Run of a solver.

    Parameters
    ----------
    instance
        A path, or the name of an instance that ships.
    solver, seed, stop
        The solver, its seed and its limits.
    bound
        Upper bound on the fitness, if one is known.
    attempt
        Dotted path of a function that takes the task and returns its result, for rounds that
        `goodalloc.solvers.solve` does not take; None for those that it does.
    """

    instance: str
    solver: str
    seed: int
    stop: Stop
    bound: float | None = None
    attempt: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a task has no result.

    Parameters
    ----------
    status
        `Status.FAILED` or `Status.TIMEOUT`.
    message
        The reason, which begins with the status.
    seconds
        Wall time until then.
    """

    status: Status
    message: str
    seconds: float


class Worker:
    """Runs tasks in a process of its own, which is replaced when it dies or has to be killed."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._running: tuple[SpawnProcess, Connection] | None = None

    def run(self, task: Task, timeout: float | None) -> Result | Failure:
        """Run a task; after `timeout` seconds the process is killed."""
        process, pipe = self._running = self._running or self._start()
        begin = time.perf_counter()
        try:
            pipe.send(task)
            if pipe.poll(timeout):
                outcome: Result | Failure = pipe.recv()
                return outcome
        except (EOFError, OSError):
            process.join()
            code = process.exitcode
            self.close()
            message = f"failed: process died with exit code {code}"
            return Failure(Status.FAILED, message, _since(begin))
        self.close()
        message = f"timeout: killed after {timeout:g} seconds"
        return Failure(Status.TIMEOUT, message, _since(begin))

    def _start(self) -> tuple[SpawnProcess, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            process, pipe = self._running
            process.kill()
            process.join()
            pipe.close()
        self._running = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _since(begin: float) -> float:
    return time.perf_counter() - begin


def _warm_up(solver: str) -> None:
    """Import the modules of a solver before its time is measured.

    Some libraries import only what they are about to use, so our solvers decide a tiny round first.
    """
    find_solver(solver)
    if solver in SOLVERS:
        attempt(Instance(Cluster.uniform(1, 1), (Job("any"),)), solver)


def _serve(pipe: Connection) -> None:
    """Run tasks until the connection is closed; an instance is kept while it repeats."""
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    source, instance = "", None
    warm: set[str] = set()
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        begin = time.perf_counter()
        try:
            if task.solver not in warm:
                _warm_up(task.solver)
                warm.add(task.solver)
            if task.attempt is not None:
                pipe.send(load_callable(task.attempt, "Task")(task))
                continue
            if instance is None or source != task.instance:
                source, instance = task.instance, find_instance(task.instance)
                mode_utilities(instance)
            pipe.send(
                attempt(instance, task.solver, stop=task.stop, seed=task.seed, bound=task.bound)
            )
        except (KeyboardInterrupt, BrokenPipeError):
            return
        except Exception as error:  # whatever happens here is the outcome of the task
            text = " ".join(str(error).split())
            message = f"failed: {type(error).__name__}: {text}"
            pipe.send(Failure(Status.FAILED, message, _since(begin)))
