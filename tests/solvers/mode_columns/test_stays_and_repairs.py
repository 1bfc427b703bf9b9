"""Jobs that stay node by node, whole splits of distributed jobs, and repairs of allocations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import generate_mode_columns, three_types
from goodalloc.formulations.mode_rounds import node_value
from goodalloc.models import Cluster, NodeGroup, Rules
from goodalloc.models.columns import mode_column_utilities
from goodalloc.models.columns.column_feasibility import column_violations
from goodalloc.solvers import Stop
from goodalloc.solvers.interface import Watch
from goodalloc.solvers.mode_columns import (
    NodeUnits,
    NodeWorth,
    PricedClasses,
    SingleStays,
    best_pool_prices,
    best_stays,
    pooled_choices,
    solve_mode_columns,
)
from goodalloc.solvers.mode_columns.node_filling import NodeFilling
from goodalloc.solvers.mode_columns.node_units import MOST_KNOWN
from goodalloc.solvers.mode_columns.repairs import Repairs
from goodalloc.solvers.mode_columns.seat_program import Room, Wanted, relaxed_packing
from goodalloc.solvers.mode_columns.stay_search import StayRound
from goodalloc.solvers.mode_columns.worth_search import PoolSearch
from tests.support.few import few

if TYPE_CHECKING:
    from goodalloc.data.rounds import State
    from goodalloc.models.columns import ModeColumns

WATCH = Watch(Stop())


def nothing_placed(columns: ModeColumns) -> NodeFilling:
    """Return a filling without a job."""
    none = np.zeros(columns.num_jobs, dtype=np.int64)
    return NodeFilling(NodeUnits(columns), none, none)


def priced(columns: ModeColumns) -> PricedClasses:
    """Return the classes of a round."""
    choices = pooled_choices(mode_column_utilities(columns))
    return PricedClasses(choices, columns.rules.power, 0.05, choices.count.astype(float))


def stay_round(columns: ModeColumns) -> tuple[StayRound, PoolSearch]:
    """Return all jobs of a round to be placed, and prices of pools for them."""
    classes, filling = priced(columns), nothing_placed(columns)
    _, best, worths = best_pool_prices(classes, filling.units, WATCH)
    pools = classes.choices.demand.shape[1]
    jobs = np.arange(columns.num_jobs)
    search = PoolSearch(filling.units, WATCH, float(jobs.size), pools, list(worths), best.prices)
    return StayRound(classes, jobs, filling), search


@lru_cache
def units_of_three_types() -> NodeUnits:
    """Return the units of a round."""
    return NodeUnits(generate_mode_columns(0, 60, three_types(1)))


@given(st.integers(0, 9_999))
def test_the_worth_of_all_nodes_is_the_sum_of_each(seed: int) -> None:
    """With and without a distributed piece, also of what is left."""
    random, units = np.random.default_rng(seed), units_of_three_types()
    here = units.capacity[units.node_type == 0]
    pieces = random.integers(1, 4, (3, units.capacity.shape[1]))
    worth = random.uniform(0.0, 1.0, 3)
    value = node_value(
        pieces[:2], worth[:2], units.grid.shape, extra=pieces[2:], extra_worth=worth[2:]
    )
    known = units.worth_of_nodes(0, value)
    assert known.total == pytest.approx(value.shared(here).sum(), rel=1e-9)
    assert known.total >= value.shared(here).sum()
    free = here - random.integers(0, 3, here.shape)
    assert known.shared.at(free).tolist() == value.shared(free).tolist()
    assert units.worth_of_nodes(0, value) is known


def test_what_is_known_of_value_functions_is_that_of_the_latest() -> None:
    """The first ones are forgotten, and found again when they are asked for."""
    units = NodeUnits(generate_mode_columns(0, 60, three_types(1)))
    piece = np.ones((1, units.capacity.shape[1]), dtype=np.int64)
    values = [
        node_value(piece, np.array([1.0 + number]), units.grid.shape)
        for number in range(MOST_KNOWN + 1)
    ]
    known = [units.worth_of_nodes(0, value) for value in values]
    assert units.worth_of_nodes(0, values[-1]) is known[-1]
    again = units.worth_of_nodes(0, values[0])
    assert again is not known[0]
    assert again.total == known[0].total


@settings(max_examples=60)
@given(st.integers(0, 9_999))
def test_the_best_jobs_to_stay_are_those_of_an_enumeration(seed: int) -> None:
    """On a node, among all sets that fit beside what is there already."""
    random = np.random.default_rng(seed)
    columns = generate_mode_columns(0, 8, Cluster((NodeGroup("n", 2, 8, "t4"),)))
    units = NodeUnits(columns)
    pieces = node_value(np.array([[2], [3]]), random.random(2), (9,))
    price = float(random.random() * 5)
    worth = NodeWorth(units, [(0, pieces)], np.array([price]))
    number = int(random.integers(1, 6))
    node, size = random.integers(0, 2, number), random.integers(1, 5, (number, 1))
    gain = random.normal(0.5, 1.0, number)
    free = random.integers(4, 9, (2, 1))
    room = Room(free, np.zeros(2, dtype=bool))
    value, stays = best_stays(SingleStays(np.arange(number), node, size), gain, worth, room)
    for one in range(2):
        here = np.flatnonzero(node == one).tolist()
        sets = chain.from_iterable(combinations(here, k) for k in range(len(here) + 1))
        total = -np.inf
        for jobs in map(list, sets):
            left = free[one] - size[jobs].sum(axis=0)
            if left >= 0:
                rest = worth.of_room(np.array([one]), left[None], np.zeros(1, dtype=bool))
                total = max(total, float(rest[0] + gain[jobs].sum()))
        assert value[one] == pytest.approx(total)
        found = np.flatnonzero(stays & (node == one))
        left = free[one] - size[found].sum(axis=0)
        assert left >= 0
        rest = worth.of_room(np.array([one]), left[None], np.zeros(1, dtype=bool))
        assert rest[0] + gain[found].sum() == pytest.approx(total)


@pytest.mark.parametrize("seed", range(6))
def test_node_by_node_the_bound_is_no_lower_than_that_of_pools(seed: int) -> None:
    """At the same prices; the best of several rounds is no lower than the first."""
    columns = generate_mode_columns(seed, 90, three_types(), state="disturbed")
    round_, search = stay_round(columns)
    units = round_.filling.units
    pools = best_pool_prices(round_.classes, units, WATCH)
    plain = pools.classes.respond(pools.best.prices).bound
    first = round_.best(pools.best.prices, pools.worths).cost
    assert first >= plain - 1e-9 * (1.0 + abs(plain))
    settled = round_.settled(search, rounds=6)
    assert settled.proven.cost >= first - 1e-9 * (1.0 + abs(first))
    placed = settled.filling.placed
    assert not placed[settled.movers].any()
    assert int(placed.sum()) + settled.movers.size == columns.num_jobs


def test_where_nobody_runs_the_last_prices_prove_the_bound() -> None:
    """Those at which the jobs choose, which are searched more closely than the first."""
    columns = generate_mode_columns(0, 120, three_types(4), rules=Rules(power=0.0))
    round_, search = stay_round(columns)
    settled = round_.settled(search, rounds=8)
    assert settled.movers.size == columns.num_jobs
    bound = settled.pools.best.response.bound
    assert settled.proven.cost >= bound - 1e-9 * (1.0 + abs(bound))


def test_distributed_jobs_are_split_into_whole_pieces() -> None:
    """Three replicas are a piece of two and one of one, not one and a half pieces of two: three
    nodes that give two GPUs each, to one distributed job at most, have no room for two such jobs.
    """
    cluster = Cluster((NodeGroup("n", 3, 4, "t4"),))
    columns = generate_mode_columns(0, 8, cluster, rules=Rules(interference_avoidance=True))
    units = NodeUnits(columns)
    wanted = Wanted(np.zeros(1, dtype=int), np.array([3]), np.array([True]), np.array([2.0]))
    room = Room(np.full((3, 1), 2), np.zeros(3, dtype=bool))
    packed, splits = relaxed_packing(units, wanted, room, WATCH)
    assert packed.unpacked > 0.1
    assert {tuple(sizes) for sizes in splits.sizes} == {(2, 1), (1, 1, 1)}
    packed, splits = relaxed_packing(units, replace_number(wanted, 1.0), room, WATCH)
    assert packed.unpacked == pytest.approx(0.0, abs=1e-9)
    assert splits.number.sum() == pytest.approx(1.0)


def replace_number(wanted: Wanted, number: float) -> Wanted:
    """Return the same ways for another number of jobs."""
    return wanted._replace(number=np.array([number]))


@pytest.mark.parametrize("case", few([("disturbed", -1.0), ("cold", 0.0), ("settled", 0.0)], 1))
def test_losses_are_what_an_allocation_costs_above_the_bound(case: tuple[State, float]) -> None:
    """None is below 0, and repairs make them no more."""
    state, power = case
    columns = generate_mode_columns(2, 64, three_types(2), state=state, rules=Rules(power=power))
    round_, search = stay_round(columns)
    settled = round_.settled(search, rounds=4)
    utilities = mode_column_utilities(columns)
    repairs = Repairs(utilities, round_.classes, round_.filling.units, settled.proven, WATCH)
    first = repairs.placed(settled)
    values = []
    for filling in (first, repairs.repaired(first)):
        allocation = filling.allocation()
        values.append(utilities.fitness(allocation))
        assert not column_violations(columns, allocation)
        losses, pieces = repairs.losses(filling), filling.pieces
        assert len(np.unique(np.stack(pieces[:2]), axis=1).T) == pieces.job.size
        assert np.array_equal(allocation.job_nodes[pieces.job] > 1, pieces.apart)
        assert losses.node.min() > -1e-9
        assert losses.job.min() > -1e-9
        total = float(losses.node.sum() + losses.job.sum())
        cost = round_.classes.cost_of_utility(utilities.of(allocation)).sum()
        assert total == pytest.approx(float(cost) - settled.proven.cost, abs=1e-9)
    assert values[1] >= values[0]


def test_jobs_stay_only_where_others_left_room() -> None:
    """Of those that do not fit together the first do; who is taken off leaves the nodes free."""
    columns = generate_mode_columns(1, 100, three_types(2), state="settled")
    current = columns.current
    filling = nothing_placed(columns)
    everyone = current.job_replicas > 0
    filling.keep(everyone)
    assert filling.placed.sum() > 20
    kept = np.flatnonzero(filling.placed)
    assert np.array_equal(filling.allocation().job_replicas[kept], current.job_replicas[kept])
    node = int(current.node[0])
    here = np.unique(current.job[current.node == node])
    free = filling.free.copy()
    filling.remove(here)
    filling.free[node] = 0
    filling.keep(everyone)
    assert not filling.placed[here].any()
    others = np.setdiff1d(np.arange(len(free)), current.node[np.isin(current.job, here)])
    assert np.array_equal(filling.free[others], free[others])


@pytest.mark.parametrize(
    ("load", "state", "gap"),
    [(1.0, "disturbed", 5e-4), pytest.param(0.5, "cold", 2e-3, marks=pytest.mark.slow)],
)
def test_gaps_of_a_thousand_jobs_are_a_few_ten_thousandths(
    load: float, state: State, gap: float
) -> None:
    """Where nodes were just lost, and where distributed jobs share what is there."""
    scale = round(1000 / load / 64)
    columns = generate_mode_columns(0, 1000, three_types(scale), state=state)
    answer = solve_mode_columns(replace(columns, rules=Rules(power=0.0)))
    assert not column_violations(columns, answer.allocation)
    assert answer.gap < gap
