"""Who does independent work: processes of this machine, or a cluster of Dask or Ray that is there.

Local processes are joblib's. Its bridge to Ray cannot hand over results as they come, so both
clusters are asked in their own words. Their machines must have this version of goodalloc, and see
the files that the work reads and writes under the same names.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

from goodalloc.experiments.extras import require_extra
from goodalloc.models.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Kind = Literal["processes", "dask", "ray"]

#: Seconds after which a cluster that does not answer counts as unreachable.
PATIENCE = 5.0

LARGEST_COUNT = 1024


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
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=count, return_as="generator_unordered")
    with warnings.catch_warnings():
        # Joblib starts a process anew whose memory has grown, as JAX's does, and says so.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield from parallel(delayed(function)(item) for item in items)


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
