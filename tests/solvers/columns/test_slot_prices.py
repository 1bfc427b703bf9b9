"""Prices of slots: bounds that know which running jobs fill which node."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.models.columns.column_feasibility import column_violations
from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.columns.best_responses import BestResponses
from goodalloc.solvers.columns.column_choices import column_costs
from goodalloc.solvers.columns.price_search import price_bound
from goodalloc.solvers.columns.slot_search import search_slots, slot_costs
from goodalloc.solvers.columns.solver import solve_columns
from goodalloc.solvers.columns.whole_numbers import wanted_replicas

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.slot_prices import SlotCosts
    from goodalloc.models.columns.utilities_by_kind import ColumnUtilities
    from goodalloc.models.support.array_types import Floats

#: Power of the mean, and utility whose cost is 0.
powers = st.sampled_from([1.0, 0.0, -1.0, -10.0])
REFERENCE = 0.3


def drawn(seed: int, jobs: int, nodes: int, gpus: int, power: float) -> ColumnUtilities:
    """Utilities of a small round in which most jobs run."""
    state = ("running", "settled", "disturbed", "cold")[seed % 4]
    rules = Rules(power=power)
    found = generate(seed, jobs, nodes, gpus, state=state, rules=rules)  # type: ignore[arg-type]
    return column_utilities(RoundColumns.of(found))


def priced(utilities: ColumnUtilities, random: np.random.Generator) -> tuple[SlotCosts, Floats]:
    """Costs with prices of some sizes of slots, and random prices."""
    costs = slot_costs(utilities, REFERENCE)
    largest = costs.one.shape[1] - 1
    more = random.permutation(np.arange(2, largest + 1))[: random.integers(0, largest)]
    sizes = np.append(1, np.sort(more))
    return replace(costs, sizes=sizes), random.exponential(1.0, sizes.size) * sizes


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 4), nodes=st.integers(1, 3), power=powers)
def test_no_prices_bound_the_cost_above_that_of_the_best_allocation(
    seed: int, jobs: int, nodes: int, power: float
) -> None:
    """By brute force over all allocations."""
    utilities, random = drawn(seed, jobs, nodes, 3, power), np.random.default_rng(seed)
    best = solve(utilities.columns.instance(), "brute_force").fitness
    assert best is not None
    for _ in range(5):
        costs, prices = priced(utilities, random)
        bound = costs.respond(prices).bound
        assert fitness_from_cost(bound, jobs, power, REFERENCE) >= best * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 30), nodes=st.integers(1, 8), power=powers)
def test_the_bound_is_concave_and_its_planes_are_above_it(
    seed: int, jobs: int, nodes: int, power: float
) -> None:
    """At other prices of the same sizes."""
    utilities, random = drawn(seed, jobs, nodes, 4, power), np.random.default_rng(seed)
    costs, prices = priced(utilities, random)
    at = costs.respond(prices)
    size = float(abs(at.intercept) + np.abs(at.slope) @ prices + 1.0)
    assert at.intercept + at.slope @ prices == pytest.approx(at.bound, abs=1e-11 * size)
    for _ in range(5):
        other = prices * random.uniform(0.0, 2.0, prices.size)
        assert costs.respond(other).bound <= at.intercept + at.slope @ other + 1e-11 * size


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    jobs=st.integers(1, 30),
    nodes=st.integers(1, 8),
    power=powers,
    price=st.floats(0.0, 5.0),
)
def test_a_price_of_single_gpus_alone_is_that_of_the_pool(
    seed: int, jobs: int, nodes: int, power: float, price: float
) -> None:
    """The same bound."""
    utilities = drawn(seed, jobs, nodes, 4, power)
    pool = price_bound(
        column_costs(utilities, REFERENCE, power), utilities.columns.cluster.num_gpus, price
    )
    slots = slot_costs(utilities, REFERENCE).respond(np.array([price])).bound
    assert slots == pytest.approx(pool, rel=1e-11, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 6), power=powers)
def test_what_jobs_and_nodes_choose_costs_what_the_bound_says(
    seed: int, jobs: int, power: float
) -> None:
    """The cost of the choices, and the slots that they take beyond those that are left."""
    utilities, random = drawn(seed, jobs, 3, 4, power), np.random.default_rng(seed)
    costs, prices = priced(utilities, random)
    found, columns = costs.respond(prices), utilities.columns
    moved = utilities.moved(slice(0, jobs))[np.arange(jobs), :, found.replicas]
    worth = np.where(found.spread, moved[:, 1], moved[:, 0])
    worth = np.where(found.stays, utilities.kept, worth)
    assert (found.replicas[found.stays] == columns.current.job_replicas[found.stays]).all()
    assert not (found.spread & found.stays).any()
    total = float(power_cost(worth, power, REFERENCE).sum())
    assert found.intercept == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("gpus", "own"), [*product((4, 8), (0.0, 0.1))])
def test_settled_rounds_of_a_thousand_jobs_are_decided_to_a_few_millionths(
    gpus: int, own: float
) -> None:
    """At p = 1, where one price of a GPU leaves ten to twenty millionths."""
    rules = Rules(power=1.0)
    columns = generate_columns(0, 1000, 1000 // gpus, gpus, state="settled", own=own, rules=rules)
    answer = solve_columns(columns)
    assert answer.slots is not None
    assert answer.slots.sizes[0] == 1
    assert answer.gap < 5e-6
    assert not column_violations(columns, answer.allocation)


def test_the_bound_by_slots_is_the_optimum_that_the_exact_solver_finds() -> None:
    """Of a settled round at p = 1 whose bound by one price is 5e-5 higher."""
    rules = Rules(power=1.0)
    columns = generate_columns(0, 100, 25, 4, state="settled", rules=rules)
    answer = solve_columns(columns)
    best = solve(columns.instance()).fitness
    assert answer.fitness == pytest.approx(best, rel=1e-9)
    assert answer.bound == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
def test_ten_thousand_settled_jobs_are_proved_to_a_millionth() -> None:
    """At p = 1."""
    rules = Rules(power=1.0)
    assert (
        solve_columns(generate_columns(0, 10_000, 2_500, state="settled", rules=rules)).gap < 1e-6
    )


def test_a_sample_of_nodes_without_gpus_is_priced_too() -> None:
    """As of 25,000 jobs on one node, of which the first samples have none."""
    drawn_jobs = generate_columns(seed=0, jobs=25_000, nodes=1, gpus_per_node=3)
    utilities = column_utilities(replace(drawn_jobs, rules=Rules(power=1.0)))
    wanted = wanted_replicas(utilities)
    found = search_slots(utilities, wanted, BestResponses(utilities), gap=1e-5)
    assert not column_violations(utilities.columns, found.allocation)
    assert utilities.fitness(found.allocation) <= found.bound <= wanted.bound * (1 + 1e-12)
