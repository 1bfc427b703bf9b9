r"""Coordinates of a gradient from which its noise is measured: all, or a sample (PyTorch).

Squared norms and inner products are sums over coordinates. If *k* of the *n* numbers of a
tensor are drawn evenly, the sum over them times :math:`n / k` estimates the sum over the tensor; so
the reading multiplies the numbers by

.. math:: \sqrt{n / k},                                                                        (1)

and all norms of a reading are estimates of those of the whole gradient. Errors of both terms of the
noise scale are similar where coordinates are, so that their ratio is closer than either.

Tensors share the coordinates equally, except that none gets more than it has (the others share the
rest): small ones, whose numbers are often large, are read whole. From a larger one, blocks of
`BLOCK` neighbours are read, as many as its share holds, one at random in each of as many equal
ranges of the tensor; fewer than `BLOCK` numbers at its end are never read. The blocks depend on the
shapes and a seed alone.

Sampling is not part of Pollux, whose agent reads all coordinates; for a network with many
parameters that costs more than a few hundredths of a step on a processor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Neighbouring numbers that are read together: in single precision half a line of most caches.
BLOCK = 8


def equal_shares(sizes: Sequence[int], most: int) -> list[int]:
    """Divide `most` equally among tensors, none of which can take more than its size.

    Parameters
    ----------
    sizes
        Sizes of the tensors.
    most
        Number of coordinates.

    Raises
    ------
    ValueError
        If `most` is negative.
    """
    require_count("Shares: most", most, 0)
    found, remaining = [0] * len(sizes), most
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        found[index] = min(sizes[index], remaining // (len(sizes) - rank))
        remaining -= found[index]
    return found


class Reading:
    """Sampled coordinates of a gradient, raw and weighted.

    Parameters
    ----------
    raw
        Vector for the coordinates.
    parts
        Views of `raw`, one for each parameter.
    """

    def __init__(self, raw: Any, parts: Sequence[Any]) -> None:
        self.raw, self.parts, self.weighted = raw, parts, raw

    def weigh(self, weights: Any) -> None:
        """Compute the weighted coordinates; weights of None are 1."""
        import torch

        if weights is None:
            self.weighted = self.raw
        elif self.weighted is self.raw:
            self.weighted = torch.mul(self.raw, weights)
        else:
            torch.mul(self.raw, weights, out=self.weighted)

    def dot(self, other: Reading) -> Any:
        """Return the inner product of the weighted coordinates with others, in double precision."""
        return self.weighted.dot(other.weighted).double()


class GradientSample:
    """Sample of coordinates, the same for every gradient.

    Parameters
    ----------
    parameters
        Tensors whose gradients are read.
    most
        Number of coordinates, exceeded where a tensor would get no block; None for all.
    seed
        Seed of the blocks.

    Attributes
    ----------
    factors
        Factor (1) of every coordinate, a vector; None if all are 1.
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
        """Number of coordinates that are read."""
        return sum(self._counts)

    def reading(self) -> Reading:
        """Return a reading of zeros, in single precision or better."""
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
            A tensor for every parameter, or for those of `indices`; None counts as zeros.
        target
            Reading that is overwritten.
        indices
            Indices of the parameters; None for all.
        """
        for tensor, index in zip(
            tensors, range(len(self._rows)) if indices is None else indices, strict=True
        ):
            if tensor is None:
                target.parts[index].zero_()
            else:
                target.parts[index].copy_(self.pick(index, tensor))

    def pick(self, index: int, tensor: Any) -> Any:
        """Return the coordinates of one tensor, in the shape of its part of a reading.

        Parameters
        ----------
        index
            Index of the parameter.
        tensor
            Tensor of the shape of the parameter.
        """
        rows = self._rows[index]
        if rows is None:
            return tensor
        if tensor.numel() % BLOCK:
            tensor = tensor.reshape(-1)[: tensor.numel() // BLOCK * BLOCK]
        return tensor.reshape(-1, BLOCK).index_select(0, rows)
