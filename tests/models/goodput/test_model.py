"""Tests of goodput and of what a goodput model may hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.goodput.model import LARGEST, BatchLimits, GoodputModel, goodput, validate
from goodalloc.models.goodput.speedup import goodput_table, stack_models
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, efficiency
from goodalloc.models.goodput.throughput_model import ThroughputParameters, throughput

if TYPE_CHECKING:
    from goodalloc.models.goodput.chunked import Search

MODEL = GoodputModel(
    ThroughputParameters(0.1, 0.01, 0.05, 0.002, 0.2, 0.005, 2.0),
    GradientStatistics(square=1.0, variance=20.0),
    BatchLimits(initial=128, maximum=4096, atomic_minimum=16, atomic_maximum=256),
)


def test_goodput_is_throughput_times_efficiency() -> None:
    """The definition, at one point."""
    expected = throughput(MODEL.throughput, 2, 8, 32, 1) * efficiency(MODEL.gradient, 128, 512)
    assert goodput(MODEL, 2, 8, 32, 1) == pytest.approx(expected, rel=1e-14)


def test_impossible_allocations_yield_nothing() -> None:
    """No replica at all, or more nodes than replicas."""
    assert goodput(MODEL, 1, 0, 32, 0) == 0.0
    assert goodput(MODEL, 2, 1, 32, 0) == 0.0


def test_a_stack_of_models_is_each_of_them() -> None:
    """Stacked models give per job what each gives alone."""
    other = MODEL._replace(gradient=GradientStatistics(0.0, 1.0))
    together = goodput(stack_models([MODEL, other]), 1, 4, 64, 0)
    assert together.shape == (2,)
    assert together[1] == pytest.approx(goodput(other, 1, 4, 64, 0), rel=1e-15)


def test_a_sound_model_passes_unchanged() -> None:
    """Validation hands back what it was given, alone or stacked."""
    assert validate(MODEL) is MODEL
    stacked = stack_models([MODEL, MODEL])
    assert validate(stacked) is stacked


@pytest.mark.parametrize(
    ("group", "field", "value", "sentence"),
    [
        ("throughput", "alpha_grad", math.nan, "alpha_grad is nan; expected a finite number."),
        ("throughput", "beta_node", -0.5, "beta_node is -0.5; expected 0 or more."),
        ("throughput", "gamma", 0.5, "gamma is 0.5; expected 1 or more."),
        ("throughput", "gamma", math.inf, "gamma is inf; expected a finite number."),
        ("throughput", "alpha_local", "fast", "alpha_local is 'fast'; expected a finite number."),
        ("throughput", "beta_node", 2e9, "beta_node is 2000000000.0; expected at most 1000000000."),
        ("gradient", "variance", 1e101, "variance is 1e+101; expected at most 1e+100."),
        ("batch", "maximum", 2**31, "maximum is 2147483648; expected at most 2147483647."),
        ("gradient", "square", -1.0, "square is -1.0; expected 0 or more."),
        ("gradient", "variance", math.inf, "variance is inf; expected a finite number."),
        ("batch", "initial", 0, "initial is 0; expected a whole number of examples, 1 or more."),
        ("batch", "maximum", 100, "initial is 128; expected at most maximum (100)."),
        ("batch", "atomic_minimum", 2.5, "atomic_minimum is 2.5; expected a whole number"),
        ("batch", "atomic_minimum", 300, "atomic_minimum is 300; expected at most atomic_maximum"),
        ("batch", "accumulation", 2, "accumulation is 2; expected true or false."),
    ],
)
def test_a_senseless_number_is_refused_by_name(
    group: str, field: str, value: object, sentence: str
) -> None:
    """One sentence with the item, its value and what was expected."""
    broken = MODEL._replace(**{group: getattr(MODEL, group)._replace(**{field: value})})
    with pytest.raises(ValueError, match="job 'bert-7'") as caught:
        validate(broken, "job 'bert-7'")
    assert sentence in str(caught.value)


def test_a_pass_that_takes_no_time_is_refused() -> None:
    """Throughput would be infinite, or all but."""
    for seconds in (0.0, 1e-300):
        instant = MODEL.throughput._replace(alpha_grad=seconds, beta_grad=0.0)
        words = rf"alpha_grad \+ beta_grad is {seconds}; expected a positive time, at least 1e-12"
        with pytest.raises(ValueError, match=words):
            validate(MODEL._replace(throughput=instant))


@pytest.mark.parametrize("search", ["integer", "grid"])
def test_the_largest_numbers_do_not_overflow(search: Search) -> None:
    """Any warning of NumPy is an error here; goodput stays a number."""
    time, statistic, batch = LARGEST.values()
    fields = dict.fromkeys(ThroughputParameters._fields, ("throughput", time))
    fields |= dict.fromkeys(GradientStatistics._fields, ("gradient", statistic))
    fields |= dict.fromkeys(("maximum", "atomic_maximum"), ("batch", batch))
    for field, (group, value) in fields.items():
        model = MODEL._replace(**{group: getattr(MODEL, group)._replace(**{field: value})})
        table = goodput_table(stack_models([validate(model)]), 4, search, backend="numpy")
        assert np.isfinite(table).all()


def test_the_culprit_of_a_stack_is_named() -> None:
    """The index of the first model that does not pass."""
    broken = MODEL._replace(throughput=MODEL.throughput._replace(gamma=0.0))
    with pytest.raises(ValueError, match=r"goodput model\[1\]: gamma is 0.0"):
        validate(stack_models([MODEL, broken]))


def test_goodput_stays_finite_for_an_infinite_noise_scale() -> None:
    """Where the true gradient vanishes, goodput is throughput."""
    model = MODEL._replace(gradient=GradientStatistics(0.0, 1.0))
    found = goodput(model, 1, 4, np.arange(32, 257), 0)
    np.testing.assert_allclose(found, throughput(model.throughput, 1, 4, np.arange(32, 257), 0))
