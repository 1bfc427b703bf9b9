"""Leases of the GPUs of this machine, so that no two jobs have the same one at a time.

A lease is the lock of a folder of the cluster, which the replicas of a job inherit: it ends with
the last of them, however they end, and a job that is to get the GPUs of another waits until then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.support.folder_lock import locked, make_folder
from goodalloc.experiments.support.machine_description import asked_driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Environment variable that limits what CUDA sees.
VISIBLE = "CUDA_VISIBLE_DEVICES"

#: File that is there where the driver of GPUs is.
DEVICES = Path("/dev/nvidiactl")

#: Folder of the leases in that of the cluster.
LEASES = "gpus"


class Lease(NamedTuple):
    """GPUs of a job.

    Attributes
    ----------
    gpus
        Their names, as `CUDA_VISIBLE_DEVICES` takes them.
    handles
        Handles of the locks, which replicas inherit.
    """

    gpus: tuple[str, ...]
    handles: tuple[int, ...]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of the replicas, each of which takes the GPU of its local rank."""
        return {VISIBLE: ",".join(self.gpus)} if self.gpus else {}


@dataclass(frozen=True)
class GpuLeases:
    """Leases of the GPUs of this machine.

    Parameters
    ----------
    cluster
        Folder of the cluster, which all launchers of the machine share.
    gpus
        Names of the GPUs; none where CPUs compute, of which nothing is leased.
    """

    cluster: Path
    gpus: tuple[str, ...] = ()

    @cached_property
    def _identifiers(self) -> dict[str, str]:
        """Unique identifiers of the GPUs by index; none where the driver is absent or silent."""
        rows = (row.partition(", ") for row in asked_driver("index,uuid"))
        return {index: identifier for index, _, identifier in rows}

    def _identifier(self, name: str) -> str:
        """Return the unique identifier of a GPU, which has several names; the name if unknown."""
        known = self._identifiers
        begun = (one for one in known.values() if one.startswith(name))  # CUDA takes the beginning
        return known.get(name) or next(begun, name)

    @contextlib.contextmanager
    def lease(self, count: int) -> Iterator[Lease | None]:
        """Hold a number of GPUs; None if fewer are free.

        Parameters
        ----------
        count
            Number of GPUs.

        Raises
        ------
        ValueError
            If the machine has fewer, or a folder cannot be made.
        """
        if not self.gpus:
            yield Lease((), ())
            return
        if not self._identifiers and shutil.which("nvidia-smi"):  # it will answer another time
            self.__dict__.pop("_identifiers")
            yield None
            return
        if count > len({*map(self._identifier, self.gpus)}):
            raise ValueError(
                f"Allocation: {count} GPUs of this machine, which has {len(self.gpus)} "
                f"({', '.join(self.gpus)}); expected a scheduler with no more."
            )
        with contextlib.ExitStack() as held:
            found, handles = list[str](), list[int]()
            for name in self.gpus:
                if len(found) < count:
                    own = f"{socket.gethostname()}-{self._identifier(name)}"
                    folder = self.cluster / LEASES / own
                    make_folder(folder)
                    with contextlib.suppress(ValueError):  # another job holds it
                        handles += held.enter_context(locked(folder))
                        found.append(name)
            yield Lease(tuple(found), tuple(handles)) if len(found) == count else None


def gpus_of_machine(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use; none if there are none.

    Parameters
    ----------
    environment
        Environment variables, of which `CUDA_VISIBLE_DEVICES` limits the GPUs.

    Raises
    ------
    ValueError
        If a GPU is named twice, or the driver is there and does not list its GPUs.

    Examples
    --------
    >>> from goodalloc.experiments.live import gpus_of_machine
    >>> gpus_of_machine({"CUDA_VISIBLE_DEVICES": "0, 2"})
    ('0', '2')
    """
    if VISIBLE in environment:
        names = [name.strip() for name in environment[VISIBLE].split(",")]
        names = [name for name in names if name and name != "-1"]
        if len({*names}) < len(names):
            raise ValueError(f"{VISIBLE} is '{environment[VISIBLE]}'; expected each GPU once.")
        return tuple(names)
    listed = asked_driver("index")
    if not listed and DEVICES.exists():
        raise ValueError(
            f"The driver does not list its GPUs; expected their names, or {VISIBLE} empty for none."
        )
    return listed
