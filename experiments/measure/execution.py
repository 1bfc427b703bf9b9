"""How a training computes: precision of its numbers, compiled or not, order of an image's numbers.

The task is the same; its speed is not, so that profiles keep these apart (PyTorch).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

#: Single precision, its products rounded to ten bits (on GPUs), and bfloat16 by autocast.
Precision = Literal["fp32", "tf32", "bf16"]

#: Number of dimensions of a batch of images.
IMAGES = 4


@dataclass(frozen=True)
class Execution:
    """How a training computes.

    Parameters
    ----------
    precision
        Precision of products of matrices.
    compiled
        Whether `torch.compile` compiles the module.
    channels_last
        Whether the channels of an image are next to each other in memory.

    Raises
    ------
    ValueError
        If the precision is unknown.

    Examples
    --------
    >>> from goodalloc.experiments.measure import Execution
    >>> Execution("bf16", compiled=True).columns
    {'precision': 'bf16', 'compiled': 'yes', 'memory_format': 'contiguous'}
    """

    precision: Precision = "fp32"
    compiled: bool = False
    channels_last: bool = False

    def __post_init__(self) -> None:
        require_choice("Execution: precision", self.precision, get_args(Precision))

    @property
    def columns(self) -> dict[str, str]:
        """The columns of a profile that tell it."""
        return {
            "precision": self.precision,
            "compiled": "yes" if self.compiled else "no",
            "memory_format": "channels last" if self.channels_last else "contiguous",
        }

    def prepare(self, module: Any, device: Any) -> Any:
        """Return a module as it trains on a device.

        Parameters
        ----------
        module
            The module.
        device
            A `torch.device`.

        Raises
        ------
        ValueError
            If the precision is ``"tf32"`` on a CPU.
        """
        import torch

        if device.type == "cuda":
            rounded = self.precision == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = rounded
            torch.backends.cudnn.allow_tf32 = rounded
        elif self.precision == "tf32":
            raise ValueError("Execution: precision is 'tf32' on a CPU; expected 'fp32' or 'bf16'.")
        module = module.to(device)
        if self.channels_last:
            module = module.to(memory_format=torch.channels_last)
        if self.compiled:
            module.compile()
        return module

    def batch(self, parts: Sequence[Any], device: Any) -> tuple[Any, ...]:
        """Return a batch on a device, images with their channels in the order of the module's."""
        import torch

        moved = (part.to(device) for part in parts)
        if not self.channels_last:
            return tuple(moved)
        return tuple(
            part.to(memory_format=torch.channels_last) if part.dim() == IMAGES else part
            for part in moved
        )

    def forward(self, device: Any) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        import torch

        if self.precision != "bf16":
            return contextlib.nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(device.type, dtype=torch.bfloat16)
        return context


#: Single precision, as PyTorch trains by itself.
PLAIN = Execution()
