"""AITurbo's exchange: never raises the total, ends where no exchange helps, is told from exact."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.parameter_servers.exchange_example import (
    CENTRE,
    NOW,
    STUCK_CAPACITY,
    example_tables,
    stuck_tables,
)
from goodalloc.models.parameter_servers.tabulated_service import AXES, ServiceTable, marginal_table
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.parameter_servers.exchange import (
    FREE,
    Free,
    Offers,
    best_exchange,
    exchange_units,
    left_of,
)
from goodalloc.solvers.parameter_servers.service_optimum import least_service
from tests.support.policies.service_rounds import random_round, random_table

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.tabulated_service import Cell
    from goodalloc.models.support.array_types import Floats


SEEDS = range(100)


def brute_force(tables: list[ServiceTable], capacity: Floats) -> float:
    """The least total over all combinations of cells that fit."""
    best = np.inf
    for cells in itertools.product(*(np.ndindex(table.service.shape) for table in tables)):
        taken = sum(table.demand[cell] for table, cell in zip(tables, cells, strict=True))
        if (taken <= capacity + 1e-9).all():
            total = sum(table.service[cell] for table, cell in zip(tables, cells, strict=True))
            best = min(best, float(total))
    return best


def test_the_slides_example_exchanges_a_unit_that_leaves_fifteen() -> None:
    """Job B comes down from 16 to 9, job A from 10 to 6; nothing else is below 15."""
    tables = example_tables()
    used = tables[0].demand[CENTRE] + tables[1].demand[CENTRE]
    found = exchange_units(tables, [CENTRE, CENTRE], used, most=1)
    assert found.total == 15.0
    (exchange,) = found.exchanges
    assert (exchange.recipient, exchange.donor) == (1, 0)
    assert (exchange.before, exchange.after) == (sum(NOW.values()), 15.0)
    table = marginal_table(tables, [CENTRE, CENTRE])
    pairs = [
        table.service[i, 0, axis] + table.service[1 - i, 1, axis]
        for i in (0, 1)
        for axis in range(len(AXES))
    ]
    assert sorted(pairs)[0] == 15.0
    assert sorted(pairs)[1] > 15.0


def test_the_stuck_example_is_a_server_too_many_for_both_jobs() -> None:
    """One per cent above the optimum, and no exchange of one unit helps; as documented."""
    tables, capacity = stuck_tables(), np.array(STUCK_CAPACITY)
    least: Cell = (0,) * len(AXES)
    found, best = exchange_units(tables, [least, least], capacity), least_service(tables, capacity)
    assert found.cells == ((1, 0, 0, 0, 0), (1, 0, 0, 0, 0))
    assert best.cells == ((1, 1, 0, 0, 0), least)
    assert found.total / best.total == pytest.approx(1.01206, abs=1e-5)
    hours = [[round(float(v) / 3600, 1) for v in table.service[:2, :2].ravel()] for table in tables]
    assert hours == [[27.8, 27.3, 24.6, 21.0], [9.0, 10.4, 5.8, 6.4]]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_exact_optimum_is_that_of_all_combinations(seed: int) -> None:
    """And a round whose jobs do not fit is proved to have none."""
    tables, _, capacity = random_round(seed)
    found, best = least_service(tables, capacity), brute_force(tables, capacity)
    assert found.total == pytest.approx(best)
    if np.isfinite(best):
        assert found.cells is not None
        assert found.gap <= 1e-9
        taken = sum(t.demand[cell] for t, cell in zip(tables, found.cells, strict=True))
        assert (taken <= capacity + 1e-9).all()
    else:
        assert found.cells is None
        assert found.bound == np.inf


@pytest.mark.parametrize("free", ["donor", "both"])
@pytest.mark.parametrize("seed", SEEDS)
def test_exchanges_only_lower_the_total_and_fit_and_end_where_none_helps(
    seed: int, free: str
) -> None:
    """Every exchange, on its own; and the end is never below the optimum."""
    tables, cells, capacity = random_round(seed)
    found = exchange_units(tables, cells, capacity, free=free)  # type: ignore[arg-type]
    totals = [e.before for e in found.exchanges] + [found.total]
    assert all(after < before for before, after in itertools.pairwise(totals))
    for exchange, after in zip(found.exchanges, totals[1:], strict=True):
        assert exchange.after == pytest.approx(after)
        assert exchange.recipient != exchange.donor
        assert free == "both" or exchange.recipient != FREE
    taken = sum(t.demand[cell] for t, cell in zip(tables, found.cells, strict=True))
    assert (taken <= capacity + 1e-6).all()
    left = capacity - taken + 1e-9
    again = best_exchange(Offers(tables, found.cells, free=free), left)  # type: ignore[arg-type]
    assert again is None or again.after >= found.total - 1e-9
    assert found.total >= brute_force(tables, capacity) - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_exchange_is_that_of_all_pairs(seed: int) -> None:
    """Of equals that of the first axis, then of who gains most, then of the first job."""
    tables, cells, capacity = random_round(seed, jobs=6)
    table = marginal_table(tables, cells)
    left = left_of(tables, cells, capacity)
    cost = np.vstack([table.service - table.now[:, None, None], np.zeros_like(table.service[:1])])
    change = np.vstack([table.change, np.zeros_like(table.change[:1])])
    free, axes = len(tables), table.service.shape[2]
    pairs = [
        (cost[i, 0, axis] + cost[k, 1, axis], axis, cost[i, 0, axis], i, cost[k, 1, axis], k)
        for axis, i, k in itertools.product(range(axes), range(free), range(free + 1))
        if i != k and (change[i, 0, axis] + change[k, 1, axis] <= left).all()
    ]
    best = min(pairs, default=(np.inf,) * 6)
    found = best_exchange(Offers(tables, cells), left)
    if np.isfinite(best[0]):
        assert found is not None
        assert found.after == found.before + best[0]
        assert (found.axis, found.recipient) == (best[1], best[3])
        assert found.donor == (FREE if best[5] == free else best[5])
    else:
        assert found is None


@given(st.integers(0, 299), st.lists(st.integers(0, 5)), st.sampled_from(get_args(Free)))
def test_who_moves_offers_what_those_do_who_begin_there(
    seed: int, moved: list[int], free: Free
) -> None:
    """Whoever stood where before."""
    tables, cells, _ = random_round(seed, jobs=6)
    offers = Offers(tables, cells, free=free)
    for step, job in enumerate(moved):
        able = np.argwhere(np.isfinite(tables[job].service)).tolist()
        cells[job] = tuple(able[step % len(able)])
        offers.put(job, tables[job], cells[job])
    anew = Offers(tables, cells, free=free)
    assert offers.sides == anew.sides
    assert offers.total == anew.total


def test_who_gains_most_and_misses_least_does_not_exchange_with_itself() -> None:
    """By hand: 9 for 5 is as good as 6 for 2, so the one who gains 9 receives."""
    demand = np.array([[1.0], [2.0], [3.0]])
    services = ([20.0, 10.0, 19.0], [12.0, 10.0, 1.0], [15.0, 10.0, 4.0])
    tables = [ServiceTable(f"job{i}", np.array(v), demand) for i, v in enumerate(services)]
    found = exchange_units(tables, [(1,)] * 3, np.array([6.0]))
    assert [(e.recipient, e.donor, e.after) for e in found.exchanges] == [(1, 2, 26.0)]
    assert found.cells == ((1,), (2,), (0,))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.permutations(range(4)))
def test_the_order_of_jobs_does_not_change_the_optimum(seed: int, order: list[int]) -> None:
    """Four jobs, in any order."""
    random = np.random.default_rng(seed)
    tables = [random_table(f"job{i}", random, (3, 2)) for i in range(4)]
    capacity = np.array([9.0, 9.0])
    first = least_service(tables, capacity).total
    again = least_service([tables[i] for i in order], capacity).total
    assert again == pytest.approx(first) or (np.isinf(first) and np.isinf(again))


def test_time_runs_out_with_a_bound_or_nothing() -> None:
    """A limit is no error."""
    tables, _, capacity = random_round(0)
    found = least_service(tables, capacity, stop=Stop(seconds=1e-9))
    assert found.limit is Limit.TIME
    assert found.bound <= brute_force(tables, capacity) + 1e-9


@pytest.mark.parametrize(
    ("service", "demand", "message"),
    [
        ([1.0, np.nan], [[1.0], [2.0]], "negative or NaN"),
        ([1.0, -2.0], [[1.0], [2.0]], "negative or NaN"),
        ([np.inf, np.inf], [[1.0], [2.0]], "can be nowhere"),
        ([1.0, 2.0], [[1.0], [np.nan]], "demand"),
        ([1.0, 2.0], [[1.0], [-1.0]], "demand"),
        ([1.0, 2.0], [[1.0]], "shape"),
    ],
)
def test_tables_that_make_no_sense_are_refused(
    service: list[float], demand: list[list[float]], message: str
) -> None:
    """With the name of the job."""
    with pytest.raises(ValueError, match=f"Job 'a'.*{message}"):
        ServiceTable("a", np.array(service), np.array(demand))


def test_jobs_that_do_not_fit_where_they_begin_are_refused() -> None:
    """What they take and what there is are named."""
    tables, cells, _ = random_round(0)
    with pytest.raises(ValueError, match="expected at most"):
        exchange_units(tables, cells, np.array([1.0, 1.0]))


def test_rounds_that_make_no_sense_are_refused() -> None:
    """Nobody, cells too few or where a job cannot be, other resources, an unknown option."""
    tables, capacity = stuck_tables(), np.array(STUCK_CAPACITY)
    least = tables[0].least
    for tried, cells, room, message in (
        ([], [], capacity, "there are no jobs"),
        (tables, [least], capacity, "2 jobs and 1 cells"),
        (tables, [least, (9, 0, 0, 0, 0)], capacity, r"in the cell \(9, 0, 0, 0, 0\)"),
        (tables, [least, (-1, 0, 0, 0, 0)], capacity, "in the cell"),
        (tables, [least, (0,)], capacity, "in the cell"),
        (tables, [least, least], np.array([12.0]), "Capacity has the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            exchange_units(tried, cells, room)
    with pytest.raises(ValueError, match="free is"):
        exchange_units(tables, [least, least], capacity, free="never")  # type: ignore[arg-type]
    for tried, room, message in (
        ([], capacity, "there are no jobs"),
        (tables, np.array([12.0]), "Capacity has the shape"),
    ):
        with pytest.raises(ValueError, match=message):
            least_service(tried, room)


def test_where_least_is_taken_the_job_can_be() -> None:
    """Of cells that take as little, the first."""
    service = np.array([[np.inf, 5.0], [4.0, 1.0]])
    demand = np.array([[[1.0], [2.0]], [[2.0], [3.0]]])
    assert ServiceTable("a", service, demand).least == (0, 1)


def test_amounts_without_a_common_unit_are_refused() -> None:
    """The square root of two is no multiple of anything that one is a multiple of."""
    table = ServiceTable("a", np.array([2.0, 1.0]), np.array([[1.0], [2**0.5]]))
    with pytest.raises(ValueError, match="no common unit"):
        least_service([table], np.array([4.0]))
