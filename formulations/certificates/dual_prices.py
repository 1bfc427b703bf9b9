"""Prices read off the dual values of a relaxation.

Whatever a solver's duals are worth, prices are clipped to what prices may be, and `price_bound`
says what they prove.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.prices import Prices, WeightedValues
from goodalloc.formulations.gpu_rounds.choices import keep_choices
from goodalloc.formulations.mode_rounds.mode_choices import choice_demand, node_capacity
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.mode_rounds.resource_units import price_units, whole_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import PatternProgram
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.formulations.mode_rounds.value_cut import Cut
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def pattern_prices(
    instance: Instance, patterns: PatternProgram, grid: ResourceGrid, duals: Float[Floats, " rows"]
) -> Prices:
    """Return the prices of the rows of the pattern program: (P6), (P7), and those that price stays.

    Parameters
    ----------
    instance, patterns
        The round and its program.
    grid
        Units of the round.
    duals
        Dual value of every row, shape (rows,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.certificates import pattern_prices
    >>> from goodalloc.formulations.gpu_rounds import build_patterns, enumerate_choices
    >>> from goodalloc.formulations.mode_rounds import resource_grid
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> patterns = build_patterns(instance, choices, power_cost(choices.utility, -1.0))
    >>> nothing = np.zeros(patterns.program.num_rows)
    >>> prices = pattern_prices(instance, patterns, resource_grid(instance), nothing)
    >>> len(prices.values)  # one function of the pieces that a node holds
    1
    """
    pieces = np.maximum(duals[patterns.slot_rows[1:]], 0.0)
    distributed = np.maximum(duals[patterns.piece_rows[1:]], 0.0)
    units = np.zeros((pieces.size, len(grid.shape)), dtype=np.int64)
    units[:, 0] = np.arange(1, pieces.size + 1)
    inside = units[:, 0] < grid.shape[0]
    apart = inside & instance.rules.interference_avoidance
    value = node_value(
        units[inside],
        pieces[inside],
        grid.shape,
        extra=units[apart],
        extra_worth=distributed[apart],
    )
    stays = np.zeros(instance.current.job.size)
    free = patterns.free
    if patterns.stay_rows is not None:
        stays[free.stay_entry] = patterns.stay_rows.prices(duals, free.stay_entry.size)
    groups = len(instance.cluster.groups)
    return Prices(values=(WeightedValues(1.0, (value,) * groups),), stays=stays)


def aggregate_prices(
    instance: Instance,
    choices: Choices,
    program: Program,
    cuts: Sequence[Cut],
    grid: ResourceGrid,
    duals: Float[Floats, " rows"],
) -> Prices:
    """Return the prices of the rows of the aggregate: capacities, interference, value cuts.

    Other cuts (`solvers/modes/conflict.py`) are no prices of pieces, and count for nothing.

    Parameters
    ----------
    instance, choices, program
        The round, and its aggregate over these choices.
    cuts
        The cuts among its rows, in their order.
    grid
        Units of the round.
    duals
        Dual value of every row, shape (rows,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.certificates import aggregate_prices
    >>> from goodalloc.formulations.mode_rounds import (
    ...     build_aggregate,
    ...     enumerate_mode_choices,
    ...     resource_grid,
    ... )
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> choices = enumerate_mode_choices(instance)
    >>> program = build_aggregate(instance, choices, power_cost(choices.utility, -1.0))
    >>> nothing = np.zeros(program.num_rows)
    >>> prices = aggregate_prices(instance, choices, program, (), resource_grid(instance), nothing)
    >>> len(prices.values)  # duals of 0 price nothing
    0
    """
    price = np.maximum(-duals, 0.0)
    code = np.array([_group_type(instance, g) for g in range(len(instance.cluster.groups))])
    wanted = np.flatnonzero(choice_demand(instance, choices).any(axis=0))
    resources = np.zeros((code.size, len(grid.shape)))
    resources[:, wanted] += price[program.rows_of("capacity")]
    for kind in np.unique(code).tolist():
        rows = program.rows_of(f"capacity_{kind}")
        if rows.size:
            resources[np.ix_(code == kind, wanted)] += price[rows]
    amounts = instance.mode_demand, node_capacity(instance)
    resources *= price_units(*amounts)[0] / whole_units(*amounts)[0]
    touched = np.zeros(code.size)
    for group, kind in enumerate(code.tolist()):
        for name in ("touched", f"touched_{kind}"):
            touched[group] += price[program.rows_of(name)].sum()
    stays = _interference_prices(instance, choices, program, price, touched)
    values = () if not touched.any() else (WeightedValues(1.0, _touching(touched, grid)),)
    prices = Prices(resources, values, stays)
    return with_cuts(instance, prices, cuts, price[program.rows_of("cut")])


def with_cuts(
    instance: Instance, prices: Prices, cuts: Sequence[Cut], weights: Float[Floats, " cuts"]
) -> Prices:
    """Return prices extended by those that cuts stand for.

    Parameters
    ----------
    instance, prices
        The round, and prices of it.
    cuts, weights
        Cuts, and the price of each, at least 0: shape (cuts,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.certificates import Prices, with_cuts
    >>> instance = load_benchmark("tiny-cold")
    >>> prices = with_cuts(instance, Prices(), cuts=(), weights=np.zeros(0))
    >>> len(prices.values)  # there are no cuts
    0
    """
    code = [_group_type(instance, group) for group in range(len(instance.cluster.groups))]
    stays = np.zeros(instance.current.job.size) if prices.stays is None else prices.stays
    values = list(prices.values)
    for cut, weight in zip(cuts, weights.tolist(), strict=True):
        if weight > 0 and cut.values is not None and cut.stay is not None:
            by_group = tuple(cut.values[kind] for kind in code)
            values.append(WeightedValues(weight / cut.size, by_group))
            stays = stays + cut.stay * (weight / cut.size)
    return replace(prices, values=tuple(values), stays=stays)


def _group_type(instance: Instance, group: int) -> int:
    """Return the type of GPU of a group of nodes."""
    cluster = instance.cluster
    return cluster.gpu_types.index(cluster.groups[group].gpu_type)


def _interference_prices(
    instance: Instance, choices: Choices, program: Program, price: Floats, touched: Floats
) -> Floats:
    """Return the charge of distributed jobs for the nodes that they stay on, shape (entries,)."""
    current, stays = instance.current, np.zeros(instance.current.job.size)
    if not instance.rules.interference_avoidance:
        return stays
    keeps = keep_choices(instance, choices)[current.job] >= 0
    spread = np.flatnonzero((current.job_nodes[current.job] > 1) & keeps)
    nodes = np.unique(current.node[spread])
    of_node = np.zeros(instance.cluster.num_nodes)
    of_node[nodes] = price[program.rows_of("interference")]
    shared = np.bincount(current.node[spread], minlength=of_node.size) > 1
    at = current.node[spread]
    stays[spread] = np.where(shared[at], of_node[at], 0.0)
    stays[spread] += touched[instance.cluster.node_group[at]]
    return stays


def _touching(touched: Floats, grid: ResourceGrid) -> tuple[NodeValue, ...]:
    """Return value functions in which any piece of a distributed job has the price of its group."""
    nothing = np.zeros((0, len(grid.shape)), dtype=np.int64)
    anything = np.zeros((1, len(grid.shape)), dtype=np.int64)
    return tuple(
        node_value(nothing, np.zeros(0), grid.shape, extra=anything, extra_worth=np.array([price]))
        for price in touched.tolist()
    )
