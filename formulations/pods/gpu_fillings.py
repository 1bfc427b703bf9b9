"""Fillings of one GPU: the maximal sets of parts that add up to at most one."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Sets up to which all are listed.
MOST_FILLINGS = 20_000


@lru_cache(maxsize=256)
def fillings(
    sizes: tuple[float, ...], counts: tuple[int, ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Return the maximal sets of parts that one GPU carries, as numbers of every size; None if too
    many.

    Parameters
    ----------
    sizes
        Distinct parts of a GPU, in decreasing order.
    counts
        Number of replicas of each size in all.
    """
    found = tuple(islice(_fillings(sizes, counts, 1 + RESOURCE_TOLERANCE), MOST_FILLINGS + 1))
    if len(found) > MOST_FILLINGS:
        return None
    return tuple(one for one in found if any(one))


def _fillings(
    sizes: tuple[float, ...], counts: tuple[int, ...], room: float
) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    size, most = sizes[0], min(counts[0], int(room / sizes[0]))
    for number in range(most, -1, -1):
        for rest in _fillings(sizes[1:], counts[1:], room - number * size):
            left = room - sum(n * s for n, s in zip((number, *rest), sizes, strict=True))
            if number == counts[0] or size > left:
                yield (number, *rest)
