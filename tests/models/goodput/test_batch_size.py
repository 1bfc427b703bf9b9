"""Tests of the best batch size: against the published search and against full enumeration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.experiments.benchmarks.goodput import sample_allocations
from goodalloc.models.goodput.allocation_arrays import prepare_lanes
from goodalloc.models.goodput.batch_integer import find_optimum
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.chunked import CPU_CHUNK
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, goodput
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

    from goodalloc.models.goodput.allocation_arrays import BatchSize
    from goodalloc.models.goodput.chunked import Search
    from goodalloc.models.support.array_types import Array

MODEL = GoodputModel(
    ThroughputParameters(0.1, 0.01, 0.05, 0.002, 0.2, 0.005, 2.0),
    GradientStatistics(square=1.0, variance=20.0),
    BatchLimits(initial=128, maximum=4096, atomic_minimum=16, atomic_maximum=256),
)

ROUNDING = 1e-12
"""Relative difference of goodputs that rounding alone may cause."""


def published_batch(
    model: GoodputModel, nodes: int, replicas: int, points: int = 50
) -> tuple[float, int, int]:
    """The published search in plain Python: (goodput, m, s), zeros where nothing is valid."""
    limits = model.batch
    best = (0.0, 0, 0)
    first = max(limits.initial, limits.atomic_minimum * replicas)
    for batch in np.geomspace(first, limits.maximum, points):
        local = batch / replicas
        steps = 0
        if limits.accumulation:
            steps = math.ceil(local / limits.atomic_maximum - 1e-8) - 1
            if replicas == 1 and local > limits.initial + 1e-8:
                steps = max(steps, 1)
        atomic = math.ceil(local / (steps + 1) - 1e-8)
        if limits.atomic_minimum <= atomic <= limits.atomic_maximum:
            value = float(goodput(model, nodes, replicas, atomic, steps))
            if value > best[0]:
                best = (value, atomic, steps)
    return best


def most_passes(limits: BatchLimits, replicas: int) -> int:
    """Passes of the published search at the largest total batch."""
    if not limits.accumulation:
        return 1
    passes = -(-limits.maximum // (replicas * limits.atomic_maximum))
    alone = replicas == 1 and limits.maximum > limits.initial
    return int(max(passes, 2 if alone else 1))


def feasible_table(limits: BatchLimits, replicas: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All m against all s, and which pairs are feasible: the definition, pair by pair."""
    top = most_passes(limits, replicas)
    last = limits.maximum // (replicas * limits.atomic_minimum) if limits.accumulation else 1
    atomic, passes = np.meshgrid(
        np.arange(int(limits.atomic_minimum), int(limits.atomic_maximum) + 1),
        np.arange(1, int(max(top, last)) + 1),
    )
    batch = replicas * passes * atomic
    rounded_up = -(-limits.maximum // (replicas * passes))
    feasible = (batch <= limits.maximum) | ((passes <= top) & (atomic <= rounded_up))
    if replicas * limits.atomic_minimum > limits.maximum:
        feasible = (atomic == limits.atomic_minimum) & (passes == 1)
    feasible &= batch >= limits.initial
    if limits.accumulation and replicas == 1:
        feasible &= (passes > 1) | (batch <= limits.initial)
    return atomic, passes - 1, feasible


def enumerated_goodput(model: GoodputModel, nodes: int, replicas: int) -> float:
    """The best goodput over every feasible (m, s)."""
    if nodes > replicas:
        return 0.0
    atomic, steps, feasible = feasible_table(model.batch, replicas)
    values = goodput(model, nodes, replicas, atomic, steps)
    return float(np.where(feasible, values, 0.0).max())


def random_model(generator: np.random.Generator) -> GoodputModel:
    """A small model, often at the edge of what is allowed."""

    def spread(low: float, high: float, zero: float = 0.0) -> float:
        value = math.exp(generator.uniform(math.log(low), math.log(high)))
        return 0.0 if generator.random() < zero else value

    def pick(*values: int | np.integer[Any]) -> int:
        return int(generator.choice([int(value) for value in values]))

    initial = int(generator.integers(1, 60))
    maximum = initial + pick(0, 1, 5, generator.integers(1, 500))
    minimum = pick(1, generator.integers(1, min(maximum, 20) + 1))
    extra = pick(0, 1, 2, generator.integers(1, 60), generator.integers(1, 600))
    gamma = float(generator.choice([1.0, 10.0, generator.uniform(1.0, 10.0)]))
    times = (
        spread(1e-8, 1.0, zero=0.1),
        spread(1e-6, 0.1),
        spread(1e-4, 10.0, zero=0.2),
        spread(1e-4, 1.0, zero=0.2),
        spread(1e-4, 10.0, zero=0.2),
        spread(1e-4, 1.0, zero=0.2),
    )
    return GoodputModel(
        ThroughputParameters(*times, gamma),
        GradientStatistics(spread(1e-4, 1.0, zero=0.05), spread(1e-4, 1e4, zero=0.1)),
        BatchLimits(initial, maximum, minimum, minimum + extra, bool(generator.random() < 0.8)),
    )


def crowded_model(generator: np.random.Generator) -> GoodputModel:
    """A model that must accumulate, with hardly any whole m to choose from and cheap passes."""
    model = random_model(generator)
    initial = int(generator.integers(1, 60))
    maximum = initial + int(generator.integers(0, 40))
    minimum = int(generator.integers(1, min(3, maximum) + 1))
    limits = BatchLimits(initial, maximum, minimum, minimum + int(generator.integers(0, 4)))
    return model._replace(
        throughput=model.throughput._replace(alpha_grad=model.throughput.alpha_grad * 1e-3),
        batch=limits,
    )


def random_cases(
    count: int, seed: int, draw: Callable[[np.random.Generator], GoodputModel] = random_model
) -> tuple[list[GoodputModel], np.ndarray, np.ndarray]:
    """Random models with a random number of nodes and replicas each."""
    generator = np.random.default_rng(seed)
    models = [draw(generator) for _ in range(count)]
    replicas = generator.choice([1, 1, 2, 3, 4, 7, 8, 16, 33], count)
    nodes = np.where(replicas > 1, generator.integers(1, 3, count), 1)
    return models, nodes, replicas


def assert_optimal(
    found: BatchSize, models: Sequence[GoodputModel], nodes: np.ndarray, replicas: np.ndarray
) -> None:
    """Each goodput is that of a feasible point, and no feasible point has a better one."""
    for index, model in enumerate(models):
        case = (model, int(nodes[index]), int(replicas[index]))
        value, atomic, steps = (part[index] for part in found)
        assert value == pytest.approx(enumerated_goodput(*case), rel=ROUNDING), case
        if value > 0.0:
            every_atomic, every_step, feasible = feasible_table(model.batch, case[2])
            assert feasible[(every_atomic == atomic) & (every_step == steps)].all(), case
            assert value == pytest.approx(goodput(*case, atomic, steps), rel=ROUNDING), case


@st.composite
def cases(draw: st.DrawFn) -> tuple[GoodputModel, int, int]:
    """A small model with an allocation, shrinking towards plain numbers."""
    seconds = st.one_of(st.just(0.0), st.floats(1e-6, 10.0))
    moment = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
    initial = draw(st.integers(1, 40))
    maximum = draw(st.integers(initial, initial + 300))
    minimum = draw(st.integers(1, min(maximum, 20)))
    limits = BatchLimits(
        initial, maximum, minimum, draw(st.integers(minimum, minimum + 100)), draw(st.booleans())
    )
    times = st.tuples(seconds, st.floats(1e-6, 1.0), *[seconds] * 4, st.floats(1.0, 10.0))
    parameters = ThroughputParameters(*draw(times))
    model = GoodputModel(parameters, GradientStatistics(draw(moment), draw(moment)), limits)
    return model, draw(st.integers(1, 2)), draw(st.integers(1, 20))


@settings(max_examples=100)
@given(cases())
def test_no_whole_batch_size_is_better(case: tuple[GoodputModel, int, int]) -> None:
    """The integer search against every feasible (m, s), and never below the published grid."""
    model, nodes, replicas = case
    found = best_batch_size(*case)
    best = enumerated_goodput(*case)
    assert found.goodput == pytest.approx(best, rel=ROUNDING)
    if nodes <= replicas:
        assert found.goodput >= published_batch(model, nodes, replicas)[0] * (1 - ROUNDING)


@settings(max_examples=200)
@given(cases(), st.sampled_from([1, 2, 7, 50]))
def test_the_grid_is_the_published_one(case: tuple[GoodputModel, int, int], points: int) -> None:
    """The same m, s and goodput as the plain Python reference."""
    model, nodes, replicas = case
    found = best_batch_size(*case, search="grid", grid_points=points)
    expected = published_batch(model, nodes, replicas, points) if nodes <= replicas else (0, 0, 0)
    assert found.goodput == pytest.approx(expected[0], rel=ROUNDING)
    if (int(found.atomic), int(found.accumulation_steps)) != expected[1:]:  # a tie up to rounding
        again = goodput(*case, found.atomic, found.accumulation_steps)
        assert again == pytest.approx(expected[0], rel=ROUNDING)


def test_a_thousand_random_models_are_solved_exactly() -> None:
    """Full enumeration of (m, s) over models at the edge of what is allowed."""
    models, nodes, replicas = random_cases(1000, seed=0)
    found = best_batch_size(stack_models(models), nodes, replicas)
    assert_optimal(found, models, nodes, replicas)
    grid = best_batch_size(stack_models(models), nodes, replicas, search="grid")
    assert (found.goodput >= grid.goodput * (1 - ROUNDING)).all()
    assert (found.goodput > grid.goodput * (1 + 1e-6)).any()


def test_whole_numbers_that_reverse_the_order_of_passes_are_found() -> None:
    """Few whole m and cheap passes, so that more passes than in the real optimum may win."""
    models, nodes, replicas = random_cases(1000, seed=0, draw=crowded_model)
    found = best_batch_size(stack_models(models), nodes, replicas)
    assert_optimal(found, models, nodes, replicas)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [random_model, crowded_model])
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_thousands_of_random_models_are_solved_exactly(
    seed: int, draw: Callable[[np.random.Generator], GoodputModel]
) -> None:
    """The same for 5,000 models of each kind and of each of ten seeds."""
    models, nodes, replicas = random_cases(5000, seed, draw)
    found = best_batch_size(stack_models(models), nodes, replicas)
    assert_optimal(found, models, nodes, replicas)


@pytest.mark.parametrize("search", ["integer", "grid"])
def test_jax_finds_what_numpy_finds(search: Search) -> None:
    """Both roads on the random models, with float64 and whole numbers coming back."""
    import jax
    import jax.numpy as jnp

    models, nodes, replicas = random_cases(2000, seed=5)
    stacked = stack_models(models)
    plain = best_batch_size(stacked, nodes, replicas, search=search)
    compiled = best_batch_size(stacked, jnp.asarray(nodes), replicas, search=search)
    assert all(isinstance(part, jax.Array) for part in compiled)
    assert compiled.goodput.dtype == np.float64
    assert compiled.atomic.dtype == np.int64
    np.testing.assert_allclose(compiled.goodput, plain.goodput, rtol=ROUNDING)


def test_the_search_can_be_part_of_a_compiled_function() -> None:
    """Inside a jitted and mapped function the result is the same; float32 is refused."""
    import jax
    import jax.numpy as jnp

    replicas = np.arange(1, 9)

    def one(count: jax.Array) -> Array:
        return best_batch_size(MODEL, 1, count).goodput

    with jax.enable_x64(True):
        mapped = np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(replicas)))
    np.testing.assert_allclose(mapped, best_batch_size(MODEL, 1, replicas).goodput, rtol=ROUNDING)
    with pytest.raises(ValueError, match="traced in float32"):
        jax.jit(one)(4)


def test_more_allocations_than_a_chunk_change_nothing() -> None:
    """Chunks of one size, the last one partly filled, and arguments that broadcast."""
    replicas = np.arange(1, CPU_CHUNK + 100).reshape(1, -1)
    stacked = stack_models([MODEL, MODEL._replace(gradient=GradientStatistics(0.0, 1.0))])
    columns = GoodputModel(
        ThroughputParameters(*(np.reshape(leaf, (2, 1)) for leaf in stacked.throughput)),
        GradientStatistics(*(np.reshape(leaf, (2, 1)) for leaf in stacked.gradient)),
        MODEL.batch,
    )
    whole = best_batch_size(columns, 2, replicas)
    assert whole.goodput.shape == (2, replicas.size)
    part = best_batch_size(columns, 2, replicas[:, -5:])
    np.testing.assert_array_equal(whole.goodput[:, -5:], part.goodput)


def test_visiting_all_points_of_the_grid_at_once_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few allocations are searched point by point or all points at once, to the same bits."""
    replicas = np.arange(1, 65)
    nodes = 1 + (replicas > 4)
    at_once = best_batch_size(MODEL, nodes, replicas, "grid")
    monkeypatch.setattr("goodalloc.models.goodput.batch_grid.AT_ONCE", 0)
    one_by_one = best_batch_size(MODEL, nodes, replicas, "grid")
    for found, expected in zip(at_once, one_by_one, strict=True):
        assert np.array_equal(found, expected)


def test_rounding_up_may_pass_the_largest_batch() -> None:
    """Trap (i): three replicas and M_max = 100 run at m = 34, that is 102 examples."""
    limits = BatchLimits(10, 100, 1, 100)
    model = MODEL._replace(gradient=GradientStatistics(0.0, 1.0), batch=limits)
    for search in ("integer", "grid"):
        assert best_batch_size(model, 1, 3, search=search).atomic == 34


def test_too_many_replicas_run_at_their_least_batch() -> None:
    """Trap (ii): K m_min > M_max leaves m_min alone, at a total batch above M_max."""
    model = MODEL._replace(batch=BatchLimits(10, 100, 30, 60))
    for search in ("integer", "grid"):
        found = best_batch_size(model, 1, 4, search=search)
        assert (int(found.atomic), int(found.accumulation_steps)) == (30, 0)
        assert found.goodput == pytest.approx(goodput(model, 1, 4, 30, 0))


def test_one_replica_needs_two_passes_to_leave_the_initial_batch() -> None:
    """One replica runs M0 in one pass and anything larger in two or more, if it may accumulate."""
    noisy = MODEL._replace(gradient=GradientStatistics(0.0, 1.0))
    for search in ("integer", "grid"):
        assert best_batch_size(noisy, 1, 1, search=search).accumulation_steps >= 1
        quiet = best_batch_size(MODEL._replace(gradient=GradientStatistics(1.0, 0.0)), 1, 1, search)
        assert (int(quiet.atomic), int(quiet.accumulation_steps)) == (128, 0)
        single = noisy._replace(batch=noisy.batch._replace(accumulation=False))
        assert best_batch_size(single, 1, 1, search=search).atomic > 128


def test_nothing_feasible_yields_nothing() -> None:
    """M0 out of reach without accumulation, no replica, or more nodes than replicas."""
    small = MODEL._replace(batch=BatchLimits(1000, 1000, 1, 100, accumulation=False))
    for search in ("integer", "grid"):
        assert [*map(float, best_batch_size(small, 1, 2, search=search))] == [0.0, 0, 0]
        assert [*map(float, best_batch_size(MODEL, 1, 0, search=search))] == [0.0, 0, 0]
        assert [*map(float, best_batch_size(MODEL, 2, 1, search=search))] == [0.0, 0, 0]


def test_ties_go_to_the_fewest_passes_and_the_smallest_batch() -> None:
    """Where neither time nor noise depends on the batch, the smallest wins."""
    constant = ThroughputParameters(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    model = MODEL._replace(throughput=constant, gradient=GradientStatistics(1.0, 0.0))
    found = best_batch_size(model, 1, 2)
    assert (int(found.atomic), int(found.accumulation_steps)) == (64, 0)


def test_exactness_takes_far_fewer_evaluations_than_the_grid() -> None:
    """Under 50 evaluations of the step time for every allocation, under 10 on average."""
    visits = find_optimum(prepare_lanes(*sample_allocations(20_000, seed=0))).visits
    assert visits.mean() < 10
    assert visits.max() < 50
    models, nodes, replicas = random_cases(3000, seed=0)
    wide = [np.array(leaf, dtype=float) for leaf in leaves(stack_models(models))]
    hard = GoodputModel(
        ThroughputParameters(*wide[:7]), GradientStatistics(*wide[7:9]), BatchLimits(*wide[9:])
    )
    visits = find_optimum(prepare_lanes(hard, nodes.astype(float), replicas.astype(float))).visits
    assert visits.mean() < 10
    assert np.percentile(visits, 99.9) < 50


def test_an_unknown_search_is_refused() -> None:
    """One sentence that names what was asked and what is on offer."""
    with pytest.raises(ValueError, match="search is 'best'; expected 'integer' or 'grid'"):
        best_batch_size(MODEL, 1, 1, search="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="grid_points is 0; expected 1 or more"):
        best_batch_size(MODEL, 1, 1, search="grid", grid_points=0)


def test_numpy_arrays_are_searched_without_loading_jax(
    run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """A small instance on the command line pays neither for jax nor for a compilation."""
    script = """
import sys
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.speedup import goodput_table, stack_models
from goodalloc.models.goodput.throughput_model import ThroughputParameters

model = GoodputModel(
    ThroughputParameters(0.1, 0.01, 0.05, 0.002, 0.2, 0.005, 2.0),
    GradientStatistics(1.0, 20.0),
    BatchLimits(128, 4096, 16, 256),
)
for search in ("integer", "grid"):
    assert goodput_table(stack_models([model]), 8, search=search, backend="numpy")[0, 0, 8] > 0
assert "jax" not in sys.modules
"""
    done = run_python("-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
