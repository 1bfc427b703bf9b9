"""The checker's tables of pieces, splits and nodes are what trying everything says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from goodalloc.experiments.verification import verify_round, verify_utilities
from goodalloc.experiments.verification.verify_domains import least_split
from goodalloc.experiments.verification.verify_prices import (
    at,
    gifts,
    node_value,
    payments,
    read_prices,
    read_units,
    tabulate,
    whole_numbers,
)
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from tests.support.certification.certificate_programs import partitions
from tests.support.certification.certificates import (
    instance_document,
    random_prices,
    random_units,
    with_values,
)
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
    tight_instance,
)

Seed = tuple[list[int], int]

BIG = 1 << 40

FAMILIES = (
    random_instance,
    random_mode_instance,
    random_share_instance,
    random_pod_instance,
    tight_instance,
)


def fitting(room: tuple[int, ...], seeds: list[Seed], extras: list[Seed]) -> int:
    """The most that pieces in a room add up to, with at most one extra, by trying everything."""
    best = 0
    for units, worth in seeds:
        rest = tuple(n - k for n, k in zip(room, units, strict=True))
        if min(rest) >= 0:
            best = max(best, worth + fitting(rest, seeds, extras))
    for units, worth in extras:
        rest = tuple(n - k for n, k in zip(room, units, strict=True))
        if min(rest) >= 0:
            best = max(best, worth + fitting(rest, seeds, []))
    return best


def drawn(random: np.random.Generator, width: int) -> list[Seed]:
    """Some pieces."""
    sizes = random.integers(0, 4, (int(random.integers(4)), width)).tolist()
    return [(size, int(random.integers(1, 30))) for size in sizes if any(size)]


def drawn_tables(seed: int, kind: Any) -> tuple[Any, list[int], list[Seed], list[Seed]]:
    """Tables, the room that they are of, pieces and extras."""
    random = np.random.default_rng(seed)
    room = random.integers(1, 6, int(random.integers(1, 3))).tolist()
    seeds, extras = (
        [
            (size, worth)
            for size, worth in drawn(random, len(room))
            if np.all(size <= np.array(room))
        ]
        for _ in range(2)
    )
    return tabulate(room, seeds, extras, kind), room, seeds, extras


@pytest.mark.parametrize("kind", [np.int64, object])
@pytest.mark.parametrize("seed", few(range(60), 25))
def test_tables_hold_the_most_that_pieces_add_up_to(seed: int, kind: Any) -> None:
    """In every part of a room, and with one extra piece at most."""
    (alone, shared), room, seeds, extras = drawn_tables(seed, kind)
    for cell in itertools.product(*(range(n + 1) for n in room)):
        assert at(alone, [cell])[0] == fitting(cell, seeds, [])
        assert at(shared, [cell])[0] == fitting(cell, seeds, extras)


@pytest.mark.parametrize("seed", few(range(100), 40))
def test_a_node_gives_the_most_over_all_sets_of_jobs_that_stay(seed: int) -> None:
    """One distributed job at most, stays or pieces; none where one is pinned."""
    tables, room, seeds, extras = drawn_tables(seed, np.int64)
    random = np.random.default_rng([seed, 1])
    stay = [
        (int(random.integers(-5, 40)), random.integers(0, 3, len(room)).tolist(), bool(several))
        for several in random.random(int(random.integers(6))) < 0.5
    ]
    for open_ in (True, False):
        best = 0
        for kept in itertools.product((False, True), repeat=len(stay)):
            held = [entry for entry, keeps in zip(stay, kept, strict=True) if keeps]
            rest = tuple((np.array(room) - sum(np.array(units) for _, units, _ in held)).tolist())
            several = sum(entry[2] for entry in held)
            if min(rest) >= 0 and several <= open_:
                free = extras if open_ and not several else []
                best = max(best, sum(entry[0] for entry in held) + fitting(rest, seeds, free))
        positive = [entry for entry in stay if entry[0] > 0]
        assert node_value(tables, tuple(room), open_, positive) == best


@pytest.mark.parametrize("number", range(1, 6))
def test_the_least_split_is_the_least_of_all_splits(number: int) -> None:
    """Into two pieces or more, up to a number of them; some sizes cannot be."""
    random = np.random.default_rng(number)
    for _ in range(20):
        piece = random.integers(0, 50, 9)
        piece[[0, *random.integers(1, 9, 2)]] = BIG
        found = least_split(piece, number, BIG)
        for total in range(1, 9):
            sums = [sum(piece[list(way)].tolist()) for way in partitions(total, number)]
            assert found[total] == min([BIG, *sums])


def most_paid(family: Any, seed: int, count: int = 8) -> list[bool]:
    """Assert that no allocation of a random round pays more than nodes give; which pay as much."""
    instance, random, as_much = family(seed), np.random.default_rng([seed, 4]), []
    everything, current = enumerate_allocations(instance), instance.current
    r = verify_round.read_round(instance_document(instance))
    verify_utilities.choices(r)
    for _ in range(count):
        unit = random_units(instance, random)
        read_units(r, random_units(instance, random), unit)
        drawn_prices = random_prices(instance, unit, 1.0, random)
        if drawn_prices and random.random() < 0.6:  # of one kind alone, nodes give less to spare
            key = str(random.choice(list(drawn_prices)))
            drawn_prices = {key: drawn_prices[key]}
        prices = read_prices(r, with_values(drawn_prices))
        width = r.may.shape[2]
        numbers = whole_numbers(r, prices, 1.0, width, bool(random.random() < 0.3))
        pays, given = payments(r, numbers, width), gifts(r, numbers, r.may[r.at, 1, 0])
        paid: Any = 0
        for j, job in enumerate(instance.jobs):
            own = np.zeros(len(everything.rows[j]), dtype=pays.dtype)
            for index in np.unique(everything.row[:, j]).tolist():
                row = int(instance.first_mode[j] + everything.modes[j][index])
                placement = tuple((v, k) for v, k in enumerate(everything.rows[j][index]) if k)
                kept = placement == job.placement and row == r.at[j] and placement
                total = int(everything.rows[j][index].sum())
                place = (row, 1, 0) if kept else (row, int(len(placement) > 1), total)
                assert r.may[place]
                own[index] = pays[place]
            paid = paid + own[everything.row[:, j]]
        most = int(np.max(paid))
        assert most <= given, (instance.name, unit, prices, current.placements())
        as_much.append(most == given)
    return as_much


@pytest.mark.parametrize("family", FAMILIES)
def test_no_allocation_pays_more_than_the_nodes_give(family: Any) -> None:
    """All feasible allocations at random prices and units; now and then one pays as much."""
    found = [most_paid(family, seed) for seed in range(20)]
    assert np.mean(found) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_allocation_of_many_rounds_pays_more_than_the_nodes_give(family: Any) -> None:
    """As above, more of them."""
    for seed in range(100, 700):
        most_paid(family, seed)
