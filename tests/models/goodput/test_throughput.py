"""Tests of the throughput model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.goodput.throughput_model import (
    ThroughputParameters,
    gradient_time,
    overlap,
    step_time,
    synchronisation_time,
    throughput,
)

PARAMETERS = ThroughputParameters(
    alpha_grad=0.1,
    beta_grad=0.01,
    alpha_local=0.05,
    beta_local=0.002,
    alpha_node=0.2,
    beta_node=0.005,
    gamma=2.0,
)

SECONDS = st.floats(1e-6, 1e3)


def plain_step_time(
    parameters: ThroughputParameters, nodes: int, replicas: int, atomic: float, steps: int
) -> float:
    """The published formula, word for word."""
    gradient = parameters.alpha_grad + parameters.beta_grad * atomic
    if replicas == 1:
        alpha, beta = 1e-8, 1e-8
    elif nodes == 1:
        alpha, beta = float(parameters.alpha_local), float(parameters.beta_local)
    else:
        alpha, beta = float(parameters.alpha_node), float(parameters.beta_node)
    synchronisation = alpha + beta * max(replicas - 2, 1e-8)
    gamma = parameters.gamma
    last = (gradient**gamma + synchronisation**gamma) ** (1 / gamma)
    return float(steps * gradient + last)


@st.composite
def parameters(draw: st.DrawFn) -> ThroughputParameters:
    """Throughput parameters for which the plain formula neither over- nor underflows."""
    return ThroughputParameters(*draw(st.tuples(*[SECONDS] * 6, st.floats(1.0, 10.0))))


@given(
    parameters(), st.integers(1, 3), st.integers(1, 100), st.integers(1, 5000), st.integers(0, 20)
)
def test_step_time_is_the_published_formula(
    drawn: ThroughputParameters, nodes: int, replicas: int, atomic: int, steps: int
) -> None:
    """The stable form agrees with the plain powers to 1e-12."""
    nodes = min(nodes, replicas)
    expected = plain_step_time(drawn, nodes, replicas, atomic, steps)
    assert step_time(drawn, nodes, replicas, atomic, steps) == pytest.approx(expected, rel=1e-12)


def test_synchronisation_depends_on_one_node_or_several_only() -> None:
    """Two nodes cost what sixteen do, one node costs less, one replica next to nothing."""
    assert synchronisation_time(PARAMETERS, 2, 16) == synchronisation_time(PARAMETERS, 16, 16)
    assert synchronisation_time(PARAMETERS, 1, 4) == pytest.approx(0.05 + 0.002 * 2)
    assert synchronisation_time(PARAMETERS, 2, 4) == pytest.approx(0.2 + 0.005 * 2)
    assert synchronisation_time(PARAMETERS, 1, 1) == pytest.approx(1e-8, rel=1e-7)


def test_without_overlap_the_times_add_up() -> None:
    """At gamma = 1 a pass takes the sum, at a huge gamma the larger of the two."""
    serial = overlap(2.0, 3.0, math.log(3.0), 1.0)
    assert serial.time == pytest.approx(5.0, rel=1e-14)
    assert serial.gradient_share == pytest.approx(0.4, rel=1e-14)
    assert overlap(2.0, 3.0, math.log(3.0), 1e6).time == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("synchronisation", [1e-300, 1e-30, 1.0, 1e30])
def test_extreme_synchronisation_neither_overflows_nor_vanishes(synchronisation: float) -> None:
    """Sixty orders of magnitude at gamma = 10, where plain powers fail."""
    found = overlap(1.0, synchronisation, math.log(synchronisation), 10.0)
    expected = max(1.0, synchronisation) * (2**0.1 if synchronisation == 1.0 else 1.0)
    assert found.time == pytest.approx(expected, rel=1e-14)
    assert found.gradient_share + found.synchronisation_share == pytest.approx(1.0)


def test_accumulation_adds_passes_without_synchronisation() -> None:
    """Each further pass adds the gradient time, and throughput counts its examples."""
    one = step_time(PARAMETERS, 2, 8, 32, 0)
    three = step_time(PARAMETERS, 2, 8, 32, 2)
    assert three - one == pytest.approx(2 * gradient_time(PARAMETERS, 32))
    assert throughput(PARAMETERS, 2, 8, 32, 2) == pytest.approx(8 * 32 * 3 / three)


def test_arguments_broadcast() -> None:
    """A column of replicas against a row of batch sizes gives a table."""
    table = throughput(PARAMETERS, 1, np.array([[1], [2], [4]]), np.arange(1, 6), 0)
    assert table.shape == (3, 5)
    assert table[2, 3] == throughput(PARAMETERS, 1, 4, 4, 0)


def test_jax_arrays_give_the_same_times() -> None:
    """One implementation: jax and numpy differ by rounding alone."""
    import jax
    import jax.numpy as jnp

    replicas = np.arange(1.0, 65.0)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda count: step_time(PARAMETERS, 2, count, 24.0, 1.0))
        found = np.asarray(compiled(jnp.asarray(replicas)))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, step_time(PARAMETERS, 2, replicas, 24.0, 1.0), rtol=1e-13)
