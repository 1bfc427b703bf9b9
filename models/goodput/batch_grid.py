"""Published search for a batch size: the best of a geometric grid of total batch sizes.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.models.goodput.allocation_arrays import BatchSize
from goodalloc.models.goodput.throughput_model import overlap
from goodalloc.models.support.namespace import namespace, repeat

if TYPE_CHECKING:
    from goodalloc.models.goodput.allocation_arrays import Lanes
    from goodalloc.models.support.array_types import Array

ROUNDING = 1e-8
"""Slack of the published ceilings, in examples: keeps a whole number from being rounded up."""

AT_ONCE = 512
"""Lanes up to which NumPy visits all points at once; a loop costs more than it saves there."""


def search_grid(lanes: Lanes, grid_points: int) -> BatchSize:
    """Return the best of a geometric grid of total batch sizes, as the artifact of Pollux does.

    The total batch M runs from max(M0, K m_min) to M_max, both included. With l = M / K,

    - s = ceil(l / m_max) - 1, at least 1 if K = 1 and l > M0 (a single replica needs two passes
      to estimate its gradient's variance), and 0 without accumulation;
    - m = ceil(l / (s + 1)), the point being void if m is outside its limits.

    Rounding up lets K m (s + 1) pass M_max by a little. Where K m_min > M_max the grid runs
    downwards and only its beginning, m = m_min, counts. The first of equal points wins.

    Parameters
    ----------
    lanes
        Allocations to search.
    grid_points
        Number of total batch sizes tried.
    """
    xp = namespace(lanes)
    first = xp.maximum(lanes.initial, lanes.atomic_minimum * lanes.replicas)
    log_first = xp.log(first)
    log_ratio = (xp.log(lanes.maximum) - log_first) / max(grid_points - 1, 1)

    def point(index: Array) -> BatchSize:
        inner = xp.exp(log_first + log_ratio * index)
        last = xp.where(index == grid_points - 1, lanes.maximum, inner)
        atomic, accumulation = round_batch(lanes, xp.where(index == 0, first, last))
        return BatchSize(grid_goodput(lanes, atomic, accumulation), atomic, accumulation)

    def visit(index: Array, best: BatchSize) -> BatchSize:
        found = point(index)
        better = found.goodput > best.goodput
        return BatchSize(*(xp.where(better, *pair) for pair in zip(found, best, strict=True)))

    nothing = xp.zeros_like(first)
    if xp.__name__ == "numpy" and first.size <= AT_ONCE:
        points = point(xp.arange(grid_points)[:, None])
        best = xp.argmax(points.goodput, axis=0)[None]
        found = BatchSize(*(xp.take_along_axis(part, best, axis=0)[0] for part in points))
        return BatchSize(*(xp.where(found.goodput > 0.0, part, nothing) for part in found))
    return repeat(xp, grid_points, visit, BatchSize(nothing, nothing, nothing))


def round_batch(lanes: Lanes, batch: Array) -> tuple[Array, Array]:
    """Split a total batch into whole m and s, rounding up as published."""
    xp = namespace(lanes, batch)
    local = batch / lanes.replicas
    passes = xp.maximum(xp.ceil(local / lanes.atomic_maximum - ROUNDING), 1.0)
    alone = (lanes.replicas == 1.0) & (local > lanes.initial + ROUNDING)
    passes = xp.where(alone, xp.maximum(passes, 2.0), passes)
    passes = xp.where(lanes.accumulation, passes, 1.0)
    return xp.ceil(local / passes - ROUNDING), passes - 1.0


def grid_goodput(lanes: Lanes, atomic: Array, accumulation: Array) -> Array:
    """Return the goodput of the lanes at one m and s each, 0 where m is outside its limits."""
    xp = namespace(lanes, atomic)
    within = (atomic >= lanes.atomic_minimum) & (atomic <= lanes.atomic_maximum) & lanes.allowed
    gradient = lanes.alpha + lanes.beta * atomic
    last = overlap(gradient, lanes.synchronisation, lanes.log_synchronisation, lanes.gamma).time
    batch = lanes.replicas * atomic * (accumulation + 1.0)
    cost = (lanes.noise + lanes.signal * batch) * (accumulation * gradient + last)
    goodput: Array = xp.where(within, batch / xp.where(within, cost, math.inf), 0.0)
    return goodput
