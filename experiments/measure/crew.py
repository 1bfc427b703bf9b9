"""Processes of a measured training: started on this machine, or by torchrun on several nodes.

Both kinds answer the same orders (`measure/rank.py`) and can be used alike. Of local processes, one
that lacks memory or is killed ends all, and they may be started again. Processes of torchrun find
each other by its environment variables, and the first of them gives the orders.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from goodalloc.experiments.measure.devices import joined_names
from goodalloc.experiments.measure.machine_state import device_name
from goodalloc.experiments.measure.process import MeasureRole
from goodalloc.experiments.support.processes import Processes
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from goodalloc.experiments.measure.devices import Devices
    from goodalloc.experiments.measure.measuring import MeasurePlan

#: Module that a local process runs.
PROGRAM = "goodalloc.experiments.measure.process"

#: Time limit of an order in seconds.
PATIENCE = 600.0

#: Environment variables that tell Gloo and NCCL which network interface to use.
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")

#: Environment variables of torchrun.
LAUNCHED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)

#: Answers of the processes, in their order.
Answers = list[dict[str, Any]]


class Crew(Protocol):
    """Group of processes that carry out orders.

    Attributes
    ----------
    weights
        Number of trained weights.
    """

    weights: int

    def ask(self, doing: str, replicas: int, **order: Any) -> Answers:
        """Return the answers of the first `replicas` processes to an order."""
        ...

    def nodes(self, replicas: int) -> int:
        """Return the number of nodes of the first `replicas` processes."""
        ...

    def kill(self) -> None:
        """End the processes."""
        ...


class LocalCrew(Processes):
    """Processes of this machine.

    Parameters
    ----------
    plan
        What they train, how, and in how much memory each.
    devices
        Devices of this machine.
    patience
        Time limit of an order in seconds.
    keeps
        As in `Processes`.

    Raises
    ------
    ProcessEnded
        If a process ends early or exceeds the time limit; all others have been killed then.
    """

    def __init__(
        self,
        plan: MeasurePlan,
        devices: Devices,
        *,
        patience: float = PATIENCE,
        keeps: Sequence[int] = (),
    ) -> None:
        size = max(plan.replicas)
        places = [devices.of(rank) for rank in range(size)]
        super().__init__(
            PROGRAM,
            [f"replica {rank}" for rank in range(size)],
            f"Training of '{plan.model}'",
            patience,
            {
                # all are on this machine, whose network may lead nowhere
                **{name: os.environ.get(name, "lo") for name in INTERFACES},
                # a task of the user may be in the current folder
                "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), os.getcwd()]),
            },
            keeps,
        )
        memory = 0 if plan.memory_gib is None else int(plan.memory_gib * 2**30)
        try:
            with tempfile.TemporaryDirectory() as folder:
                self._launch()
                store = str(Path(folder) / "store")
                roles = [
                    MeasureRole(
                        rank=rank,
                        size=size,
                        store=store,
                        model=plan.model,
                        replicas=list(plan.replicas),
                        seed=plan.seed,
                        device=places[rank],
                        backend=devices.backend,
                        execution=asdict(plan.execution),
                        memory=memory,
                        patience=patience,
                    )._asdict()
                    for rank in range(size)
                ]
                self._say(roles, "starting")
                self._wait("starting an interpreter")
                self.weights = int(self._wait("making the model")[0]["weights"])
        except BaseException:
            self.kill()
            raise

    def ask(self, doing: str, replicas: int, **order: Any) -> Answers:
        """Return the answers of the first `replicas` processes to an order."""
        return self._order(doing, replicas=replicas, **order)[:replicas]

    def nodes(self, replicas: int) -> int:
        """Return 1, as all processes are on this machine."""
        return 1


class LaunchedCrew:
    """Processes that torchrun started, of which this is one.

    Parameters
    ----------
    plan
        What they train, and how.
    devices
        Devices of this machine.
    patience
        Seconds to wait for another process.

    Attributes
    ----------
    device
        Names of the devices of all processes.
    """

    def __init__(self, plan: MeasurePlan, devices: Devices, patience: float = PATIENCE) -> None:
        import torch
        from torch import distributed

        from goodalloc.experiments.measure.rank import MeasuredRank

        self._ended = False
        local_rank = int(os.environ["LOCAL_RANK"])
        mine = devices.of(local_rank)
        if mine == "cpu":
            torch.set_num_threads(1)
        distributed.init_process_group(devices.backend, timeout=timedelta(seconds=patience))
        self._orders: Any = distributed.new_group(backend="gloo")
        self._rank = MeasuredRank(plan.model, plan.replicas, plan.seed, mine, plan.execution)
        names: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(names, device_name(devices, local_rank), self._orders)
        self.device = joined_names(names)
        self._per_node = int(os.environ["LOCAL_WORLD_SIZE"])
        self.first = distributed.get_rank() == 0
        self.weights = self._rank.weights()

    def ask(self, doing: str, replicas: int, **order: Any) -> Answers:
        """Return the answers of the first `replicas` processes to an order."""
        return self._share({"replicas": replicas, **order})[:replicas]

    def nodes(self, replicas: int) -> int:
        """Return the number of nodes, which are filled one after the other."""
        return -(-replicas // self._per_node)

    def serve(self) -> None:
        """Carry out the orders of the first process until the last."""
        while self._share(None):
            pass

    def kill(self) -> None:
        """End the processes, by an order of the first; once."""
        from torch import distributed

        if self._ended:
            return
        self._ended = True
        if self.first:
            self._share({})
        distributed.destroy_process_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _share(self, order: dict[str, Any] | None) -> Answers:
        """Broadcast an order and return all answers; none if the processes are to end."""
        from torch import distributed

        shared: list[Any] = [order]
        distributed.broadcast_object_list(shared, src=0, group=self._orders)
        if not shared[0]:
            return []
        answers: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(answers, self._rank.obey(shared[0]), group=self._orders)
        return answers


def launched_size(environment: Mapping[str, str]) -> int | None:
    """Return the number of processes that torchrun started; None if it started none.

    Raises
    ------
    ValueError
        If some variables of torchrun are missing, or a number is none or out of range.

    Examples
    --------
    >>> from goodalloc.experiments.measure import launched_size
    >>> launched_size({}) is None
    True
    >>> from goodalloc.experiments.measure.crew import LAUNCHED
    >>> launched_size(dict.fromkeys(LAUNCHED, "1") | {"WORLD_SIZE": "2"})
    2
    """
    there = [name for name in LAUNCHED if name in environment]
    if not {"RANK", "WORLD_SIZE"} & set(there):
        return None
    for name in LAUNCHED:
        if name not in there:
            raise ValueError(
                f"Environment: {', '.join(there)} without {name}; expected all of "
                f"{', '.join(LAUNCHED)}, as torchrun sets them, or none."
            )
        if name != "MASTER_ADDR" and not environment[name].isdecimal():
            raise ValueError(
                f"Environment: {name} is '{environment[name]}'; expected a whole number."
            )
    size, rank = int(environment["WORLD_SIZE"]), int(environment["RANK"])
    require_count("Environment: LOCAL_WORLD_SIZE", int(environment["LOCAL_WORLD_SIZE"]), 1)
    if not 0 <= rank < size:
        raise ValueError(f"Environment: RANK is {rank}; expected 0 to below WORLD_SIZE, {size}.")
    return size
