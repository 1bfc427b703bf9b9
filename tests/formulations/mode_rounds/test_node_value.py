"""The value function of a node: against enumeration, and the laws that make cuts of it."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goodalloc.formulations.mode_rounds.node_values import beside, node_value
from goodalloc.formulations.mode_rounds.resource_units import NO_UNIT, common_unit

if TYPE_CHECKING:
    from goodalloc.formulations.mode_rounds.node_values import NodeValue

SHAPE = (5, 7)
CELLS = st.tuples(st.integers(0, 4), st.integers(0, 6))


def drawn(seed: int, *, most: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Demands and worths of three pieces, and how many there are of each."""
    random = np.random.default_rng(seed)
    size = random.integers(0, 4, (3, 2)) + np.array([1, 0])
    worth = random.choice([0.0, 0.5, 1.0, 1.7], 3)
    return size, worth, random.integers(0, 4, 3) if most else None


def best_by_enumeration(
    size: np.ndarray, worth: np.ndarray, capacity: tuple[int, int], most: np.ndarray | None
) -> float:
    """Equation (1), all counts tried."""
    limits = [4] * len(size) if most is None else most.tolist()
    counts = product(*(range(limit + 1) for limit in limits))
    return max(
        float(np.dot(count, worth)) for count in counts if (np.dot(count, size) <= capacity).all()
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_table_is_the_best_of_all_counts(seed: int) -> None:
    """At every capacity, with any number of pieces and with as many as there are."""
    size, worth, most = drawn(seed, most=seed % 2 == 1)
    value = node_value(size, worth, SHAPE, most=most)
    for cell in np.ndindex(SHAPE):
        expected = best_by_enumeration(size, worth, cell, most)
        assert value.alone[cell] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_read_off_fits_and_is_worth_what_the_table_says(seed: int) -> None:
    """The pattern of every capacity, a distributed piece and a stay beside the others included."""
    size, worth, most = drawn(seed, most=seed % 2 == 1)
    extra, extra_worth = np.array([[1, 2], [2, 1]]), np.array([0.8, 1.1])
    value = node_value(size, worth, SHAPE, most=most, extra=extra, extra_worth=extra_worth)
    stay, stay_worth = np.array([[1, 1]]), np.array([0.9])
    value = beside(value, stay, stay_worth, np.array([1]))
    sizes, worths = np.concatenate([size, stay]), np.concatenate([worth, stay_worth])
    for cell in np.ndindex(SHAPE):
        capacity = np.array(cell)
        best, index = value.best_extra(capacity)
        assert best == pytest.approx(float(value.shared(capacity[None])[0]))
        left = capacity if index < 0 else capacity - extra[index]
        count = value.pattern(left)
        assert (count @ sizes <= left).all()
        assert count[-1] <= 1
        held = float(count @ worths) + (0.0 if index < 0 else float(extra_worth[index]))
        assert held == pytest.approx(best, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.lists(CELLS, min_size=1, max_size=4))
def test_the_value_is_superadditive(seed: int, cells: list[tuple[int, int]]) -> None:
    """Pieces that share a node are together worth no more than the node: the law of the cuts."""
    size, worth, _ = drawn(seed, most=False)
    value = node_value(size, worth, SHAPE, extra=np.array([[1, 1]]), extra_worth=np.array([0.7]))
    total = np.sum(cells, axis=0)
    if (total < SHAPE).all():
        parts = [float(value.alone[cell]) for cell in cells]
        assert sum(parts) <= value.alone[tuple(total)] + 1e-12
        one_distributed = float(value.shared(np.array(cells[:1]))[0]) + sum(parts[1:])
        assert one_distributed <= value.best_extra(total)[0] + 1e-12


def test_capacities_off_the_table_hold_nothing() -> None:
    """Asked for what no node has, the function says minus infinity rather than wrapping round."""
    value: NodeValue = node_value(np.array([[1, 1]]), np.array([1.0]), SHAPE)
    assert value.shared(np.array([[5, 0], [0, 7], [-1, 0]])).tolist() == [-np.inf] * 3


@pytest.mark.parametrize(
    ("amounts", "unit"),
    [
        ([2.0, 4.0, 6.0], 2.0),
        ([0.5, 1.25], 0.25),
        ([62.5, 125.0, 187.5], 62.5),
        ([0.0], 0.0),
        ([3.0, 7.0], 1.0),
    ],
)
def test_the_common_unit_divides_all_amounts(amounts: list[float], unit: float) -> None:
    """The greatest number of which each amount is a whole multiple; 0 where nobody takes any."""
    assert common_unit(np.array(amounts)) == pytest.approx(unit)


#: Cores of pods of Alibaba's, of which Euclid on floating-point numbers found the unit 18.708.
CORES = (3.152, 4.0, 8.0, 11.0, 11.3, 11.908, 12.0, 12.5, 14.2, 15.4, 16.0, 16.4, 18.708)


@given(
    thousandths=st.lists(st.integers(1, 200_000), min_size=1, max_size=40),
    denominator=st.sampled_from([1, 3, 7, 12, 100, 1_000, 1_024]),
)
@example(thousandths=[round(1_000 * cores) for cores in CORES], denominator=1_000)
def test_the_common_unit_is_the_greatest_common_divisor(
    thousandths: list[int], denominator: int
) -> None:
    """However many amounts there are, and whatever their fractions."""
    amounts = np.array(thousandths) / denominator
    unit = common_unit(amounts)
    assert unit == pytest.approx(math.gcd(*thousandths) / denominator, rel=1e-12)
    assert np.abs(amounts / unit - np.rint(amounts / unit)).max() < 1e-6


def test_amounts_that_are_no_fractions_have_no_unit() -> None:
    """Roots, and numbers that were rounded to seven digits."""
    for amounts in ([1.0, math.sqrt(2.0)], [1.0, 33.3333333], [math.pi]):
        assert common_unit(np.array(amounts)) == NO_UNIT
    assert common_unit(np.array([0.0])) == 0.0
