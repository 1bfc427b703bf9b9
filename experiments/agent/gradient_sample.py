r"""Which coordinates of a gradient the noise is measured by: all of them, or a sample (PyTorch).

Squared norms and inner products are sums over coordinates. Of a tensor of *n* numbers, *k* of them
drawn evenly, each sum times :math:`n / k`, give an estimate of its part of the sum; so the
reading multiplies the numbers by

.. math:: \sqrt{n / k},                                                                        (1)

and what is then computed of it are estimates for the whole gradient. Both terms of the noise scale
are multiplied alike where coordinates are alike, so their ratio is closer than either.

Tensors share the coordinates equally, except that none gets more than it has (the others share what
it leaves): small ones, whose numbers are often large, are read whole. Of a larger one, blocks of
`BLOCK` neighbours are read, as many as its share holds, one at random in each of as many equal
ranges of the tensor; fewer than `BLOCK` numbers at its end are never read. The blocks depend on the
shapes and a seed alone.

This is ours: Pollux's agent reads everything, which of a network with many parameters costs more
than a few hundredths of a step on a processor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 8
"""Numbers that lie together, which in single precision is a line of a processor's cache."""


def equal_shares(sizes: Sequence[int], most: int) -> list[int]:
    """Divide a number equally among things that can take only so much each.

    Parameters
    ----------
    sizes
        The most that each can take.
    most
        What is divided.

    Raises
    ------
    ValueError
        If it is negative.
    """
    require_count("Shares: most", most, 0)
    found, left = [0] * len(sizes), most
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        found[index] = min(sizes[index], left // (len(sizes) - rank))
        left -= found[index]
    return found


class Reading:
    """Coordinates of a gradient, and the same ones weighted.

    Parameters
    ----------
    raw
        Room for them as they are, a vector.
    parts
        The same memory by parameters.
    """

    def __init__(self, raw: Any, parts: Sequence[Any]) -> None:
        self.raw, self.parts, self.weighted = raw, parts, raw

    def weigh(self, weights: Any) -> None:
        """Bring the weighted ones up to date; weights of None are 1."""
        import torch

        if weights is None:
            self.weighted = self.raw
        elif self.weighted is self.raw:
            self.weighted = torch.mul(self.raw, weights)
        else:
            torch.mul(self.raw, weights, out=self.weighted)

    def dot(self, other: Reading) -> Any:
        """Inner product of the weighted ones with others', in double precision."""
        return self.weighted.dot(other.weighted).double()


class GradientSample:
    """Reads the same coordinates of every gradient.

    Parameters
    ----------
    parameters
        Tensors whose gradients are read.
    most
        Coordinates in all, or a few more: at least a block of every tensor. None for all there are.
    seed
        Of the blocks.

    Attributes
    ----------
    factors
        (1) of every coordinate, a vector; None if it is 1 everywhere.
    """

    def __init__(self, parameters: Sequence[Any], most: int | None, seed: int) -> None:
        import torch

        sizes = [one.numel() for one in parameters]
        generator = torch.Generator().manual_seed(seed)
        self._like = parameters[0].detach()
        self._rows: list[Any] = []
        self._shapes: list[tuple[int, ...]] = []
        shares = equal_shares(sizes, sum(sizes) if most is None else most)
        for one, size, share in zip(parameters, sizes, shares, strict=True):
            blocks, wanted = size // BLOCK, max(share // BLOCK, 1)
            if share == size or wanted >= blocks:
                self._rows.append(None)
                self._shapes.append(tuple(one.shape))
                continue
            drawn = torch.rand(wanted, generator=generator, dtype=torch.float64)
            rows = ((torch.arange(wanted) + drawn) * (blocks / wanted)).long()
            self._rows.append(rows.clamp_(max=blocks - 1).to(self._like.device))
            self._shapes.append((wanted, BLOCK))
        self._counts = [math.prod(shape) for shape in self._shapes]
        self.factors: Any = None
        if self._counts != sizes:
            factors = self.reading()
            for part, size, count in zip(factors.parts, sizes, self._counts, strict=True):
                part.fill_(math.sqrt(size / max(count, 1)))
            self.factors = factors.raw

    @property
    def size(self) -> int:
        """Coordinates that are read."""
        return sum(self._counts)

    def reading(self) -> Reading:
        """Room for a reading, zeros, in single precision or better."""
        import torch

        kind = torch.promote_types(self._like.dtype, torch.float32)
        raw = torch.zeros(self.size, dtype=kind, device=self._like.device)
        parts = zip(raw.split(self._counts), self._shapes, strict=True)
        return Reading(raw, [part.view(shape) for part, shape in parts])

    def read(
        self, tensors: Sequence[Any], target: Reading, indices: Sequence[int] | None = None
    ) -> None:
        """Read tensors with the shapes of the parameters.

        Parameters
        ----------
        tensors
            One for every parameter, or for those of `indices`; None counts as zeros.
        target
            Where to.
        indices
            Which parameters these are; None for all.
        """
        for tensor, index in zip(
            tensors, range(len(self._rows)) if indices is None else indices, strict=True
        ):
            if tensor is None:
                target.parts[index].zero_()
            else:
                target.parts[index].copy_(self.pick(index, tensor))

    def pick(self, index: int, tensor: Any) -> Any:
        """The coordinates of one tensor, of the shape that its part of a reading has.

        Parameters
        ----------
        index
            Of the parameter.
        tensor
            Of its shape.
        """
        rows = self._rows[index]
        if rows is None:
            return tensor
        if tensor.numel() % BLOCK:
            tensor = tensor.reshape(-1)[: tensor.numel() // BLOCK * BLOCK]
        return tensor.reshape(-1, BLOCK).index_select(0, rows)
