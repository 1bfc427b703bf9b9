"""Pairs of jobs: the matching against brute force and the heuristics, and its independent price."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.formulations.shared_gpus.gandiva import build_pairing_program
from goodalloc.models.shared_gpus.pairing import (
    Pairing,
    pairing_violations,
    shared_gain,
    total_gain,
)
from goodalloc.models.shared_gpus.shared_speed import FAIR, GpuUse, Sharing
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.shared_gpus.pairing import best_pairs, first_pairs, gainful


def drawn(seed: int, jobs: int, kinds: int, *, whole: bool = False) -> Pairing:
    """Jobs of random kinds, a fifth of whose pairs are impossible; whole gains tie."""
    random = np.random.default_rng(seed)
    gain = random.normal(size=(kinds, kinds))
    if whole:
        gain = np.rint(2.0 * gain)
    gain = np.where(random.random(gain.shape) < 0.2, -np.inf, gain)
    return Pairing(random.integers(0, kinds, jobs), np.minimum(gain, gain.T))


def greatest_gain(problem: Pairing) -> float:
    """The best of all pairings, by trying all."""

    @cache
    def best(left: frozenset[int]) -> float:
        if not left:
            return 0.0
        one = min(left)
        others = left - {one}
        found = best(others)
        for other in others:
            gain = problem.gain_of((one, other))
            if gain > 0:
                found = max(found, gain + best(others - {other}))
        return found

    return best(frozenset(range(problem.num_jobs)))


@pytest.mark.parametrize("block", range(4))
def test_the_matching_is_the_best_of_all_pairings(block: int) -> None:
    """A thousand instances of up to eight jobs, of few kinds and of many."""
    for seed in range(250 * block, 250 * (block + 1)):
        jobs = 1 + seed % 8
        problem = drawn(seed, jobs, 1 + seed % jobs, whole=seed % 2 == 0)
        found = best_pairs(problem)
        assert total_gain(problem, found.choice) == found.total
        assert found.total == pytest.approx(greatest_gain(problem), abs=1e-9)
        assert found.bound == pytest.approx(found.total, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 40), st.booleans())
@settings(max_examples=60)
def test_no_heuristic_gains_more_than_the_matching(
    seed: int, jobs: int, kinds: int, whole: bool
) -> None:
    """Whatever the order, and whether pairs without gain are kept or not."""
    problem = drawn(seed, jobs, kinds, whole=whole)
    found = best_pairs(problem)
    assert found.gap <= 1e-6
    order = np.random.default_rng(seed).permutation(jobs).tolist()
    tried = first_pairs(problem, order)
    kept = gainful(problem, tried)
    assert total_gain(problem, tried) <= total_gain(problem, kept) <= found.total + 1e-9
    assert not pairing_violations(problem, tried)


@given(st.integers(0, 10_000), st.integers(2, 12))
@settings(max_examples=30)
def test_names_of_jobs_and_kinds_do_not_matter(seed: int, jobs: int) -> None:
    """Jobs in another order, and every job a kind of its own, gain the same."""
    problem = drawn(seed, jobs, 1 + jobs // 2)
    total = best_pairs(problem).total
    order = np.random.default_rng(seed).permutation(jobs)
    assert best_pairs(Pairing(problem.kind[order], problem.gain)).total == pytest.approx(total)
    apart = Pairing(np.arange(jobs), problem.gain[np.ix_(problem.kind, problem.kind)])
    assert best_pairs(apart).total == pytest.approx(total)


def test_a_pair_that_was_refused_is_not_formed() -> None:
    """Of four equal jobs each goes with another one then."""
    problem = Pairing(np.zeros(4, dtype=int), np.array([[1.0]]))
    never = problem.without([(0, 1), (0, 2)])
    assert {0, 3} in [set(pair) for pair in best_pairs(never).choice]
    assert best_pairs(never).total == 2.0
    assert never.without([]) is never


def test_an_odd_set_leaves_one_job_alone() -> None:
    """Three jobs in a triangle: the relaxation says one and a half pairs, there is one."""
    triangle = np.where(np.eye(3) > 0, -np.inf, 1.0)
    found = best_pairs(Pairing(np.arange(3), triangle))
    assert (found.total, len(found.choice)) == (1.0, 1)
    assert found.bound == pytest.approx(1.0)


def test_without_anything_to_gain_nobody_is_paired() -> None:
    """Nor is a single job."""
    for problem in (drawn(0, 1, 1), Pairing(np.array([0, 1, 1]), np.full((2, 2), -1.0))):
        found = best_pairs(problem)
        assert (found.choice, found.total, found.bound, found.gap) == ((), 0.0, 0.0, 0.0)


def test_gain_is_what_both_do_beyond_what_the_larger_does_alone() -> None:
    """Half busy jobs beside each other lose nothing; a small one that slows a large one costs."""
    half, whole = GpuUse(0.5, 0.5), GpuUse(1.0, 0.5)
    lossless = Sharing("fair", 0.0)
    assert shared_gain((4, half), (4, half), lossless) == pytest.approx(4.0)
    assert shared_gain((4, whole), (4, whole), lossless) == pytest.approx(0.0)
    assert shared_gain((1, whole), (4, half), lossless) == pytest.approx(2 / 3 - 4 / 3)
    assert shared_gain((1, half), (4, GpuUse(0.0, 0.6)), FAIR) == -np.inf
    problem = Pairing.of([4, 1, 4], [half, whole, half], lossless)
    assert problem.kind.tolist() == [0, 1, 0]
    assert best_pairs(problem).choice == ((0, 2),)


def test_the_published_order_takes_the_least_busy_first() -> None:
    """Whatever it gains: the third beside the first, as the second does not fit."""
    problem = Pairing.of([1, 1, 1], [GpuUse(0.2, 0.4), GpuUse(0.3, 0.7), GpuUse(1.0, 0.6)], FAIR)
    assert first_pairs(problem, [0, 1, 2]) == ((0, 2),)


def test_out_of_time_there_is_still_a_bound() -> None:
    """Data, no exception."""
    problem = drawn(1, 200, 200)
    found = best_pairs(problem, stop=Stop(seconds=1e-6))
    assert found.total <= best_pairs(problem).total <= found.bound
    assert found.limit is not None


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([(0, 0)], "Job 0 is paired twice"),
        ([(0, 1), (1, 2)], "Job 1 is paired twice"),
        ([(0, 3)], "Job 3 is paired; expected 0 to 2"),
        ([(0, 2)], "Jobs 0 and 2 are paired; they cannot share a GPU"),
    ],
)
def test_wrong_pairings_have_no_price(pairs: list[tuple[int, int]], complaint: str) -> None:
    """The checker says what is wrong."""
    problem = Pairing(np.array([0, 0, 1]), np.array([[1.0, -np.inf], [-np.inf, 1.0]]))
    with pytest.raises(ValueError, match=complaint):
        total_gain(problem, pairs)


@pytest.mark.parametrize(
    ("kind", "gain", "complaint"),
    [
        ([0], [[1.0, 2.0]], "gain has shape"),
        ([0], [[np.nan]], "gain is nan"),
        ([0], [[np.inf]], "gain is inf"),
        ([0, 1], [[0.0, 1.0], [2.0, 0.0]], "expected the same either way"),
        ([1], [[0.0]], "kind is 1; expected 0 to 0"),
        ([-1], [[0.0]], "kind is -1"),
        ([], [[0.0]], "expected the kind of every job, at least one"),
        ([0.5], [[0.0]], "expected the kind of every job"),
    ],
)
def test_problems_that_make_no_sense_are_refused(kind: Any, gain: Any, complaint: str) -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match=complaint):
        Pairing(kind, gain)


@pytest.mark.parametrize("seed", range(2))
def test_the_fast_method_finds_what_the_whole_program_finds(seed: int) -> None:
    """Where no two jobs are alike."""
    random, stop = np.random.default_rng(seed), Stop(seconds=60.0)
    loads = zip(random.uniform(0.2, 1.0, 24), random.uniform(0.1, 0.9, 24), strict=True)
    uses = [GpuUse(float(busy), float(memory)) for busy, memory in loads]
    problem = Pairing.of(random.choice((1, 1, 2, 4, 8), 24).tolist(), uses, FAIR)
    pairs, program = best_pairs(problem, stop=stop), build_pairing_program(problem).program
    assert program is not None
    whole = run_mixed_integer(program, Watch(stop), gap=stop.gap * pairs.total)
    assert pairs.total == pytest.approx(-whole.objective)
