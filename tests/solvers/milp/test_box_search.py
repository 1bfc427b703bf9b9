"""Highest points of concave functions by planes in a box, with and without planes known before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.solvers.milp import boxstep


class Point(NamedTuple):
    """Value of a function at some prices, and its plane."""

    bound: float
    intercept: float
    slope: np.ndarray


class Cheapest:
    """The least of some planes, as of choices at prices; counts how often it is evaluated."""

    def __init__(self, seed: int, prices: int) -> None:
        random = np.random.default_rng(seed)
        self.cost = random.uniform(0.0, 5.0, (40, 6))
        self.demand = random.uniform(0.0, 0.1, (40, 6, prices))
        self.cost[:, 0], self.demand[:, 0] = 10.0, 0.0
        self.evaluated = 0

    def __call__(self, prices: np.ndarray) -> Point:
        """Return the total of all rows less the prices of one unit each."""
        self.evaluated += 1
        total = self.cost + self.demand @ prices
        best = total.argmin(axis=1)
        rows = np.arange(best.size)
        slope = self.demand[rows, best].sum(axis=0) - 1.0
        intercept = float(self.cost[rows, best].sum())
        return Point(intercept + float(slope @ prices), intercept, slope)


@given(st.integers(0, 9_999), st.integers(1, 4))
def test_planes_that_are_known_change_no_maximum(seed: int, prices: int) -> None:
    """And from the best prices, with all planes known, at most a few evaluations are left."""
    function, start = Cheapest(seed, prices), np.zeros(prices)
    found = boxstep(function, start, np.ones(prices), 1e-7, keep=500)
    assert found.steps == function.evaluated >= len(found.lowest)
    again = boxstep(function, start, np.ones(prices), 1e-7, known=found.lowest)
    assert again.response.bound == pytest.approx(found.response.bound, rel=1e-6)
    assert again.lowest == ()
    near = boxstep(function, found.prices, 0.1 * np.ones(prices), 1e-7, known=found.lowest)
    assert near.response.bound == pytest.approx(found.response.bound, rel=1e-6)
    assert near.steps <= 3


@given(st.integers(0, 9_999), st.integers(1, 4))
def test_the_mixture_proves_that_nothing_is_higher(seed: int, prices: int) -> None:
    """Its plane is as high as the maximum, and falls in no direction that leads above it."""
    function, start = Cheapest(seed, prices), np.zeros(prices)
    found = boxstep(function, start, np.ones(prices), 1e-7, keep=500)
    responses, weights = zip(*found.mixture, strict=True)
    assert sum(weights) == pytest.approx(1.0)
    slope = np.array(weights) @ [one.slope for one in responses]
    height = np.array(weights) @ [one.intercept for one in responses]
    assert (slope <= 1e-7).all()
    assert height == pytest.approx(found.response.bound, abs=1e-6)
    assert boxstep(function, start, np.ones(prices), 1e-7).mixture == ()


@given(st.integers(0, 9_999), st.integers(1, 30))
def test_the_lowest_planes_at_the_best_prices_are_kept(seed: int, keep: int) -> None:
    """The lowest first, none twice, none below the maximum, known ones among them."""
    function, start = Cheapest(seed, 2), np.zeros(2)
    every = boxstep(function, start, np.ones(2), 1e-7, keep=500)
    found = boxstep(function, start, np.ones(2), 1e-7, known=every.lowest, keep=keep)
    heights = [one.intercept + float(one.slope @ found.prices) for one in found.lowest]
    assert len(heights) <= keep
    assert heights == sorted(heights)
    assert heights[0] >= found.response.bound - 1e-9
    assert len({(one.intercept, *one.slope.tolist()) for one in found.lowest}) == len(heights)
    before = [one.intercept + float(one.slope @ found.prices) for one in every.lowest]
    assert heights[-1] <= sorted(before)[:keep][-1] + 1e-12
