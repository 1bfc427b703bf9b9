"""Exact bin packing of GPU shares onto the few GPUs of one node.

A replica that takes the share *s* < 1 of a GPU takes it of a single one; the shares on a GPU add up
to at most 1, to a relative tolerance of `RESOURCE_TOLERANCE`. Shares of up to six decimals are then
distinguished safely, here as by any solver.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Shares that one GPU carries.
Shares = tuple[float, ...]


def pack_shares(shares: Sequence[float], gpus: int) -> tuple[Shares, ...] | None:
    """Pack shares onto the GPUs of a node, or return None if they do not fit.

    Best fit decreasing, and where that fails a search that fills one GPU after another with the
    largest remaining share and every maximal set of others beside it (bin completion).

    Parameters
    ----------
    shares
        Part of a GPU that every replica takes, from 0 to 1.
    gpus
        GPUs of the node.

    Returns
    -------
    tuple or None
        Shares on every GPU that is used, without those of 0.

    Examples
    --------
    >>> from goodalloc.models.round import pack_shares
    >>> pack_shares([0.5, 0.7, 0.3, 0.5], gpus=2)
    ((0.7, 0.3), (0.5, 0.5))
    """
    parts = tuple(sorted((share for share in shares if 0 < share < 1), reverse=True))
    whole = sum(1 for share in shares if share >= 1)
    free = gpus - whole
    if free < 0 or math.fsum(parts) > free * (1 + RESOURCE_TOLERANCE):
        return None
    packed = _best_fit_decreasing(parts, free)
    if packed is None:
        packed = _complete(parts, free, set())
    return None if packed is None else (((1.0,),) * whole) + packed


def _best_fit_decreasing(parts: Shares, gpus: int) -> tuple[Shares, ...] | None:
    """Pack each share onto the fullest GPU that still holds it."""
    packed: list[list[float]] = []
    for share in parts:
        fits = [one for one in packed if math.fsum(one) + share <= 1 + RESOURCE_TOLERANCE]
        if fits:
            max(fits, key=math.fsum).append(share)
        elif len(packed) < gpus:
            packed.append([share])
        else:
            return None
    return tuple(tuple(one) for one in packed)


def _complete(parts: Shares, gpus: int, dead: set[Shares]) -> tuple[Shares, ...] | None:
    """Pack sorted shares onto `gpus` GPUs exactly; `dead` holds remainders that do not fit.

    A remainder comes up with fewer GPUs never after more: every GPU filled takes its largest share.
    """
    if not parts:
        return ()
    if (*parts, float(gpus)) in dead or math.fsum(parts) > gpus * (1 + RESOURCE_TOLERANCE):
        return None
    first, others = parts[0], parts[1:]
    room = 1 + RESOURCE_TOLERANCE - first
    for beside in sorted(_maximal_sets(others, room), key=math.fsum, reverse=True):
        left = list(others)
        for share in beside:
            left.remove(share)
        found = _complete(tuple(left), gpus - 1, dead)
        if found is not None:
            return ((first, *beside), *found)
    dead.add((*parts, float(gpus)))
    return None


def _maximal_sets(parts: Shares, room: float) -> Iterator[Shares]:
    """Yield the maximal sets of shares that fit, equal shares distinguished by number only."""
    if not parts or parts[-1] > room:
        yield ()
        return
    share = parts[0]
    count = parts.count(share)
    others = parts[count:]
    most = min(count, int(room / share))
    for number in range(most, -1, -1):
        for more in _maximal_sets(others, room - number * share):
            left = room - number * share - math.fsum(more)
            if number == most or share > left:
                yield (share,) * number + more
