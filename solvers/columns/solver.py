"""Solver of rounds in columns: best price, whole numbers of GPUs, placement, certified gap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.columns.column_feasibility import column_violations
from goodalloc.models.columns.many_rounds import utilities_of_many
from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.models.support.validation import literal
from goodalloc.solvers.columns.best_responses import BestResponses
from goodalloc.solvers.columns.placing import place_replicas
from goodalloc.solvers.columns.seconds import SecondsOfParts
from goodalloc.solvers.columns.whole_nodes import whole_node_placements
from goodalloc.solvers.columns.whole_numbers import AT_LEVEL, GREATEST_POWER, wanted_replicas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.gpu_rounds.slot_prices import SlotPrices
    from goodalloc.models.columns.utilities_by_kind import ColumnUtilities
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Indices
    from goodalloc.solvers.columns.whole_numbers import Wanted

#: Relative gap below which nothing is improved, and jobs from which on packings are not: many jobs
#: pack well.
CLOSE, MANY = 1e-6, 20_000

#: Most GPUs of a node of which slots have prices, and by how much these must tighten the bound.
MOST_GPUS, TIGHTER = 64, 1e-9


class ColumnAnswer(NamedTuple):
    """Answer for a round in columns.

    Attributes
    ----------
    allocation
        Allocation that the checker has passed.
    fitness
        Its objective.
    bound
        Upper bound on the objective of every allocation.
    price
        Best price of a GPU, in costs; None at p = -inf, where a level proves the bound.
    reference
        Utility whose cost is 0; at p = -inf the level.
    gap
        Relative gap, ``1 - fitness / bound``.
    seconds
        Seconds of the utility table, of the prices (or the level), of the packing, of the check.
    slots
        Prices of slots that prove the bound, if that of one price of a GPU is looser; else None.
    """

    allocation: Allocation
    fitness: float
    bound: float
    price: float | None
    reference: float
    gap: float
    seconds: dict[str, float]
    slots: SlotPrices | None = None


def solve_columns(columns: RoundColumns) -> ColumnAnswer:
    """Decide a round, with a bound that its price certifies.

    The cluster counts as one pool of GPUs for the bound (the multiple-choice knapsack), which is
    nearly always tight where jobs are many: what remains is the gap of the packing. Where that is
    more than `CLOSE`, slots of nodes have prices (`slot_search.py`).
    The rule between equally good allocations (`exact/ties.py`) does not hold here: it needs a
    proved optimum, and there is hardly any at this size.

    Parameters
    ----------
    columns
        The round, of a power of at most `GREATEST_POWER`.

    Raises
    ------
    ValueError
        If it is no round in columns, its power is greater, or a goodput model is out of range.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models.columns import RoundColumns
    >>> from goodalloc.solvers.columns import solve_columns
    >>> instance = generate(seed=0, jobs=400, nodes=100, gpus_per_node=4, state="disturbed")
    >>> answer = solve_columns(RoundColumns.of(instance))
    >>> answer.gap < 1e-3
    True
    """
    _require_columns(columns)
    seconds = SecondsOfParts()
    utilities = column_utilities(columns)
    seconds.end("table")
    return _answer(utilities, seconds)


def solve_many_columns(rounds: Sequence[RoundColumns]) -> list[ColumnAnswer]:
    """Decide many rounds, as `solve_columns` does each.

    Rounds of one cluster and one set of rules share what is computed of a goodput model, which is
    most of the time of a round of some hundred jobs (`models/columns/many_rounds.py`).

    Parameters
    ----------
    rounds
        The rounds, each of a power of at most `GREATEST_POWER`.

    Returns
    -------
    list of ColumnAnswer
        The answers, in order. Their seconds leave out the tables, which are of all rounds.

    Raises
    ------
    ValueError
        If one is no round in columns, a power is greater, or a goodput model is out of range.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns
    >>> from goodalloc.solvers.columns import solve_many_columns
    >>> rounds = [generate_columns(seed=seed, jobs=80, nodes=20) for seed in range(5)]
    >>> max(answer.gap for answer in solve_many_columns(rounds)) < 1e-2
    True
    """
    for one in rounds:
        _require_columns(one)
    return [_answer(utilities, SecondsOfParts()) for utilities in utilities_of_many(rounds)]


def _require_columns(columns: object) -> None:
    if not isinstance(columns, RoundColumns):
        raise ValueError(
            f"Round: got {literal(columns)}; expected RoundColumns, as RoundColumns.of(instance)."
        )
    if isinstance(columns, ModeColumns):
        raise ValueError("Round: its jobs have modes; expected none, or `solve_mode_columns`.")
    power = columns.rules.power
    if power > GREATEST_POWER:
        raise ValueError(
            f"Round: power is {power:g}; expected at most {GREATEST_POWER:g} in columns."
        )


def _answer(utilities: ColumnUtilities, seconds: SecondsOfParts) -> ColumnAnswer:
    """Return the answer for a round whose utilities are known."""
    columns = utilities.columns
    wanted = wanted_replicas(utilities)
    seconds.end("prices")
    allocation = place_replicas(utilities, wanted.replicas)
    if wanted.price is None and utilities.fitness(allocation) < wanted.bound:
        cautious = place_replicas(utilities, wanted.fewest)  # which a level alone asks for
        allocation = max(allocation, cautious, key=utilities.fitness)
    bound, slots = wanted.bound, None
    if utilities.fitness(allocation) < bound * (1.0 - CLOSE):
        allocation, bound, slots = _closer(utilities, wanted, allocation)
    seconds.end("packing")
    if broken := column_violations(columns, allocation):
        raise AssertionError(f"The packing breaks a rule: {broken[0]}")
    value = utilities.fitness(allocation)
    seconds.end("check")
    price, gap = wanted.price, max(1.0 - value / bound, 0.0)
    return ColumnAnswer(
        allocation, value, bound, price, wanted.reference, gap, seconds.found, slots
    )


def _closer(
    utilities: ColumnUtilities, wanted: Wanted, allocation: Allocation
) -> tuple[Allocation, float, SlotPrices | None]:
    """Return a better allocation, a tighter bound, and the prices of slots that prove it, if any.

    Parameters
    ----------
    utilities, wanted, allocation
        What one price of a GPU prescribes, and what was placed of it.
    """
    columns, responses = utilities.columns, BestResponses(utilities)
    bound, slots = wanted.bound, None
    placed = [(wanted.replicas, allocation)]
    if math.isfinite(columns.rules.power) and columns.cluster.node_gpus.max() <= MOST_GPUS:
        from goodalloc.solvers.columns.slot_search import search_slots  # loads HiGHS

        gap = 1.0 - utilities.fitness(allocation) / bound
        priced = search_slots(utilities, wanted, responses, gap)
        placed.append((priced.replicas, priced.allocation))
        allocation = max(allocation, priced.allocation, key=utilities.fitness)
        if priced.bound < bound * (1.0 - TIGHTER):
            bound, slots = priced.bound, priced.slots
    if columns.num_jobs < MANY and utilities.fitness(allocation) < bound * (1.0 - CLOSE):
        allocation = _improved(utilities, wanted, placed, responses)
    return allocation, bound, slots


def _improved(
    utilities: ColumnUtilities,
    wanted: Wanted,
    placed: Sequence[tuple[Indices, Allocation]],
    responses: BestResponses,
) -> Allocation:
    """Return the best of some allocations and those of whole nodes, after best responses.

    Where jobs that were to stay had to make room, it is also tried what the others get if they do
    not.

    Parameters
    ----------
    placed
        Numbers of GPUs that jobs are to have, and what was placed of them.
    """
    power, current = utilities.columns.rules.power, utilities.columns.current
    power = power if math.isfinite(power) else AT_LEVEL
    whole = whole_node_placements(utilities, wanted.reference, power)
    found: list[Allocation] = []
    tried: set[bytes] = set()
    for replicas, allocation in (*placed, *whole):
        found.append(responses.improved(allocation))
        if (key := replicas.tobytes()) in tried:
            continue
        tried.add(key)
        stay = (replicas > 0) & (replicas == current.job_replicas)
        if (stay & ~allocation.unchanged(current)).any():
            undisturbed = place_replicas(utilities, np.where(stay, replicas, 0))
            filled = responses.improved(undisturbed, limit=replicas)
            found.append(responses.improved(filled))
    return max(found, key=utilities.fitness)
