"""The processes of a measured training: started here, or by torchrun on any number of nodes.

Both kinds answer the same orders (`measure/rank.py`), so that who measures need not know which they
are. Those started here are on this machine alone; one that lacks memory or is killed ends all, and
they may be started anew. Those of torchrun find each other by its environment variables, and the
first of them gives the orders.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from goodalloc.experiments.measure.process import MeasureRole
from goodalloc.experiments.support.processes import Processes
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = "goodalloc.experiments.measure.process"

#: Seconds that an order may take before it counts as hung.
PATIENCE = 600.0

#: What torchrun sets.
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

Answers = list[dict[str, Any]]


class Crew(Protocol):
    """Whoever carries out orders.

    Attributes
    ----------
    weights
        How many numbers are trained.
    """

    weights: int

    def ask(self, doing: str, replicas: int, **order: Any) -> Answers:
        """What the first so many processes answer to an order."""
        ...

    def nodes(self, replicas: int) -> int:
        """On how many nodes so many replicas are."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


class LocalCrew(Processes):
    """Processes of this machine.

    Parameters
    ----------
    model, replicas, seed
        As `MeasuredRank` takes them.
    memory_gib
        Most address space of each; None for no limit.
    patience
        Seconds after which an order counts as hung.
    keeps
        As `Processes` takes them.

    Raises
    ------
    ProcessEnded
        If one ends early or says nothing for too long; all others have been killed then.
    """

    def __init__(
        self,
        model: str,
        replicas: Sequence[int],
        seed: int,
        memory_gib: float | None,
        patience: float = PATIENCE,
        keeps: Sequence[int] = (),
    ) -> None:
        size = max(replicas)
        super().__init__(
            PROGRAM,
            [f"replica {rank}" for rank in range(size)],
            f"Training of '{model}'",
            patience,
            {
                "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
                # A task of the user's own may be where she stands.
                "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), os.getcwd()]),
            },
            keeps,
        )
        memory = 0 if memory_gib is None else int(memory_gib * 2**30)
        try:
            with tempfile.TemporaryDirectory() as folder:
                self._launch()
                store = str(Path(folder) / "store")
                roles = [
                    MeasureRole(
                        rank=rank,
                        size=size,
                        store=store,
                        model=model,
                        replicas=list(replicas),
                        seed=seed,
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
        """What the first so many processes answer to an order."""
        return self._order(doing, replicas=replicas, **order)[:replicas]

    def nodes(self, replicas: int) -> int:
        """One."""
        return 1


class LaunchedCrew:
    """This process, and all others that torchrun started.

    Parameters
    ----------
    model, replicas, seed
        As `MeasuredRank` takes them.
    patience
        Seconds to wait for another process.
    """

    def __init__(
        self, model: str, replicas: Sequence[int], seed: int, patience: float = PATIENCE
    ) -> None:
        import torch
        from torch import distributed

        from goodalloc.experiments.measure.rank import MeasuredRank

        backend = "nccl" if torch.cuda.is_available() else "gloo"
        if backend == "gloo":
            torch.set_num_threads(1)
        distributed.init_process_group(backend, timeout=timedelta(seconds=patience))
        self._orders: Any = distributed.new_group(backend="gloo")
        self._rank = MeasuredRank(model, replicas, seed)
        self._per_node = int(os.environ["LOCAL_WORLD_SIZE"])
        self.first = distributed.get_rank() == 0
        self.weights = self._rank.weights()

    def ask(self, doing: str, replicas: int, **order: Any) -> Answers:
        """What the first so many processes answer to an order."""
        return self._share({"replicas": replicas, **order})[:replicas]

    def nodes(self, replicas: int) -> int:
        """Nodes are filled one after the other."""
        return -(-replicas // self._per_node)

    def serve(self) -> None:
        """Carry out what the first process orders, until it is done."""
        while self._share(None):
            pass

    def kill(self) -> None:
        """Let the others end, from the first process."""
        from torch import distributed

        if self.first:
            self._share({})
        distributed.destroy_process_group()

    def _share(self, order: dict[str, Any] | None) -> Answers:
        """Pass on an order, and all answers; nothing if it is to end."""
        from torch import distributed

        shared: list[Any] = [order]
        distributed.broadcast_object_list(shared, src=0, group=self._orders)
        if not shared[0]:
            return []
        answers: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(answers, self._rank.obey(shared[0]), group=self._orders)
        return answers


def launched_size(environment: Mapping[str, str]) -> int | None:
    """How many processes torchrun started; None where it did not.

    Raises
    ------
    ValueError
        If it says so by halves, or its numbers make no sense.
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
