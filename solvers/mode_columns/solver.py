"""Solver of rounds of modes in columns: prices, who stays, nodes, repairs, certified gap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost
from goodalloc.models.columns.column_feasibility import column_violations
from goodalloc.models.columns.utilities_by_mode import mode_column_utilities
from goodalloc.models.goodput.chunked import Backend
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.support.validation import require_choice
from goodalloc.solvers.columns.seconds import SecondsOfParts
from goodalloc.solvers.columns.whole_numbers import GREATEST_POWER, MOST_SCALES, NEAR
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.mode_columns.choice_pools import pooled_choices
from goodalloc.solvers.mode_columns.compiled_classes import CompiledClasses
from goodalloc.solvers.mode_columns.node_filling import NodeFilling
from goodalloc.solvers.mode_columns.node_units import NodeUnits
from goodalloc.solvers.mode_columns.pool_prices import FIRST_SAMPLE, search_pool_prices
from goodalloc.solvers.mode_columns.pool_proofs import pool_proof
from goodalloc.solvers.mode_columns.priced_classes import PricedClasses
from goodalloc.solvers.mode_columns.repairs import Repairs
from goodalloc.solvers.mode_columns.stay_search import ProvenCost, StayRound
from goodalloc.solvers.mode_columns.worth_search import PoolSearch, best_pool_prices

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.mode_rounds.node_prices import PoolProof
    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.mode_columns.choice_pools import PooledChoices

#: Times that it is thought over which jobs stay.
STAY_ROUNDS = 8

#: Relative gap of the sample's prices, which only say what costs are relative to.
SAMPLE_GAP = 1e-3


class ModeColumnAnswer(NamedTuple):
    """Answer for a round of modes in columns.

    Attributes
    ----------
    allocation
        Allocation that the checker has passed.
    fitness
        Its objective.
    bound
        Upper bound on the objective of every allocation.
    prices
        Prices of the pools, in costs, that prove the bound; shape (pools,).
    gap
        Relative gap, ``1 - fitness / bound``.
    seconds
        Seconds of the utility table, the choices, the prices and who stays, the packing with
        repairs, the check.
    proof
        The prices by nodes, for a certificate.
    """

    allocation: Allocation
    fitness: float
    bound: float
    prices: Float[Floats, " pools"]
    gap: float
    seconds: dict[str, float]
    proof: PoolProof


def solve_mode_columns(columns: ModeColumns, backend: Backend = "numpy") -> ModeColumnAnswer:
    """Decide a round of modes, with a bound that prices certify.

    The nodes of a type of GPU count as pools of GPUs and resources; where that lets choices through
    that do not share nodes well, as further pools of what nodes are worth (`worth_search.py`). Jobs
    stay or move by what they leave to others on their node (`stay_search.py`), and the allocation
    is repaired where it loses most against the bound (`repairs.py`).

    Parameters
    ----------
    columns
        The round, of a finite power of at most `GREATEST_POWER`.
    backend
        Library that prices the jobs: ``"numpy"``, or ``"jax"``, which compiles first and runs on a
        GPU as well. Both give the same answer; the bound is priced by NumPy.

    Raises
    ------
    ValueError
        If the power is infinite or greater, the backend is unknown, or a goodput model is out of
        range.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns, three_types
    >>> from goodalloc.solvers.mode_columns import solve_mode_columns
    >>> answer = solve_mode_columns(generate_mode_columns(0, 128, three_types(2)))
    >>> answer.gap < 1e-2
    True
    """
    power = columns.rules.power
    if power > GREATEST_POWER or not math.isfinite(power):
        raise ValueError(
            f"Round: power is {power:g}; expected a finite one of at most {GREATEST_POWER:g} in "
            "columns of modes."
        )
    require_choice("Rounds of modes: backend", backend, get_args(Backend))
    seconds, watch = SecondsOfParts(), Watch(Stop())
    utilities = mode_column_utilities(columns)
    seconds.end("table")
    choices, units = pooled_choices(utilities), NodeUnits(columns)
    reference = _reference(choices, power)
    seconds.end("choices")
    priced = _priced(choices, power, reference)
    if backend == "jax":
        priced = CompiledClasses(choices, power, reference, priced.count)
    everyone = np.arange(columns.num_jobs)
    nothing = NodeFilling(units, np.zeros_like(everyone), np.zeros_like(everyone))
    _, found, worths = best_pool_prices(priced, units, watch)
    pooled = choices.demand.shape[1]
    search = PoolSearch(units, watch, float(everyone.size), pooled, list(worths), found.prices)
    stays = StayRound(priced, everyone, nothing)
    settled = stays.settled(search, STAY_ROUNDS, planes=found.planes)
    seconds.end("prices")
    repairs = Repairs(utilities, priced, units, settled.proven, watch)
    allocation = repairs.repaired(repairs.placed(settled)).allocation()
    seconds.end("packing")
    proven = settled.proven
    certified = priced if backend == "numpy" else _priced(choices, power, reference)
    if units.grid.exact:
        cost = StayRound(certified, everyone, nothing).best(proven.prices, proven.worths).cost
    else:  # what nodes have is rounded
        proven = ProvenCost(certified.respond(found.prices).bound, found.prices, ())
        cost = proven.cost
    if broken := column_violations(columns, allocation):
        raise AssertionError(f"The packing breaks a rule: {broken[0]}")
    bound = fitness_from_cost(cost, columns.num_jobs, power, reference)
    bound *= 1.0 + 1e-15 * (8.0 + 8.0 * abs(math.log(bound)))
    value = utilities.fitness(allocation)
    bound = max(bound, value)
    seconds.end("check")
    gap = 1.0 - value / bound
    proof = pool_proof(units, proven.prices, proven.worths, reference)
    return ModeColumnAnswer(allocation, value, bound, proven.prices, gap, seconds.found, proof)


def _priced(choices: PooledChoices, power: float, reference: float) -> PricedClasses:
    return PricedClasses(choices, power, reference, choices.count.astype(float))


def _reference(choices: PooledChoices, power: float) -> float:
    """Return a utility near the best mean, by the prices of a sample."""
    jobs = float(choices.count.sum())
    logarithms = [-block.cost.min(axis=1) for block in _priced(choices, 0.0, 1.0).blocks]
    reference = float(power_mean(np.exp(np.concatenate(logarithms)), power))
    for _ in range(MOST_SCALES):
        sample = _priced(choices, power, reference).sample(FIRST_SAMPLE, 0)
        found = search_pool_prices(sample, SAMPLE_GAP * jobs)
        bound = fitness_from_cost(found.response.bound, int(jobs), power, reference)
        if not math.isfinite(bound) or 1.0 / NEAR < bound / reference < NEAR:
            break
        reference = bound
    return reference
