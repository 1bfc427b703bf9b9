"""The replicas of a training job: processes of `torch.distributed`, or this one alone (PyTorch)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Replicas:
    """How many there are, which one this is, and what they tell each other.

    Raises
    ------
    ValueError
        If there are to be several, but this process is in no group.
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
        """Whether there are others."""
        return self.count > 1

    @property
    def first(self) -> bool:
        """Whether this is the one that decides and writes."""
        return self.rank == 0

    def wrap(self, module: Any, hook: Callable[[object, Any], Any]) -> Any:
        """The module to call: where there are others, one that exchanges gradients by a hook."""
        self._device = next(module.parameters()).device.type
        if not self.several:
            return module
        from torch.nn.parallel import DistributedDataParallel

        self._wrapped = DistributedDataParallel(module)
        # PyTorch looks at the hook's annotations, of which strings will not do
        self._wrapped.register_comm_hook(None, lambda state, bucket: hook(state, bucket))
        return self._wrapped

    def exchange(self, now: bool) -> None:
        """Whether the next pass ends in an exchange of gradients; to be said before it begins."""
        if self._wrapped is not None:  # what its `no_sync` does, which cannot span a yield
            self._wrapped.require_backward_grad_sync = now

    def added(self, shared: Sequence[Any], own: Sequence[Any]) -> tuple[list[float], list[float]]:
        """Numbers added up over the replicas, and others that are the same on each.

        One message, and one wait for the device.
        """
        import torch
        import torch.distributed as dist

        if not self.several and str(self._device) == "cpu":  # there is nothing to wait for
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
        """What the first replica says."""
        if not self.several:
            return [float(number) for number in numbers]
        import torch
        import torch.distributed as dist

        vector = torch.tensor([*numbers], dtype=torch.float64, device=self._device)
        dist.broadcast(vector, 0)
        found: list[float] = vector.tolist()
        return found

    def agree(self, here: bool) -> bool:
        """Whether the first replica says so."""
        return bool(self.told([float(here)])[0])

    def gathered(self, value: Any) -> list[Any]:
        """What every replica says, in their order."""
        if not self.several:
            return [value]
        import torch.distributed as dist

        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def wait(self) -> None:
        """Until all are here."""
        if self.several:
            import torch.distributed as dist

            dist.barrier()

    def close(self) -> None:
        """Leave the group, before the process ends."""
        if self._up:
            import torch.distributed as dist

            dist.destroy_process_group()
