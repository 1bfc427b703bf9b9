"""Fits of the throughput model: against the published procedure, against laws, on bad data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.experiments.benchmarks.fitting import (
    draw_jobs,
    drawn_tables,
    measured_tables,
    published_fit,
    published_loss,
)
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import (
    FitOptions,
    Observations,
    pad_observations,
    pad_problem,
    settings_of,
    state_problem,
    usable_observations,
)
from tests.support.few import few

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.fitting.fit import Fit
    from goodalloc.models.support.array_types import Floats


LEAST = 1e-8

# Batched elimination and SciPy stop at slightly different points of a flat minimum.
LOSS_TOLERANCE = 1e-6


def everything(fit: Fit) -> Floats:
    """All numbers of a fit in one array of shape (numbers, jobs)."""
    return np.array([*fit.parameters, fit.loss, *fit.gradient_error, *fit.step_error])


def fit_one(rows: list[list[float]], options: FitOptions | None = None) -> list[float]:
    """Fitted parameters of one job, by name in the order of the model."""
    fit = fit_throughput(pad_observations([rows]), options)
    return [float(np.asarray(value)[0]) for value in fit.parameters]


def check_against_published(tables: list[Floats]) -> None:
    """Assert that no loss is above that of the published procedure."""
    fit = fit_throughput(pad_observations(tables))
    published = np.array([published_fit(table)[1] for table in tables])
    assert np.isfinite(everything(fit)).all()
    assert (fit.loss <= published + LOSS_TOLERANCE).all(), np.max(fit.loss - published)


@pytest.mark.parametrize("observations", few([5, 1, 2, 10], 1))
def test_measured_jobs_fit_no_worse_than_published(reference: Path, observations: int) -> None:
    """Subsets of the measurements of every application, as an agent would have seen them."""
    generator = np.random.default_rng(observations)
    check_against_published(draw_jobs(measured_tables(reference), 24, observations, generator))


@pytest.mark.slow
def test_all_measurements_fit_no_worse_than_published(reference: Path) -> None:
    """All measurements of every application at once."""
    check_against_published(measured_tables(reference))


@pytest.mark.parametrize("observations", few([3, 1, 8], 1))
def test_drawn_jobs_fit_no_worse_than_published(observations: int) -> None:
    """Noisy times drawn from the shipped profiles."""
    generator = np.random.default_rng(observations)
    check_against_published(draw_jobs(drawn_tables(generator), 24, observations, generator))


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_fits_are_no_worse_than_published_in_other_units(scale: float) -> None:
    """Times far from the published start (0.1 s)."""
    generator = np.random.default_rng(0)
    tables = draw_jobs(drawn_tables(generator), 24, 5, generator)
    check_against_published([table * np.array([1.0, 1.0, 1.0, scale, scale]) for table in tables])


def test_published_gradient_agrees_with_differences() -> None:
    """The oracle's own gradient is the derivative of its loss."""
    table = drawn_tables(np.random.default_rng(0))[0][:20]
    point = np.array([0.1, 0.02, 0.3, 0.05, 0.7, 0.08, 1.7])
    _, slope = published_loss(point, table)
    for index, step in enumerate(1e-6 * np.eye(7)):
        rise = published_loss(point + step, table)[0] - published_loss(point - step, table)[0]
        assert rise / 2e-6 == pytest.approx(slope[index], rel=1e-5, abs=1e-7)


@given(
    logarithms=st.lists(st.floats(-8.0, 2.0), min_size=6, max_size=6),
    gamma=st.floats(1.0, 10.0),
    seed=st.integers(0, 1000),
)
@settings(max_examples=10)
def test_the_loss_is_the_published_one(logarithms: list[float], gamma: float, seed: int) -> None:
    """Our loss equals the published formula written out in NumPy."""
    import jax

    from goodalloc.models.fitting.search import fitting_loss

    generator = np.random.default_rng(seed)
    tables = draw_jobs(drawn_tables(generator, 50), 1, 5, generator)
    problem, _ = state_problem(usable_observations(pad_observations(tables)), FitOptions())
    point = np.array([*logarithms, gamma])
    with jax.enable_x64(True):
        single = type(problem)(*(jax.numpy.asarray(leaf[0]) for leaf in problem))
        loss = float(jax.jit(fitting_loss)(point, single, settings_of(FitOptions())))
    expected, _ = published_loss(np.append(np.exp(point[:-1]), gamma), tables[0])
    assert loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("index", range(6))
def test_times_without_noise_are_recovered(index: int) -> None:
    """Where the model is exact, predictions are near and the loss is at most that of the truth."""
    from goodalloc.data.applications.profiles import application_names, load_profile
    from goodalloc.models.goodput.throughput_model import gradient_time, step_time

    truth = load_profile(application_names()[index]).throughput
    table = drawn_tables(np.random.default_rng(1), 8)[index]  # a shape that others have
    nodes, replicas, atomic, *_ = table.T
    table[:, 3] = gradient_time(truth, atomic)
    table[:, 4] = step_time(truth, nodes, replicas, atomic, 0.0)
    fit = fit_throughput(pad_observations([table]))
    assert fit.loss[0] <= published_loss(np.array(truth, dtype=float), table)[0] + LOSS_TOLERANCE
    assert fit.gradient_error.mean[0] < 1e-3
    assert fit.step_error.mean[0] < 1e-2


@pytest.mark.gpu("jax")
@pytest.mark.parametrize("jobs", [1, 200])
def test_a_gpu_recovers_times_without_noise(jobs: int) -> None:
    """As many fits side by side as there are lanes, or one."""
    rows = [[1, k, m, 0.02 + 1e-3 * m, 0.03 + 1e-3 * m] for k in (1, 2, 4) for m in (8, 32, 64)]
    fit = fit_throughput(pad_observations([np.array(rows, dtype=float)] * jobs))
    assert fit.converged.all()
    np.testing.assert_allclose(fit.parameters.beta_grad, 1e-3, rtol=0.1)


def test_one_batch_size_fixes_alpha_at_half_the_mean() -> None:
    """With a single atomic batch size, compute time is split evenly."""
    alpha, beta, *_ = fit_one([[1, 1, 8, 0.2, 0.2], [1, 2, 8, 0.2, 0.3]])
    assert alpha == pytest.approx(0.1, rel=1e-12)
    assert beta == pytest.approx(0.1 / 8, rel=1e-3)


def test_nothing_but_one_gpu_prices_synchronisation_as_free() -> None:
    """Unseen synchronisation is at its least, several nodes just above one."""
    found = fit_one([[1, 1, 8, 0.2, 0.2], [1, 1, 16, 0.3, 0.3]])
    assert found[2:6] == pytest.approx([LEAST, LEAST, 1.1 * LEAST, 1.1 * LEAST], rel=1e-9)


def test_unseen_nodes_cost_a_little_more_than_one_node() -> None:
    """Without several nodes, they are priced at 1.1 times one node."""
    found = fit_one([[1, 2, 8, 0.2, 0.3], [1, 3, 16, 0.3, 0.5], [1, 4, 16, 0.3, 0.6]])
    assert found[4:6] == pytest.approx([1.1 * found[2], 1.1 * found[3]], rel=1e-12)


def test_seen_nodes_may_be_cheaper_than_one_node() -> None:
    """Once several nodes were seen their price is what was measured."""
    found = fit_one([[1, 2, 8, 0.2, 0.9], [1, 2, 16, 0.3, 1.0], [2, 2, 16, 0.3, 0.4]])
    assert found[4] < found[2]


def test_unseen_synchronisation_on_one_node_is_free() -> None:
    """Without several replicas on one node, its synchronisation is at its least."""
    found = fit_one([[2, 2, 8, 0.2, 0.9], [2, 4, 16, 0.3, 1.5]])
    assert found[2:4] == pytest.approx([LEAST, LEAST], rel=1e-9)
    assert found[4] > 0.1


def test_two_replicas_do_not_tell_how_synchronisation_grows() -> None:
    """Without more than two replicas both slopes are at their least."""
    found = fit_one([[1, 2, 8, 0.2, 0.4], [2, 2, 16, 0.3, 1.5]])
    assert [found[3], found[5]] == pytest.approx([LEAST, LEAST], rel=1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        [1, 1, 8, np.nan, 1.0],  # a clock that failed
        [1, 2, 8, 0.1, np.inf],  # a step that never ended
        [1, 2, 8, 0.0, 0.1],  # no time at all
        [1, 2, 8, -0.1, 0.1],
        [0, 0, 0, 0.1, 0.1],  # a job that held nothing
        [1, 2, np.nan, 0.1, 0.1],
    ],
)
def test_unusable_observations_are_left_out(bad: list[float]) -> None:
    """A broken observation changes nothing."""
    good = [[1, 1, 8, 0.2, 0.2], [1, 2, 16, 0.3, 0.4], [2, 4, 16, 0.3, 0.9]]
    assert fit_one([*good, bad]) == pytest.approx(fit_one(good), rel=1e-9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 1, 8, np.nan, 1.0]], r"job 1: no usable observation among 1; expected one or more\."),
        ([[2, 1, 8, 1.0, 1.0]], r"job 1, observation 0: 1 replicas on 2 nodes; expected .*\."),
        ([[1, 1.5, 8, 1.0, 1.0]], r"job 1, observation 0: 1\.5 replicas on 1 nodes; .*\."),
    ],
)
def test_senseless_jobs_are_refused(rows: list[list[float]], message: str) -> None:
    """The refusal is one sentence that names the job."""
    with pytest.raises(ValueError, match=message):
        fit_throughput(pad_observations([[[1, 1, 8, 1.0, 1.0]], rows]))


def test_differing_shapes_are_refused() -> None:
    """Arrays that do not match, or tables that are none."""
    with pytest.raises(ValueError, match="observations have shapes"):
        fit_throughput(Observations._make([*[np.ones((1, 2))] * 4, np.ones((1, 3)), True]))
    with pytest.raises(ValueError, match=r"job 0: observations of shape \(2,\)"):
        pad_observations([[1.0, 2.0]])


@pytest.mark.parametrize(
    "change",
    [
        {"gamma_weight": -1.0},
        {"least_time": 0.0},
        {"gamma_maximum": 0.5},
        {"iterations": 0},
        {"start_alpha": float("nan")},
    ],
)
def test_senseless_options_are_refused(change: dict[str, float]) -> None:
    """The refusal names the option."""
    with pytest.raises(ValueError, match=f"fit options: {next(iter(change))}"):
        replace(FitOptions(), **change)  # type: ignore[arg-type]


def test_no_jobs_give_an_empty_fit() -> None:
    """A scheduler without jobs need not ask first."""
    assert everything(fit_throughput(pad_observations([]))).shape == (12, 0)


times = st.floats(1e-30, 1e30) | st.floats(1e-6, 1e3)


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 8), st.integers(0, 60), times, times, times),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=40)
def test_every_fit_is_finite_and_within_bounds(
    jobs: list[list[tuple[int, int, float, float, float]]],
) -> None:
    """Whatever the times, even absurd ones, the result is finite and the search ends."""
    tables = [[[nodes, nodes + more, *rest] for nodes, more, *rest in rows] for rows in jobs]
    fit = fit_throughput(pad_observations(tables))
    assert np.isfinite(everything(fit)).all()
    assert (np.stack(fit.parameters[:-1]) > 0.0).all()
    gamma = np.asarray(fit.parameters.gamma)
    assert ((gamma >= 1.0) & (gamma <= 10.0)).all()
    assert (fit.iterations <= FitOptions().iterations).all()


def test_zero_synchronisation_fits() -> None:
    """Steps that take no longer than their computation leave no synchronisation."""
    fit = fit_throughput(pad_observations([[[1, 2, 8, 0.1, 0.1], [2, 4, 16, 0.2, 0.2]]]))
    assert fit.step_error.mean[0] < 1e-3
    assert np.stack(fit.parameters)[2:6].max() < 1e-4


def test_a_fit_does_not_depend_on_its_company() -> None:
    """A job fitted alone, among others and in another order gets the same loss."""
    generator = np.random.default_rng(3)
    tables = draw_jobs(drawn_tables(generator), 60, 5, generator)
    together = fit_throughput(pad_observations(tables)).loss
    reverse = fit_throughput(pad_observations(tables[::-1])).loss[::-1]
    alone = [fit_throughput(pad_observations([table])).loss[0] for table in tables[:5]]
    assert reverse == pytest.approx(together, abs=1e-9)
    assert alone == pytest.approx(together[:5].tolist(), abs=1e-9)


def test_one_more_job_or_observation_keeps_the_compiled_shapes() -> None:
    """Few padded shapes exist, so that a growing workload seldom compiles."""

    def shapes(jobs: int, observations: int) -> list[tuple[int, ...]]:
        ones = Observations._make([*[np.ones((jobs, observations))] * 5, True])
        problem, _ = state_problem(usable_observations(ones), FitOptions())
        return [leaf.shape for leaf in pad_problem(problem)]

    assert shapes(40, 5) == shapes(41, 5) == shapes(40, 6) == shapes(64, 8)
    assert shapes(65, 9) == shapes(256, 16) != shapes(64, 8)


def test_results_are_float64_while_jax_is_not() -> None:
    """Double precision is ours to switch on; the global setting stays as it was."""
    import jax.numpy as jnp

    fit = fit_throughput(pad_observations([[[1, 1, 8, 0.2, 0.2]]]))
    assert {np.asarray(value).dtype for value in (*fit.parameters, fit.loss)} == {np.dtype(float)}
    assert jnp.ones(1).dtype == np.dtype("float32")


def test_options_change_the_fit() -> None:
    """A strong prior holds gamma at 1, a bound holds it below its maximum."""
    generator = np.random.default_rng(0)
    table = drawn_tables(generator)[3][:8].tolist()
    assert fit_one(table)[-1] > 1.5
    assert fit_one(table, FitOptions(gamma_weight=1e6))[-1] == pytest.approx(1.0, abs=1e-5)
    assert fit_one(table, FitOptions(gamma_maximum=1.25))[-1] == pytest.approx(1.25, abs=1e-6)


def test_a_search_cut_short_says_so() -> None:
    """Convergence is reported as data."""
    rows = [[[1, 1, 8, 0.2, 0.2], [1, 2, 16, 0.3, 0.4], [2, 4, 16, 0.3, 0.9]]]
    short = fit_throughput(pad_observations(rows), FitOptions(iterations=2))
    full = fit_throughput(pad_observations(rows))
    assert (short.iterations[0], short.converged[0], full.converged[0]) == (2, False, True)
    assert full.loss[0] < short.loss[0]
