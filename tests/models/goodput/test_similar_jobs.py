"""Synchronisation predicted from similar jobs: a Gaussian process over their traits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.goodput import (
    Experience,
    Regimes,
    ThroughputParameters,
    Traits,
    complete,
    measured_regimes,
    predict_logarithm,
    similarity,
    step_time,
)

EVERYWHERE, NOWHERE = Regimes(True, True, True, True), Regimes()
SIZES = st.floats(1.0, 1e6)
TRAITS = st.builds(
    Traits,
    SIZES,
    SIZES,
    SIZES,
    st.floats(1e-6, 10.0),
    st.none() | st.floats(1e6, 1e10),
    st.sampled_from(["", "convolution", "transformer"]),
)
SECONDS = st.floats(1e-3, 10.0)
PARAMETERS = st.builds(ThroughputParameters, *[SECONDS] * 6, gamma=st.floats(1.0, 5.0))
EXPERIENCES = st.lists(
    st.builds(Experience, TRAITS, PARAMETERS, st.just(EVERYWHERE), st.just(16)),
    min_size=1,
    max_size=5,
)


@given(TRAITS, TRAITS)
def test_similarity_is_symmetric_and_greatest_with_oneself(one: Traits, other: Traits) -> None:
    """In (0, 1], and lower in another family."""
    assert similarity(one, one) == 1.0
    assert similarity(one, other) == pytest.approx(similarity(other, one))
    assert 0.0 <= similarity(one, other) <= 1.0
    far = one._replace(initial=one.initial * 50.0)
    assert similarity(one, far) < similarity(one, one._replace(initial=one.initial * 2.0))


@given(st.lists(TRAITS, min_size=2, max_size=6))
def test_correlations_are_a_covariance(jobs: list[Traits]) -> None:
    """No eigenvalue is negative where the same traits are known of all jobs."""
    known = [job._replace(model_parameters=1e7, family="convolution") for job in jobs]
    among = np.array([[similarity(one, other) for other in known] for one in known])
    assert np.linalg.eigvalsh(among).min() >= -1e-9


@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=6), st.integers(0, 5))
def test_a_job_like_one_that_is_known_has_its_value(values: list[float], index: int) -> None:
    """Where all others are unlike; a job like nobody has their mean, with a wider interval."""
    known, index = np.array(values), index % len(values)
    among, like = np.eye(len(known)), np.eye(len(known))[index]
    found = predict_logarithm(like, among, known)
    spread = math.sqrt(1.0 + float(np.sum((known - known.mean()) ** 2)))
    assert abs(found.mean - known[index]) <= 0.1 * spread + 1e-9
    nobody = predict_logarithm(np.zeros(len(known)), among, known)
    assert nobody.mean == pytest.approx(known.mean())
    assert nobody.deviation > found.deviation


@given(PARAMETERS, TRAITS, EXPERIENCES)
def test_what_was_measured_stays_and_the_rest_grows_with_the_deviations(
    parameters: ThroughputParameters, traits: Traits, experiences: list[Experience]
) -> None:
    """Optimism shortens predicted times, and with them the steps."""
    assert complete(parameters, EVERYWHERE, traits, experiences) == (parameters, 0.0)
    assert complete(parameters, NOWHERE, traits, []).parameters == parameters
    low, mean, high = (
        complete(parameters, NOWHERE, traits, experiences, z).parameters for z in (-1.0, 0.0, 1.0)
    )
    assert low.alpha_local < mean.alpha_local < high.alpha_local
    assert low.alpha_node < mean.alpha_node < high.alpha_node
    assert (mean.alpha_grad, mean.beta_grad) == (parameters.alpha_grad, parameters.beta_grad)
    assert mean.gamma >= 1.0
    for nodes, replicas in ((1, 2), (2, 8)):
        times = [float(step_time(one, nodes, replicas, 8, 0.0)) for one in (low, mean, high)]
        assert times == sorted(times)


@given(PARAMETERS, TRAITS, st.floats(0.1, 10.0))
def test_predictions_scale_with_the_speed_of_the_job(
    parameters: ThroughputParameters, traits: Traits, factor: float
) -> None:
    """A job like a known one, but slower in every pass, is slower in synchronisation, too."""
    known = [Experience(traits, parameters, EVERYWHERE, 16)]
    slower = parameters._replace(
        alpha_grad=float(parameters.alpha_grad) * factor,
        beta_grad=float(parameters.beta_grad) * factor,
    )
    one, other = (
        complete(each, NOWHERE, traits, known).parameters for each in (parameters, slower)
    )
    assert other.alpha_local == pytest.approx(float(one.alpha_local) * factor)
    assert other.alpha_node == pytest.approx(float(one.alpha_node) * factor)


def test_synchronisation_on_one_node_sharpens_that_between_nodes() -> None:
    """Where its ratio is the same for all, though that to the gradient time is not."""
    traits = Traits(128, 4096, 1000, 1e-3)
    fitted = ThroughputParameters(0.0, 1e-3, 0.1, 0.0, 0.4, 0.0, gamma=2.0)
    experiences = [
        Experience(
            traits._replace(initial=128.0 * 40.0**index),
            fitted._replace(alpha_local=0.1 * 3.0**index, alpha_node=0.4 * 3.0**index),
            EVERYWHERE,
            16,
        )
        for index in range(-2, 3)
    ]
    own = fitted._replace(alpha_local=0.02, alpha_node=0.02)
    blind = complete(own, NOWHERE, traits, experiences)
    seen = complete(own, Regimes(local=True, local_growth=True), traits, experiences)
    assert seen.deviation < blind.deviation
    assert float(seen.parameters.alpha_node) == pytest.approx(0.08, rel=0.05)
    assert seen.parameters.alpha_local == 0.02


def test_regimes_are_told_by_nodes_and_replicas() -> None:
    """Growth takes more than two replicas."""
    assert measured_regimes([(1, 1, 8)]) == NOWHERE
    assert measured_regimes([(1, 2, 8)]) == Regimes(local=True)
    assert measured_regimes([(1, 3, 8)]) == Regimes(local=True, local_growth=True)
    assert measured_regimes([(2, 2, 8)]) == Regimes(node=True)
    assert measured_regimes([(2, 3, 8)]) == Regimes(node=True, node_growth=True)


@pytest.mark.parametrize(
    ("deviations", "length", "words"),
    [
        (math.nan, 2.0, "Deviations is nan; expected a finite number"),
        (math.inf, 2.0, "Deviations is inf"),
        (0.0, 0.0, "Length is 0.0; expected a number above 0"),
        (0.0, math.nan, "Length is nan"),
    ],
)
def test_options_without_meaning_are_refused(deviations: float, length: float, words: str) -> None:
    """By name and value."""
    parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    traits = Traits(128, 4096, 1000, 1e-3)
    with pytest.raises(ValueError, match=words):
        complete(parameters, NOWHERE, traits, [], deviations, length)
