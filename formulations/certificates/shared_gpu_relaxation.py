r"""Rounds in which replicas take parts of GPUs, by groups of equal nodes: a linear relaxation.

Of choice *i*, taken :math:`x_i`, group *g* holds :math:`w_{ig}` replicas; a *filling* *f* is a
largest set of parts that one GPU carries, :math:`n_{fs}` of size *s*, and :math:`z_{gf}` GPUs of
the group carry it:

.. math::

    \min \sum_i c_i x_i \quad \text{s.t.} \quad \sum_{i \in A_j} x_i = 1 \;\; \forall j, \qquad
    \sum_g w_{ig} = K_i x_i \;\; \forall i \text{ anew},                                    \\
    \sum_i d_{ir} w_{ig} \le R_{gr} \;\; \forall g, r, \qquad
    \sum_{i : s_i = s} w_{ig} \le \sum_f n_{fs} z_{gf} \;\; \forall g, s, \qquad
    \sum_f z_{gf} \le G_g \;\; \forall g,                                                   (1)

with what jobs keep counted where it is. A whole GPU is a part of size 1. It forgets which node of
its group a replica is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.certificates.prices import Parts, Prices
from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.formulations.pods.gpu_fillings import fillings

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.certificates.price_bound import PriceBound
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class SharedProgram:
    """Program (1), with the rows that have prices.

    Parameters
    ----------
    program
        The program.
    resource_rows
        Rows of every group and resource beside GPUs, shape (groups, resources).
    part_rows
        Rows of every group and size of a part, shape (groups, sizes).
    sizes
        The sizes, in units of a share.
    """

    program: Program
    resource_rows: Int[Indices, "groups resources"]
    part_rows: Int[Indices, "groups sizes"]
    sizes: Int[Indices, " sizes"]


def build_shared(bounds: PriceBound) -> SharedProgram:
    """Build (1) over the choices of a round, all costs 0.

    Parameters
    ----------
    bounds
        The round, its choices and units.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.certificates import PriceBound, build_shared
    >>> from goodalloc.formulations.mode_rounds import enumerate_mode_choices, resource_grid
    >>> instance = pods_instance(draw_machines()[:4], draw_pods(0)[:6], name="pods")
    >>> choices = enumerate_mode_choices(instance, prune=False)
    >>> shared = build_shared(PriceBound(instance, choices, resource_grid(instance)))
    >>> shared.program.cost.any().item()
    False
    """
    instance, choices = bounds.instance, bounds.choices
    builder = ProgramBuilder()
    x = builder.add_columns("choice", len(choices), upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)
    builder.add_entries(jobs[choices.job], x, 1.0)
    group_of = instance.cluster.node_group
    groups = len(instance.cluster.groups)
    each, capacity = bounds.pieces.linear
    units = bounds.pieces.share_units[choices.mode]
    sizes = np.unique(bounds.pieces.share_units[bounds.pieces.share_units > 0])
    room = np.zeros((groups, capacity.shape[1]))
    np.add.at(room, group_of, capacity)
    resource = builder.add_rows("resource", room[:, 1:].size, upper=room[:, 1:].ravel())
    resource = resource.reshape(groups, -1)
    part = builder.add_rows("part", groups * sizes.size, upper=0.0).reshape(groups, -1)
    gpus = builder.add_rows("gpus", groups, upper=room[:, 0])
    placed = np.flatnonzero((choices.kind == Kind.ONE_NODE) | (choices.kind == Kind.SEVERAL_NODES))
    replicas = builder.add_rows("replicas", placed.size, lower=0.0, upper=0.0)
    builder.add_entries(replicas, x[placed], -choices.replicas[placed])
    served = bounds.pieces.fits[choices.mode[placed]] > 0
    size_of = np.searchsorted(sizes, units)
    for group in range(groups):
        here = np.flatnonzero(served[:, group])
        if not here.size:
            continue
        held = builder.add_columns("held", here.size, upper=float(choices.replicas.max()))
        builder.add_entries(replicas[here], held, 1.0)
        chosen = placed[here]
        _add_taken(builder, held, each[choices.mode[chosen], 1:], resource[group])
        takes = units[chosen] > 0
        builder.add_entries(part[group, size_of[chosen[takes]]], held[takes], 1.0)
    _add_kept(builder, bounds, x, resource, part, sizes)
    _add_fillings(builder, bounds, part, gpus, sizes)
    return SharedProgram(builder.build(), resource, part, sizes)


def _add_taken(builder: ProgramBuilder, columns: Indices, amounts: Floats, rows: Indices) -> None:
    """Add the demand of columns for the resources of a group."""
    at, which = np.nonzero(amounts)
    builder.add_entries(rows[which], columns[at], amounts[at, which])


def _add_kept(
    builder: ProgramBuilder,
    bounds: PriceBound,
    x: Indices,
    resource: Indices,
    part: Indices,
    sizes: Indices,
) -> None:
    """Add the jobs that keep their placement, pinned ones included."""
    instance, current = bounds.instance, bounds.instance.current
    keep = keep_choices(instance, bounds.choices)[current.job]
    group = instance.cluster.node_group[current.node]
    each, _ = bounds.pieces.linear
    for entry in np.flatnonzero(keep >= 0).tolist():
        row = int(instance.first_mode[current.job[entry]] + current.mode[current.job[entry]])
        column, count = x[keep[entry : entry + 1]], float(current.replicas[entry])
        _add_taken(builder, column, count * each[row : row + 1, 1:], resource[group[entry]])
        units = int(bounds.pieces.share_units[row])
        if units:
            builder.add_entries(part[group[entry], np.searchsorted(sizes, units)], column, count)


def _add_fillings(
    builder: ProgramBuilder, bounds: PriceBound, part: Indices, gpus: Indices, sizes: Indices
) -> None:
    """Add the contents of the GPUs of every group: fillings, or sums of shares where these are too
    many.
    """
    if not sizes.size:
        return
    top = bounds.pieces.gpu_units
    most = tuple(int(top // size) for size in sizes.tolist())
    shares = tuple(size / top for size in sizes.tolist())
    order = np.argsort(-sizes, kind="stable")
    listed = fillings(tuple(shares[i] for i in order), tuple(most[i] for i in order))
    for group in range(len(gpus)):
        if listed is None:  # each part is carried by as much of a GPU as it takes
            carried = builder.add_columns("carried", sizes.size)
            builder.add_entries(gpus[group], carried, sizes / top)
            builder.add_entries(part[group], carried, -1.0)
            continue
        carried = builder.add_columns("filling", len(listed))
        builder.add_entries(gpus[group], carried, 1.0)
        at, which = np.nonzero(np.array(listed))
        numbers = np.array(listed)[at, which]
        builder.add_entries(part[group, order[which]], carried[at], -numbers)


def shared_prices(shared: SharedProgram, duals: Float[Floats, " rows"]) -> Prices:
    """Return the prices of the rows of (1): of resources beside GPUs, and of parts.

    Parameters
    ----------
    shared
        The program.
    duals
        Dual value of every row, shape (rows,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.certificates import PriceBound, build_shared, shared_prices
    >>> from goodalloc.formulations.mode_rounds import enumerate_mode_choices, resource_grid
    >>> instance = pods_instance(draw_machines()[:4], draw_pods(0)[:6], name="pods")
    >>> choices = enumerate_mode_choices(instance, prune=False)
    >>> shared = build_shared(PriceBound(instance, choices, resource_grid(instance)))
    >>> prices = shared_prices(shared, np.zeros(shared.program.num_rows))
    >>> prices.resources.any().item()  # duals of 0 price nothing
    False
    """
    price = np.maximum(-duals, 0.0)
    beside = price[shared.resource_rows]
    resources = np.hstack([np.zeros((len(beside), 1)), beside])
    parts = tuple(Parts(shared.sizes, price[rows]) for rows in shared.part_rows)
    return Prices(resources, parts=parts)
