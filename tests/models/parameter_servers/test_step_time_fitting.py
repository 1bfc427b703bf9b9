"""Fitting the step time of parameter servers: what is recovered, laws, designs, what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.slowdown import CoreEfficiency
from goodalloc.models.parameter_servers.step_time import (
    PsStepTime,
    StepTimeCoefficients,
    optimus_terms,
    seconds_per_step,
    step_time_loads,
)
from goodalloc.models.parameter_servers.step_time_fitting import (
    default_terms,
    design_points,
    fit_step_time,
)
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm

if TYPE_CHECKING:
    from collections.abc import Callable

GRID = PsConfiguration(*(side.ravel() for side in np.mgrid[1:13, 1:13]))

FORMS = (
    StepTimeForm(),
    StepTimeForm(update_load="averaged"),
    StepTimeForm(synchronous=False),
    StepTimeForm(synchronous=False, update_load="averaged"),
)
forms = st.sampled_from(FORMS)
theta = st.lists(st.floats(0.01, 5.0), min_size=6, max_size=6)
seeds = st.integers(0, 10_000)


def made(form: StepTimeForm, values: list[float]) -> PsStepTime:
    """A step time with these coefficients, of those that the form's fit tells apart."""
    terms = default_terms(form)
    return PsStepTime(
        StepTimeCoefficients(**dict(zip(terms, values[: len(terms)], strict=True))), form
    )


@given(forms, theta, seeds)
def test_coefficients_are_recovered_from_a_few_points(
    form: StepTimeForm, values: list[float], seed: int
) -> None:
    """Ten configurations of different ratios, without noise."""
    truth = made(form, values)
    points = PsConfiguration(
        np.array([1, 12, 1, 12, 3, 5, 2, 7, 4, 1]), np.array([1, 1, 12, 12, 8, 2, 5, 7, 11, 4])
    )
    order = np.random.default_rng(seed).permutation(10)
    points = points.take(order)
    fit = fit_step_time(form, points, 64, seconds_per_step(truth, points, 64))
    assert fit.parameters.coefficients == pytest.approx(truth.coefficients, rel=1e-5, abs=1e-6)
    assert np.abs(fit.relative_errors).max() < 1e-8


def noisy(truth: PsStepTime, points: PsConfiguration, seed: int) -> Any:
    """Measured steps, 5 % off."""
    noise = np.random.default_rng(seed).normal(0.0, 0.05, np.size(points.servers))
    return seconds_per_step(truth, points, 64) * np.exp(noise)


@given(forms, theta, seeds)
def test_no_other_coefficients_fit_better(
    form: StepTimeForm, values: list[float], seed: int
) -> None:
    """The mean squared relative error is least, none is negative, and the errors are stated."""
    seconds = noisy(made(form, values), GRID, seed)
    fit = fit_step_time(form, GRID, 64, seconds)
    found = np.array(fit.parameters.coefficients)
    predicted = seconds_per_step(fit.parameters, GRID, 64)
    assert fit.relative_errors == pytest.approx(predicted / seconds - 1.0, abs=1e-12)
    assert (found >= 0).all()
    least = np.square(fit.relative_errors).mean()
    generator = np.random.default_rng(seed)
    for _ in range(5):
        other = found * generator.uniform(0.9, 1.1, 7)
        error = step_time_loads(form, GRID, 64).matrix @ other / seconds - 1.0
        assert np.square(error).mean() >= least - 1e-12


@given(forms, theta, seeds, st.floats(1e-3, 1e3))
def test_slower_measurements_give_larger_coefficients(
    form: StepTimeForm, values: list[float], seed: int, factor: float
) -> None:
    """All times over so much, all coefficients over so much; the errors stay."""
    seconds = noisy(made(form, values), GRID, seed)
    fit, scaled = (fit_step_time(form, GRID, 64, times) for times in (seconds, factor * seconds))
    assert np.array(scaled.parameters.coefficients) == pytest.approx(
        factor * np.array(fit.parameters.coefficients), rel=1e-6, abs=1e-9 * factor
    )
    assert scaled.relative_errors == pytest.approx(fit.relative_errors, abs=1e-9)


@given(theta, seeds, st.floats(3.0, 100.0))
def test_a_run_that_was_held_up_hardly_counts(
    values: list[float], seed: int, factor: float
) -> None:
    """One of 20 takes far too long: being relative, its error is at most 1."""
    form = StepTimeForm(update_load="averaged")
    truth, generator = made(form, values), np.random.default_rng(seed)
    points = GRID.take(generator.choice(144, 20, replace=False))
    seconds = seconds_per_step(truth, points, 64)
    seconds[0] *= factor
    fit = fit_step_time(form, points, 64, seconds)
    assert np.median(np.abs(fit.relative_errors)) < 0.12


def test_server_cores_tell_the_update_from_the_transfer() -> None:
    """With equal cores both are w / p; with other cores the update has a load of its own."""
    form = StepTimeForm(server_cores=CoreEfficiency(1.0, 0.9, 0.5))
    truth = PsStepTime(StepTimeCoefficients(0.1, 0.2, 0.3, 0.4, 0.05, 0.06), form)
    points = GRID._replace(server_cores=1.0 + np.arange(144) % 5)
    terms = (*optimus_terms(synchronous=True), "update")
    fit = fit_step_time(form, points, 64, seconds_per_step(truth, points, 64), terms)
    assert fit.parameters.coefficients == pytest.approx(truth.coefficients, rel=1e-6)


def test_terms_that_are_not_fitted_are_zero() -> None:
    """Here all but two."""
    truth = PsStepTime(StepTimeCoefficients(compute=2.0, transfer=1.0))
    seconds = seconds_per_step(truth, GRID, 64)
    fit = fit_step_time(StepTimeForm(), GRID, 64, seconds, ("transfer", "compute"))
    assert fit.parameters.coefficients == pytest.approx(truth.coefficients)


def test_equal_numbers_of_servers_and_workers_tell_little() -> None:
    """With p = w the load w / p is a constant; the design, of as many points, tells it apart."""
    form = StepTimeForm()
    truth = made(form, [0.02, 0.3, 0.8, 0.02, 0.01, 0.0])
    equal = PsConfiguration(np.arange(1, 11), np.arange(1, 11))
    points = GRID.take(design_points(form, GRID, 64, 10))
    worst = []
    for chosen in (equal, points):
        fit = fit_step_time(form, chosen, 64, noisy(truth, chosen, 0))
        error = seconds_per_step(fit.parameters, GRID, 64) / seconds_per_step(truth, GRID, 64) - 1
        worst.append(np.percentile(np.abs(error), 90))
    assert worst[0] > 0.3
    assert worst[1] < 0.1


@given(forms, st.integers(1, 30), seeds)
def test_a_design_is_of_different_candidates_and_grows_point_by_point(
    form: StepTimeForm, points: int, seed: int
) -> None:
    """Nothing is random; the first so many of a larger design are the smaller one."""
    some = GRID.take(np.random.default_rng(seed).choice(144, 30, replace=False))
    design = design_points(form, some, 64, points)
    assert len(set(design.tolist())) == points
    assert design.tolist() == design_points(form, some, 64, 30)[:points].tolist()


@given(forms)
def test_as_many_points_as_coefficients_tell_them_apart(form: StepTimeForm) -> None:
    """The loads of the first points of a design are of full rank."""
    terms = default_terms(form)
    chosen = GRID.take(design_points(form, GRID, 64, len(terms)))
    columns = [StepTimeCoefficients._fields.index(term) for term in terms]
    matrix = step_time_loads(form, chosen, 64).matrix[:, columns]
    assert np.linalg.matrix_rank(matrix / matrix.max(axis=0), tol=1e-3) == len(terms)


def fit(points: int = 10, form: StepTimeForm = FORMS[0], **changes: Any) -> object:
    """A good fit but for the changes."""
    some = GRID.take(np.arange(points) * 13 % 144)
    given: dict[str, Any] = {"configuration": some, "batch_size": 64, "seconds": np.ones(points)}
    return fit_step_time(form, **(given | changes))


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: fit(4), r"4 measurements; expected at least 5 for per_example, compute, transfer"),
    (lambda: fit(5, FORMS[1]), r"5 measurements; expected at least 6 for .*update"),
    (lambda: fit(3, FORMS[2]), r"3 measurements; expected at least 4 for compute, transfer"),
    (lambda: fit(terms=()), r"no terms; expected at least one"),
    (lambda: fit(terms=("speed",)), r"term is 'speed'; expected one of per_example"),
    (
        lambda: fit(seconds=np.zeros(10)),
        r"Fit\[0\]: seconds is 0.0; expected a finite number above",
    ),
    (lambda: fit(seconds=np.full(10, math.nan)), r"seconds is nan"),
    (lambda: fit(seconds=-np.ones(10)), r"seconds is -1.0"),
    (lambda: fit(seconds=["slow"] * 10), r"seconds is \['slow', .*expected a finite number"),
    (lambda: fit(seconds=np.ones(9)), r"seconds have shape \(9,\); expected \(10,\)"),
    (lambda: fit(seconds=1.0), r"seconds have shape \(\)"),
    (lambda: fit(batch_size=-64), r"batch_size is -64"),
    (lambda: fit(bandwidth=0), r"bandwidth is 0"),
    (lambda: fit(configuration=PsConfiguration(1, 2)), r"configurations have shape \(\); expected"),
    (
        lambda: fit(configuration=PsConfiguration(np.zeros(10), np.zeros(10))),
        r"workers is 0.0; expected a configuration on which the job trains",
    ),
    (
        lambda: fit(configuration=PsConfiguration(np.ones(10), np.ones(10), worker_gpus=0.0)),
        r"expected a configuration on which the job trains",
    ),
    (lambda: fit(configuration=PsConfiguration(np.ones(10), -np.ones(10))), r"workers is -1.0"),
    (lambda: fit(terms=("gpu",)), r"all coefficients but gpu are 0"),
    (lambda: design_points(FORMS[0], GRID, 64, 0), r"points is 0; expected an integer of at least"),
    (lambda: design_points(FORMS[0], GRID, 64, 145), r"points is 145; .* at most 144"),
    (lambda: design_points(FORMS[0], GRID, 0, 10), r"batch_size is 0"),
    (lambda: design_points(FORMS[0], GRID, 64, 10, ["theta"]), r"term is 'theta'"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], object], words: str) -> None:
    """With the item, its value and what was expected."""
    with pytest.raises(ValueError, match=words):
        call()
