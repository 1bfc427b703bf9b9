"""Modes in the genetic algorithm: a gene beside every row, and the limits it sets on the row.

Every operation works on one job of all members at once, as the scans of `genetic/operators.py` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import lax

from goodalloc.solvers.genetic.random_numbers import below, noise

if TYPE_CHECKING:
    from jax import Array


class Modes(NamedTuple):
    """Demands of the modes of the jobs, and types and capacities of the nodes.

    `num_modes`, `current` (jobs,): number of a job's modes, and index of the current one;
    `gpu_type` (modes,) and `demand` (resources, modes): type of GPU, -1 for any, and demand of a
    replica beside its GPU, in the rows of `Instance.modes`; `node_type` (nodes,) and `capacity`
    (resources, nodes): type of GPU and resources of the nodes.
    """

    num_modes: Array
    current: Array
    gpu_type: Array
    demand: Array
    node_type: Array
    capacity: Array


def redraw(
    modes: Modes,
    job: Array,
    mode: Array,
    *,
    reset: Array,
    vacant: Array,
    words: Array,
    rate: float,
) -> Array:
    """Return the modes of a job's rows after mutation, (members,).

    A row that went back to the current allocation goes back to its mode, too; of the others, those
    that hold nothing and a share `rate` of the rest have theirs drawn anew, evenly from all modes
    of the job. `words` (2, 2) are random; counters below the number of members are taken.
    """
    counters = lax.iota(jnp.uint32, mode.size) + jnp.uint32(mode.size)
    struck = (noise(counters, words[0]) < below(rate)) & ~reset
    count = modes.num_modes[job].astype(jnp.uint32)
    drawn = ((noise(counters, words[1]) >> 16) * count >> 16).astype(mode.dtype)
    return jnp.where(struck | vacant, drawn, jnp.where(reset, modes.current[job], mode))


def fitting_nodes(modes: Modes, rows: Array) -> Array:
    """Return which nodes have the GPUs that each of these modes runs on, (members, nodes)."""
    wanted = modes.gpu_type[rows][:, None]
    return (wanted < 0) | (wanted == modes.node_type)


def land(row: Array, fits: Array, free: Array, gpus: Array, lots: Array) -> Array:
    """Move rows whose nodes all have the wrong GPUs; clear the wrong nodes of the others.

    Such a row goes, with as many replicas as the node has GPUs for, to the node with the highest of
    `lots` among those that fit and have a free GPU (`free`); nowhere if there is none.
    """
    stays = jnp.where(fits, row, 0)
    stranded = jnp.any(row > 0, axis=1) & ~jnp.any(stays > 0, axis=1)
    held = row.astype(jnp.int32).sum(1)[:, None]
    lots = jnp.where(fits & free, lots | 1, 0)
    chosen = (lots == lots.max(1)[:, None]) & (lots > 0)
    landed = jnp.where(chosen, jnp.minimum(held, gpus), 0).astype(row.dtype)
    return jnp.where(stranded[:, None], landed, stays)


def within(
    modes: Modes, rows: Array, row: Array, left: Array, pinned: Array
) -> tuple[Array, Array]:
    """Return the part of a job's replicas that `left` suffices for, and the remaining amounts.

    On every node ``min_r floor(left_r / demand_r)`` replicas, without the resources of which the
    mode takes nothing; pinned jobs have theirs in any case. `left` (resources, members, nodes).
    """
    demand = modes.demand[:, rows, None]
    room = jnp.where(demand > 0, jnp.floor(left / jnp.where(demand > 0, demand, 1.0)), jnp.inf)
    most = jnp.maximum(room.min(0, initial=jnp.inf), 0.0)
    kept = jnp.where(pinned, row, jnp.minimum(row, most).astype(row.dtype))
    return kept, left - kept * demand
