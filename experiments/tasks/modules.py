"""Modules of PyTorch put together from parts by a function, so that none is imported too early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def compose(forward: Callable[..., Any], **parts: Any) -> Any:
    """A module of named parts.

    Parameters
    ----------
    forward
        Its output, from the module (of which the parts are attributes) and the inputs.
    parts
        Modules by name.
    """
    from torch import nn

    class Composed(nn.Module):  # type: ignore[misc]  # PyTorch is an extra: unknown where checked
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                self.add_module(name, part)

        def forward(self, *inputs: Any) -> Any:
            return forward(self, *inputs)

    return Composed()
