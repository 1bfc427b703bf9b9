"""Processes of this machine that are told what to do: started, watched, ended together.

Each is a fresh interpreter that reads orders and answers them, a line of JSON each, on its standard
input and output. None is left behind: when one dies or says nothing for too long, the others are
killed.
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
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.support.process_messages import LEFT_ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn, Self

#: Seconds in which a process ends of which the others say that it is gone, and how often to look.
GRACE = 1.0
GLANCE = 0.01


class ProcessEnded(ChildProcessError):
    """A process ended early or said nothing for too long.

    Attributes
    ----------
    code
        Its exit code, negative for a signal; None where it hung.
    words
        The last thing that it said.
    """

    def __init__(self, sentence: str, code: int | None, words: str) -> None:
        super().__init__(sentence)
        self.code, self.words = code, words


def fresh_interpreter(
    program: str, variables: Mapping[str, str], **options: Any
) -> subprocess.Popen[Any]:
    """Start a module in an interpreter of its own, which is told and answers by pipes.

    Parameters
    ----------
    program
        The module.
    variables
        Of its environment, beside those of this process.
    options
        Further ones of `subprocess.Popen`.
    """
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path} | dict(variables),
        **options,
    )


class Processes:
    """Processes under way; as a context manager it leaves none behind.

    Parameters
    ----------
    program
        The module that they run.
    names
        What to call each of them.
    title
        What they do together, as a message begins.
    patience
        Seconds after which an order counts as hung, above 0.
    environment
        Variables beside those of this process.
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
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._heard: queue.Queue[tuple[int, str]] = queue.Queue()
        self._answers: list[deque[dict[str, Any]]] = [deque() for _ in self._names]
        self._last_words = [""] * len(self._names)
        self._ended = False

    @property
    def processes(self) -> dict[str, int]:
        """The numbers that the system gave the processes, by name."""
        pids = [process.pid for process in self._processes]
        return dict(zip(self._names, pids, strict=True))

    def _launch(self) -> None:
        """Start all interpreters."""
        variables = {"OMP_NUM_THREADS": "1"} | self._variables
        for index in range(len(self._names)):
            process = fresh_interpreter(
                self._program, variables, stderr=subprocess.STDOUT, text=True, pass_fds=self._keeps
            )
            self._processes.append(process)
            listener = threading.Thread(target=self._listen, args=(index, process), daemon=True)
            listener.start()
            self._listeners.append(listener)

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
            code, words = self._processes[culprit].returncode, self._last_words[culprit]
            what = f"{self._names[culprit]} ended with exit code {code}{words and f' ({words})'}"
        raise ProcessEnded(
            f"{self._title}: {what} while {doing}; all others were ended.", code, words
        )

    def _culprit(self) -> int | None:
        """The first process that ended, but not because another one had."""
        for index, process in enumerate(self._processes):
            if process.poll() not in (None, 0, LEFT_ALONE):
                return index
        return None
