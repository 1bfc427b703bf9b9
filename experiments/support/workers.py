"""Who does independent work: processes of this machine, or a cluster of Dask or Ray that is there.

Local processes end with this one, however that ends: by Ctrl-C, which only this one hears, and by
``kill -9`` too. Machines of a cluster must have this version of goodalloc, and see the files that
the work reads and writes under the same names.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.process_identity import end_with
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Kind = Literal["processes", "dask", "ray"]

#: Seconds after which a cluster that does not answer counts as unreachable.
PATIENCE = 5.0

LARGEST_COUNT = 1024

#: Variables that say how many threads a process's linear algebra takes.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Workers:
    """Who works.

    Parameters
    ----------
    count
        Local processes; a cluster has as many workers as it has.
    kind
        "processes", "dask" or "ray".
    address
        Of a cluster: "tcp://host:8786" or a scheduler file (Dask); "auto", "host:6379" or
        "ray://host:10001" (Ray).

    Raises
    ------
    ValueError
        If one of them makes no sense, or what the kind needs is not installed.
    """

    count: int = 1
    kind: Kind = "processes"
    address: str = ""

    def __post_init__(self) -> None:
        require_count("Number of workers", self.count, 1, LARGEST_COUNT)
        require_choice("Kind of workers", self.kind, get_args(Kind))
        if self.kind == "processes":
            return
        name = f"Cluster '{self.kind}:{self.address}'"
        require_extra(self.kind, name)
        if self.address == "auto" if self.kind == "ray" else Path(self.address).is_file():
            return
        try:
            _host_and_port(self.address)
        except ValueError as error:
            other = "auto" if self.kind == "ray" else "an existing scheduler file"
            raise ValueError(f"{name} has no address; expected host:port or {other}.") from error


#: This process only.
ALONE = Workers()


def parse_workers(text: str) -> Workers:
    """Workers as the command line names them.

    Parameters
    ----------
    text
        "4" (processes), "dask:ADDRESS" or "ray:ADDRESS", addresses as in `Workers`.

    Raises
    ------
    ValueError
        If it is none of these, or as `Workers`.
    """
    kind, _, address = text.partition(":")
    if kind == "dask":
        return Workers(kind="dask", address=address)
    if kind == "ray":
        return Workers(kind="ray", address=address)
    if text.isascii() and text.isdecimal() and len(text) <= 12:
        return Workers(int(text))
    raise ValueError(
        f"got {text[:40]!r}; expected a whole number, 1 to {LARGEST_COUNT}, "
        "dask:ADDRESS or ray:ADDRESS."
    )


def map_unordered(
    function: Callable[[Item], Outcome], items: Sequence[Item], workers: Workers
) -> Generator[Outcome]:
    """What a function makes of items, each as soon as it is there.

    The first exception of an item ends all and is raised as it is. Then, as when the generator is
    closed or interrupted, nothing more is begun. What runs is ended, except on Dask, which can
    only let it run out.

    Parameters
    ----------
    function
        Known by its name where it runs.
    items
        Its arguments; must survive pickling.
    workers
        Who calls it.

    Raises
    ------
    ValueError
        If the cluster cannot be reached within some seconds.
    """
    if workers.kind == "dask":
        return _on_dask(function, items, workers.address)
    if workers.kind == "ray":
        return _on_ray(function, items, workers.address)
    return _in_processes(function, items, workers.count)


def _in_processes(
    function: Callable[[Item], Outcome], items: Sequence[Item], count: int
) -> Generator[Outcome]:
    waiting = iter(items)
    crew: dict[Connection, SpawnProcess] = {}
    try:
        for item in itertools.islice(waiting, count):
            pipe, process = _employ(count)
            crew[pipe] = process
            pipe.send((function, item))
        busy = {*crew}
        while busy:
            for pipe in busy.intersection(connection.wait(busy)):
                outcome = _heard(pipe, crew[pipe])
                busy.remove(pipe)
                for item in itertools.islice(waiting, 1):
                    pipe.send((function, item))
                    busy.add(pipe)
                yield outcome
    finally:
        for process in crew.values():
            process.kill()
        for pipe, process in crew.items():
            process.join()
            pipe.close()


def _employ(count: int) -> tuple[Connection, SpawnProcess]:
    """Start one of several processes, which share the cores, and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    cores = max((os.cpu_count() or 1) // count, 1)
    resource_tracker.ensure_running()  # it would let interrupts through on starting
    with _uninterrupted(), _environment({name: str(cores) for name in THREADS}):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        process.start()
        theirs.close()
    return ours, process


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits, and never reaches the processes that are started meanwhile."""
    if not hasattr(signal, "pthread_sigmask"):  # as on Windows
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Variables of the processes that are started meanwhile, unless they are set."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _serve(pipe: Connection, parent: int) -> None:
    """Work until the other end is closed; the outcome or what was raised goes back."""
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            function, item = pipe.recv()
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = function(item), None
        except Exception as error:  # is raised where the work was asked for
            error.add_note(traceback.format_exc())
            answer = None, error
        pipe.send(answer)


def _heard(pipe: Connection, process: SpawnProcess) -> Any:
    """The outcome that a process tells.

    Raises
    ------
    ChildProcessError
        If it ended instead; and whatever the work raised.
    """
    try:
        outcome, error = pipe.recv()
    except (EOFError, OSError):
        process.join()
        raise ChildProcessError(
            f"process {process.pid} ended with exit code {process.exitcode} before its work "
            "was done"
        ) from None
    if error is not None:
        raise error
    return outcome


def _on_dask(
    function: Callable[[Item], Outcome], items: Sequence[Item], address: str
) -> Generator[Outcome]:
    """A scheduler forgets the work of a client that leaves: nothing needs to be cancelled."""
    from distributed import Client, as_completed

    key = "scheduler_file" if Path(address).is_file() else "address"
    where: dict[str, Any] = {key: address}
    try:
        client = Client(**where, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # whatever it is, there is no cluster
        raise _unreachable("dask", address, error) from error
    with client:
        for future in as_completed(client.map(function, items, pure=False), loop=client.loop):
            yield future.result()


def _on_ray(
    function: Callable[[Item], Outcome], items: Sequence[Item], address: str
) -> Generator[Outcome]:
    """A cluster ends the work of a driver that leaves: nothing needs to be cancelled."""
    import ray
    from ray.exceptions import RayTaskError

    try:
        _knock(address)
        connection: Any = ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # whatever it is, there is no cluster
        raise _unreachable("ray", address, error) from error
    with connection:
        remote: Any = ray.remote(_call)  # it refuses callables that are no functions
        pending = [remote.remote(function, item) for item in items]
        try:
            while pending:
                done, pending = ray.wait(pending)
                yield from ray.get(done)
        except RayTaskError as error:
            raise error.cause from None


def _call(function: Callable[[Item], Outcome], item: Item) -> Outcome:
    return function(item)


def _knock(address: str) -> None:
    """Connect once: where nobody answers, Ray tries for minutes and then ends the process."""
    if address == "auto":  # what that is, Ray's documentation says
        latest = Path(tempfile.gettempdir(), "ray", "ray_current_cluster")
        noted = latest.read_text(encoding="utf-8").strip() if latest.is_file() else address
        address = os.environ.get("RAY_ADDRESS", noted)
    if address != "auto":
        socket.create_connection(_host_and_port(address), PATIENCE).close()


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address if "://" in address else f"//{address}")
    if not parts.hostname or not parts.port:
        raise ValueError("expected host:port")
    return parts.hostname, parts.port


def _unreachable(kind: Kind, address: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split()).rstrip(".")
    return ValueError(f"Cluster '{kind}:{address}' cannot be reached ({reason}).")
