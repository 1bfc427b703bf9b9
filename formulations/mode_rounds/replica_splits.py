"""Cheapest splits of the replicas of a distributed job into pieces on different nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


def least_splits(
    piece: Float[Floats, "kinds sizes"], most_pieces: Int[Indices, " kinds"], width: int
) -> Float[Floats, "kinds replicas"]:
    """Return the least total price of *K* replicas in two pieces or more, for every kind of
    replica.

    Parameters
    ----------
    piece
        Price of a piece of 1, 2, … replicas, infinite where no node holds it: shape (kinds, sizes).
    most_pieces
        Pieces at most, shape (kinds,).
    width
        The largest *K*.

    Returns
    -------
    Shape (kinds, width + 1); infinite where there is no such split.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import least_splits
    >>> price = np.array([[1.0, 1.5, 4.0]])  # of pieces of 1 to 3 replicas
    >>> least_splits(price, np.array([3]), width=5)[0].tolist()  # of 0 to 5 replicas
    [inf, inf, 2.0, 2.5, 3.0, 4.0]
    """
    total = np.full((len(piece), width + 1), np.inf)
    least = total.copy()
    total[:, 0] = 0.0
    for number in range(1, 1 + min(int(most_pieces.max(initial=0)), width)):
        following = np.full(total.shape, np.inf)
        for size in range(1, 1 + min(piece.shape[1], width)):
            with_piece = total[:, : width + 1 - size] + piece[:, size - 1, None]
            np.minimum(following[:, size:], with_piece, out=following[:, size:])
        total = following
        if number > 1:
            enough = (number <= most_pieces)[:, None]
            least = np.minimum(least, np.where(enough, total, np.inf))
    return least
