"""Composition of PyTorch modules by a function, which imports PyTorch only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def compose(forward: Callable[..., Any], **parts: Any) -> Any:
    """Return a module of named parts.

    Parameters
    ----------
    forward
        Function of the module, whose attributes are the parts, and the inputs; returns the output.
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
