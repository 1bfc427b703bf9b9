"""Processes of this machine that carry out orders and are started, watched and ended together.

Each is a fresh interpreter that reads orders from its standard input and answers on its standard
output, one line of JSON each. When one dies or exceeds the time limit of an answer, the others are
killed, so that none remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, AnyStr, Generic, cast

from goodalloc.experiments.support.process_messages import LEFT_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn, Self

#: Seconds to wait for the end of a process that the others report as gone, and between two looks.
GRACE = 1.0
GLANCE = 0.01


class ProcessEnded(ChildProcessError):
    """Error of a process that ended early or exceeded the time limit of an answer.

    Attributes
    ----------
    code
        Its exit code, negative for a signal; None where it hung.
    words
        Last line of its output that is no answer.
    """

    def __init__(self, sentence: str, code: int | None, words: str) -> None:
        super().__init__(sentence)
        self.code, self.words = code, words


@dataclass(frozen=True)
class PipedProcess(Generic[AnyStr]):
    """Process with pipes for its requests and answers.

    Parameters
    ----------
    process
        The process.
    requests, answers
        Its standard input and output.
    """

    process: subprocess.Popen[AnyStr]
    requests: IO[AnyStr]
    answers: IO[AnyStr]


def fresh_interpreter(
    program: str, variables: Mapping[str, str], **options: Any
) -> PipedProcess[Any]:
    """Start a module in an interpreter of its own, with pipes for requests and answers.

    Parameters
    ----------
    program
        The module.
    variables
        Environment variables beside those of this process.
    options
        Further options of `subprocess.Popen`.

    Returns
    -------
    PipedProcess
        Of strings if the options ask for text, else of bytes.
    """
    path = os.pathsep.join(filter(None, sys.path))
    process: subprocess.Popen[Any] = subprocess.Popen(
        [sys.executable, "-P", "-m", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path} | dict(variables),
        **options,
    )
    # both are there because of `PIPE`, which the type of `Popen` does not say
    return PipedProcess(process, cast("IO[Any]", process.stdin), cast("IO[Any]", process.stdout))


class Processes:
    """Group of processes; as a context manager it kills them at its end.

    Parameters
    ----------
    program
        The module that they run.
    names
        Names of the processes.
    title
        Name of their work, with which messages begin.
    patience
        Time limit of an order in seconds, above 0.
    environment
        Environment variables beside those of this process.
    keeps
        Handles that the processes keep open too: a lock is held until the last of them has ended.
    """

    def __init__(
        self,
        program: str,
        names: Sequence[str],
        title: str,
        patience: float,
        environment: Mapping[str, str] | None = None,
        keeps: Sequence[int] = (),
    ) -> None:
        self.patience = patience
        self._program, self._names, self._title = program, list(names), title
        self._variables = {} if environment is None else dict(environment)
        self._keeps = tuple(keeps)
        self._processes: list[PipedProcess[str]] = []
        self._listeners: list[threading.Thread] = []
        self._heard: queue.Queue[tuple[int, str]] = queue.Queue()
        self._answers: list[deque[dict[str, Any]]] = [deque() for _ in self._names]
        self._last_words = [""] * len(self._names)
        self._ended = False

    @property
    def processes(self) -> dict[str, int]:
        """Process identifiers by name."""
        pids = [piped.process.pid for piped in self._processes]
        return dict(zip(self._names, pids, strict=True))

    def _launch(self) -> None:
        """Start all interpreters."""
        variables = {"OMP_NUM_THREADS": "1"} | self._variables
        for index in range(len(self._names)):
            piped: PipedProcess[str] = fresh_interpreter(
                self._program, variables, stderr=subprocess.STDOUT, text=True, pass_fds=self._keeps
            )
            self._processes.append(piped)
            listener = threading.Thread(target=self._listen, args=(index, piped), daemon=True)
            listener.start()
            self._listeners.append(listener)

    def stop(self) -> None:
        """Let all processes end by themselves."""
        self._say([{"order": "stop"}] * len(self._names), "stopping")
        deadline = time.monotonic() + self.patience
        for piped in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                piped.process.wait(max(deadline - time.monotonic(), 0.0))
        if any(piped.process.poll() != 0 for piped in self._processes):
            self._fail("stopping")
        self.kill()

    def kill(self) -> None:
        """Kill all remaining processes."""
        self._ended = True
        for piped in self._processes:
            piped.process.kill()
        for piped in self._processes:
            piped.process.wait()
            with contextlib.suppress(OSError):  # requests that were not read are lost
                piped.requests.close()
        for listener in self._listeners:
            listener.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _order(self, doing: str, **order: Any) -> list[dict[str, Any]]:
        """Return the answers of all processes to an order."""
        self._say([order] * len(self._names), doing)
        return self._wait(doing)

    def _say(self, messages: list[dict[str, Any]], doing: str, first: int = 0) -> None:
        """Send each process from index `first` on its message.

        Raises
        ------
        ValueError
            If the processes have ended.
        """
        if self._ended:
            raise ValueError("Training: its processes have ended; expected one that is under way.")
        for piped, message in zip(self._processes[first:], messages, strict=True):
            try:
                piped.requests.write(json.dumps(message) + "\n")
                piped.requests.flush()
            except OSError:
                self._fail(doing)

    def _listen(self, index: int, piped: PipedProcess[str]) -> None:
        """Pass on the output of a process, and an empty line at its end."""
        with piped.answers as lines:
            for line in lines:
                self._heard.put((index, line))
        self._heard.put((index, ""))

    def _wait(self, doing: str) -> list[dict[str, Any]]:
        """Return the next answer of every process."""
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
            else:  # output of its interpreter, or of a library
                self._last_words[index] = line.strip() or self._last_words[index]
        return [answers.popleft() for answers in self._answers]

    def _fail(self, doing: str) -> NoReturn:
        """Kill all processes, and report the one that failed.

        Raises
        ------
        ProcessEnded
            Always.
        """
        deadline = time.monotonic() + GRACE
        while (culprit := self._culprit()) is None and time.monotonic() < deadline:
            time.sleep(GLANCE)
        answers = zip(self._names, self._answers, strict=True)
        silent = ", ".join(name for name, answered in answers if not answered)
        self.kill()
        code, words = None, ""
        if culprit is None:
            what = f"no answer from {silent} within {self.patience:g} s"
        else:
            code, words = self._processes[culprit].process.returncode, self._last_words[culprit]
            what = f"{self._names[culprit]} ended with exit code {code}{words and f' ({words})'}"
        raise ProcessEnded(
            f"{self._title}: {what} while {doing}; all others were ended.", code, words
        )

    def _culprit(self) -> int | None:
        """Return the index of the first process that failed by itself, None if there is none."""
        for index, piped in enumerate(self._processes):
            if piped.process.poll() not in (None, 0, LEFT_ALONE):
                return index
        return None
