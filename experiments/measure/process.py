"""Process of a measured training, which `measure/crew.py` starts with a fresh interpreter.

It reads its role and then orders, one line of JSON each, and ends by itself when another process of
the training, or its parent, has ended.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, NamedTuple

from goodalloc.experiments.measure.execution import Execution
from goodalloc.experiments.measure.rank import MeasuredRank, lacks_memory
from goodalloc.experiments.support.process_messages import LEFT_ALONE, hear, say

#: Exit code of a process that lacked memory.
NO_MEMORY = 4


class MeasureRole(NamedTuple):
    """Role of a process: its first message.

    Attributes
    ----------
    rank, size
        Index of the process, and number of processes.
    store
        Name of a new file by which the processes find each other.
    model, replicas, seed, device
        As in `MeasuredRank`.
    backend
        How the processes exchange gradients.
    execution
        Fields of `Execution`.
    memory
        Largest address space in bytes; 0 for no limit.
    patience
        Seconds to wait for another process.
    """

    rank: int
    size: int
    store: str
    model: str
    replicas: list[int]
    seed: int
    device: str
    backend: str
    execution: dict[str, Any]
    memory: int
    patience: float


def main() -> int:
    """Carry out the orders of standard input until the last; return the exit code."""
    try:
        say(event="started")
        _work(MeasureRole(**hear()))
    except ConnectionError:
        return LEFT_ALONE
    except (RuntimeError, MemoryError) as error:
        if lacks_memory(error):
            return NO_MEMORY
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        lost = any(word in str(error).lower() for word in ("connection", "timed out", "gloo"))
        return LEFT_ALONE if lost else 1
    return 0


def _work(role: MeasureRole) -> None:
    """Carry out orders in a role."""
    if role.memory:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (role.memory, role.memory))
    import torch
    from torch import distributed

    if role.device == "cpu":
        torch.set_num_threads(1)
    distributed.init_process_group(
        role.backend,
        init_method=f"file://{role.store}",
        rank=role.rank,
        world_size=role.size,
        timeout=timedelta(seconds=role.patience),
    )
    execution = Execution(**role.execution)
    rank = MeasuredRank(role.model, role.replicas, role.seed, role.device, execution)
    say(event="ready", weights=rank.weights())
    while (order := hear())["order"] != "stop":
        say(event="done", **rank.obey(order))
    distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
