"""Sia's bootstrap: a type that a job has not run on is another one, faster or slower."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.gpu_types import gpu_types, load_type_profile
from goodalloc.data.applications.profiles import application_names
from goodalloc.models.goodput.bootstrapped_goodput import best_on_one_gpu, bootstrap, faster
from goodalloc.models.goodput.throughput_model import ThroughputParameters, throughput

NODES = np.array([1, 1, 1, 2, 3])
REPLICAS = np.array([1, 2, 8, 2, 24])
FITTED = ThroughputParameters(0.1, 0.002, 0.05, 0.001, 0.2, 0.004, 1.7)


@given(
    values=st.tuples(*[st.floats(1e-3, 1.0)] * 6),
    gamma=st.floats(1.0, 10.0),
    ratio=st.floats(0.05, 20.0),
    atomic=st.integers(1, 500),
    steps=st.integers(0, 3),
)
def test_every_placement_and_batch_size_is_scaled_alike(
    values: tuple[float, float, float, float, float, float],
    gamma: float,
    ratio: float,
    atomic: int,
    steps: int,
) -> None:
    """Equation (1), whatever the parameters; on one GPU but for the stand-in for no delay."""
    here = ThroughputParameters(*values, gamma=gamma)
    there = bootstrap({"s": here}, {"t": 10.0 * ratio, "s": 10.0})["t"]
    rates = (throughput(p, NODES, REPLICAS, atomic, steps) for p in (here, there))
    slow, fast = rates
    np.testing.assert_allclose(fast, ratio * slow, rtol=1e-3)
    np.testing.assert_allclose(fast[1:], ratio * slow[1:], rtol=1e-12)


def test_what_is_fitted_stays_and_the_first_stands_in_for_the_rest() -> None:
    """The first of the fitted types, in their order, not the fastest or the nearest."""
    other = faster(FITTED, 3.0)._replace(gamma=1.2)
    rates = {"a": 1.0, "b": 2.0, "c": 3.0}
    found = bootstrap({"c": other, "b": FITTED}, rates)
    assert list(found) == ["a", "b", "c"]
    assert (found["b"], found["c"]) == (FITTED, other)
    assert found["a"] == faster(other, 1.0 / 3.0)
    assert bootstrap({"b": FITTED, "c": other}, rates)["a"] == faster(FITTED, 0.5)


def test_a_job_that_never_ran_has_no_model_anywhere() -> None:
    """Its profiles on one GPU say nothing about several."""
    assert bootstrap({}, {"a": 1.0, "b": 2.0}) == {}


@pytest.mark.parametrize("name", application_names())
def test_on_one_gpu_the_shipped_profiles_come_out_right(name: str) -> None:
    """From the model on T4, the best throughput on one GPU of any type is that type's own."""
    profiles = {kind: load_type_profile(name, kind) for kind in gpu_types()}
    rates = {kind: best_on_one_gpu(p.throughput, p.batch) for kind, p in profiles.items()}
    found = bootstrap({"t4": profiles["t4"].throughput}, rates)
    for kind, rate in rates.items():
        again = best_on_one_gpu(found[kind], profiles["t4"].batch)
        assert again == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize(
    ("fitted", "rates", "words"),
    [
        ({}, {"a": 0.0}, "Type 'a': throughput on one GPU is 0.0; expected a finite number above"),
        ({}, {"a": float("nan")}, "Type 'a': throughput on one GPU is nan"),
        ({"b": FITTED}, {"a": 1.0}, "Type 'b' is fitted but not profiled; expected one of a"),
    ],
)
def test_what_makes_no_sense_is_refused(
    fitted: dict[str, ThroughputParameters], rates: dict[str, float], words: str
) -> None:
    """One sentence names the type."""
    with pytest.raises(ValueError, match=words):
        bootstrap(fitted, rates)
