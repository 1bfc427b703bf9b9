"""The memory allocator under PyTorch on processors."""

from __future__ import annotations

#: Slightly less than the largest block that glibc may keep instead of returning it to the system.
ALLOCATOR_BYTES = 31 * 2**20


def settle_allocator() -> None:
    """Have glibc keep freed large blocks.

    It maps such blocks again each time, which zeroes their pages, until a larger one was freed;
    otherwise a step would be slower the more blocks of new sizes it allocates.
    """
    import torch

    torch.empty(ALLOCATOR_BYTES, dtype=torch.uint8)
