"""Workers for independent items of work: local processes, or a running cluster of Dask or Ray.

Local processes end with this one, also by Ctrl-C, which only this one receives, and by ``kill -9``.
Machines of a cluster must have this version of goodalloc, and see the files that the work reads and
writes under the same names.
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
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args
from urllib.parse import urlsplit

from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.machine_description import usable_cores
from goodalloc.experiments.support.process_identity import end_with
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Kind = Literal["processes", "dask", "ray"]

#: Seconds after which a cluster that does not answer counts as unreachable.
PATIENCE = 5.0

#: Most local processes.
LARGEST_COUNT = 1024

#: Environment variables of the number of threads of linear algebra.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Workers:
    """Workers of one kind.

    Parameters
    ----------
    count
        Number of local processes; that of a cluster is its own.
    kind
        ``"processes"``, ``"dask"`` or ``"ray"``.
    address
        Address of a cluster: "tcp://host:8786" or a scheduler file (Dask); "auto", "host:6379" or
        "ray://host:10001" (Ray).

    Raises
    ------
    ValueError
        If `count` is outside 1 to 1024, `kind` is unknown, its library is not installed, or
        `address` is no address.
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


#: This process alone.
ALONE = Workers()


def parse_workers(text: str) -> Workers:
    """Return the workers that an argument of the command line names.

    Parameters
    ----------
    text
        ``"4"`` (processes), ``"dask:ADDRESS"`` or ``"ray:ADDRESS"``, addresses as in `Workers`.

    Raises
    ------
    ValueError
        If `text` has none of these forms, or as in `Workers`.
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
    """Generate the results of `function` on items, each as soon as it is available.

    The first exception of an item ends all and is raised unchanged. Then, as when the generator is
    closed or interrupted, no other item is begun. Items in progress are aborted, except on Dask,
    which can only let them finish.

    Parameters
    ----------
    function
        Function that can be imported by its name where it runs.
    items
        Its arguments, which must be picklable.
    workers
        Workers that call it.

    Raises
    ------
    ValueError
        If the cluster cannot be reached within `PATIENCE` seconds.
    """
    if workers.kind == "dask":
        return _on_dask(function, items, workers.address)
    if workers.kind == "ray":
        return _on_ray(function, items, workers.address)
    return _in_processes(function, items, workers.count)


def _in_processes(
    function: Callable[[Item], Outcome], items: Sequence[Item], count: int
) -> Generator[Outcome]:
    """Generate the results of local processes."""
    waiting = iter(items)
    crew: dict[Connection, SpawnProcess] = {}
    try:
        for item in itertools.islice(waiting, count):
            pipe, process = _employ(count)
            crew[pipe] = process
            _send(pipe, (function, item))
        busy = {*crew}
        while busy:
            for pipe in busy.intersection(connection.wait(busy)):
                outcome = _heard(pipe, crew[pipe])
                busy.remove(pipe)
                for item in itertools.islice(waiting, 1):
                    _send(pipe, (function, item))
                    busy.add(pipe)
                yield outcome
    finally:
        _dismiss(crew)


def _send(pipe: Connection, work: tuple[Callable[[Any], Any], Any]) -> None:
    """Send work to a process; `_heard` tells if that has ended."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.send(work)


def _dismiss(crew: Mapping[Connection, SpawnProcess]) -> None:
    """End processes, and close the pipes to them."""
    for process in crew.values():
        process.kill()
    for pipe, process in crew.items():
        process.join()
        pipe.close()


@contextlib.contextmanager
def meanwhile(function: Callable[[Item], Outcome], item: Item) -> Generator[Callable[[], Outcome]]:
    """Call a function in a process of its own; yield a function that waits for what it returns.

    The process shares the cores with this one, and ends with the context at the latest. The yielded
    function is for one call. It raises the exception of the work, or `ChildProcessError` if the
    process ended before.

    Parameters
    ----------
    function, item
        As in `map_unordered`, of one item.
    """
    pipe, process = _employ(2)
    try:
        _send(pipe, (function, item))
        yield lambda: cast("Outcome", _heard(pipe, process))
    finally:
        _dismiss({pipe: process})


def _employ(count: int) -> tuple[Connection, SpawnProcess]:
    """Start one of `count` processes, which share the cores; return the pipe to it as well."""
    context = multiprocessing.get_context("spawn")
    cores = max(usable_cores() // count, 1)
    resource_tracker.ensure_running()  # its start would unblock interrupts
    with _uninterrupted(), _environment({name: str(cores) for name in THREADS}):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        process.start()
        theirs.close()
    return ours, process


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, which never reaches processes started meanwhile."""
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
    """Set environment variables of processes started meanwhile, unless they are set already."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _serve(pipe: Connection, parent: int) -> None:
    """Work until the other end is closed; send back the outcome or the exception."""
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            function, item = pipe.recv()
        except EOFError:
            return
        answer: tuple[Any, Exception | None, str]
        try:
            answer = function(item), None, ""
        except Exception as error:  # raised again in the parent
            answer = None, error, traceback.format_exc()
        pipe.send(answer)


class _There(Exception):
    """Traceback of a process, as the cause of the exception that is raised again here."""


def _heard(pipe: Connection, process: SpawnProcess) -> Any:
    """Return the outcome that a process sends.

    Raises
    ------
    ChildProcessError
        If the process ended instead.
    Exception
        That of the work, if it raised one.
    """
    try:
        outcome, error, told = pipe.recv()
    except (EOFError, OSError):
        process.join()
        raise ChildProcessError(
            f"process {process.pid} ended with exit code {process.exitcode} before its work "
            "was done"
        ) from None
    if error is not None:
        raise error from _There(told)
    return outcome


def _on_dask(
    function: Callable[[Item], Outcome], items: Sequence[Item], address: str
) -> Generator[Outcome]:
    """Generate the results of a Dask cluster, which forgets the work of a client that leaves."""
    from distributed import Client, as_completed

    key = "scheduler_file" if Path(address).is_file() else "address"
    where: dict[str, Any] = {key: address}
    try:
        client = Client(**where, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # of any type: the cluster cannot be used
        raise unreachable("dask", address, error) from error
    with client:
        for future in as_completed(client.map(function, items, pure=False), loop=client.loop):
            yield future.result()


def _on_ray(
    function: Callable[[Item], Outcome], items: Sequence[Item], address: str
) -> Generator[Outcome]:
    """Generate the results of a Ray cluster, which ends the work of a driver that leaves."""
    import ray
    from ray.exceptions import RayTaskError

    try:
        knock(address)
        connection: Any = ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of any type: the cluster cannot be used
        raise unreachable("ray", address, error) from error
    with connection:
        remote: Any = ray.remote(_call)  # Ray refuses callables that are no functions
        pending = [remote.remote(function, item) for item in items]
        try:
            while pending:
                done, pending = ray.wait(pending)
                yield from ray.get(done)
        except RayTaskError as error:
            raise error.cause from None


def _call(function: Callable[[Item], Outcome], item: Item) -> Outcome:
    """Return the result of `function` on `item`."""
    return function(item)


def knock(address: str) -> None:
    """Connect once, as Ray retries an unreachable address for minutes and then ends the process."""
    if address == "auto":  # resolved as the documentation of Ray describes
        latest = Path(tempfile.gettempdir(), "ray", "ray_current_cluster")
        noted = latest.read_text(encoding="utf-8").strip() if latest.is_file() else address
        address = os.environ.get("RAY_ADDRESS", noted)
    if address != "auto":
        socket.create_connection(_host_and_port(address), PATIENCE).close()


def _host_and_port(address: str) -> tuple[str, int]:
    """Return the host and the port of an address; refuse one without both."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if not parts.hostname or not parts.port:
        raise ValueError("expected host:port")
    return parts.hostname, parts.port


def unreachable(kind: Kind, address: str, error: Exception) -> ValueError:
    """Return the error of a cluster that cannot be reached."""
    reason = " ".join(str(error).split()).rstrip(".")
    return ValueError(f"Cluster '{kind}:{address}' cannot be reached ({reason}).")
