"""Replicas of a training job: processes of `torch.distributed`, or this one alone (PyTorch)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Replicas:
    """Replicas of a job, and communication among them.

    Attributes
    ----------
    count
        Number of replicas.
    rank
        Index of this one.

    Raises
    ------
    ValueError
        If ``WORLD_SIZE`` is not 1, but this process is in no group.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        self._up = dist.is_available() and dist.is_initialized()
        size = os.environ.get("WORLD_SIZE", "1")
        if not self._up and size != "1":
            raise ValueError(
                f"Replicas: WORLD_SIZE is {size}, but this process is in no group; expected "
                "torch.distributed.init_process_group before the agent."
            )
        self.count: int = dist.get_world_size() if self._up else 1
        self.rank: int = dist.get_rank() if self._up else 0
        self._device: Any = "cpu"
        self._wrapped: Any = None

    @property
    def several(self) -> bool:
        """Whether there is more than one replica."""
        return self.count > 1

    @property
    def first(self) -> bool:
        """Whether this replica is the first, which decides and writes."""
        return self.rank == 0

    def wrap(self, module: Any, hook: Callable[[object, Any], Any]) -> Any:
        """Return the module to call, which exchanges gradients by `hook` among several replicas."""
        self._device = next(module.parameters()).device.type
        if not self.several:
            return module
        from torch.nn.parallel import DistributedDataParallel

        self._wrapped = DistributedDataParallel(module)
        # PyTorch checks the annotations of a hook and refuses strings; a lambda has none
        self._wrapped.register_comm_hook(None, lambda state, bucket: hook(state, bucket))
        return self._wrapped

    def exchange(self, now: bool) -> None:
        """Set whether the next pass ends in an exchange of gradients, before the pass begins."""
        if self._wrapped is not None:  # as its `no_sync` does, which cannot span a yield
            self._wrapped.require_backward_grad_sync = now

    def added(self, shared: Sequence[Any], own: Sequence[Any]) -> tuple[list[float], list[float]]:
        """Return sums of `shared` over the replicas, and `own`, which is the same on each.

        It takes one message and one wait for the device.
        """
        import torch
        import torch.distributed as dist

        if not self.several and str(self._device) == "cpu":  # no message and no wait
            return [float(one) for one in shared], [float(one) for one in own]
        numbers = [torch.as_tensor(one, dtype=torch.float64) for one in (*shared, *own)]
        vector = torch.stack([one.to(self._device) for one in numbers])
        if self.several:
            part = vector[: len(shared)].clone()
            dist.all_reduce(part)
            vector[: len(shared)] = part
        found: list[float] = vector.tolist()
        return found[: len(shared)], found[len(shared) :]

    def told(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers of the first replica."""
        if not self.several:
            return [float(number) for number in numbers]
        import torch
        import torch.distributed as dist

        vector = torch.tensor([*numbers], dtype=torch.float64, device=self._device)
        dist.broadcast(vector, 0)
        found: list[float] = vector.tolist()
        return found

    def agree(self, here: bool) -> bool:
        """Return the value of `here` on the first replica."""
        return bool(self.told([float(here)])[0])

    def gathered(self, value: Any) -> list[Any]:
        """Return the values of all replicas in their order."""
        if not self.several:
            return [value]
        import torch.distributed as dist

        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def wait(self) -> None:
        """Wait until all replicas call this."""
        if self.several:
            import torch.distributed as dist

            dist.barrier()

    def close(self) -> None:
        """Leave the group, before the process ends."""
        if self._up:
            import torch.distributed as dist

            dist.destroy_process_group()
