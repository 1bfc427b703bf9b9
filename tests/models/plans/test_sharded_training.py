"""Seconds of passes of language models: what the fit recovers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.plans.sharded_training import (
    LanguageModel,
    PassCoefficients,
    ShardedPass,
    ShardedTimes,
    fit_sharded_times,
)

TRUE = ShardedTimes(
    {
        "a100": PassCoefficients(5e-15, 8e-16, 1e-16, 1e-15, 0.03),
        "h100": PassCoefficients(2e-15, 4e-16, 0.0, 1.6e-15, 0.09),
    }
)


def drawn_passes(seed: int, count: int) -> list[ShardedPass]:
    """Passes of models, numbers of GPUs and contexts at random."""
    random = np.random.default_rng(seed)
    return [
        ShardedPass(
            LanguageModel(10 ** random.uniform(8, 10.8), 10 ** random.uniform(5, 7)),
            str(random.choice(["a100", "h100"])),
            8 * int(2 ** random.integers(0, 7)),
            int(2 ** random.integers(9, 15)),
            int(random.integers(1, 33)),
            bool(random.integers(2)),
        )
        for _ in range(count)
    ]


@given(seed=st.integers(0, 10**6))
def test_coefficients_are_recovered_from_exact_times(seed: int) -> None:
    passes = drawn_passes(seed, 80)
    found = fit_sharded_times(passes, [TRUE.seconds(one) for one in passes])
    others = drawn_passes(seed + 1, 20)
    for one in (*passes, *others):
        assert found.seconds(one) == pytest.approx(TRUE.seconds(one), rel=1e-6)


@given(seed=st.integers(0, 10**6))
def test_more_work_never_takes_less_time(seed: int) -> None:
    for one in drawn_passes(seed, 10):
        seconds = TRUE.seconds(one)
        for more in (
            one._replace(sequences=one.sequences + 1),
            one._replace(tokens=2 * one.tokens),
            one._replace(gpus=2 * one.gpus),
            one._replace(recomputes=True),
        ):
            assert TRUE.seconds(more) >= seconds


def test_operations_are_those_of_matrices_and_of_attention() -> None:
    one = ShardedPass(LanguageModel(1e9, 2e6), "a100", 8, tokens=1000, sequences=3)
    assert one.attention == 2e6 * 3 * 1000**2
    assert one.operations == 6e9 * 3 * 1000 + one.attention


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"gpus": 12}, "GPUs is 12; expected a multiple of 8"),
        ({"gpus": 0}, "GPUs is 0; expected"),
        ({"gpu_type": "b200"}, "GPU type 'b200' is unknown; expected one of a100, h100"),
    ],
)
def test_passes_that_make_no_sense_are_refused(change: dict[str, Any], sentence: str) -> None:
    one = ShardedPass(LanguageModel(1e9, 1e6), "a100", 8, 2048, 4)._replace(**change)
    with pytest.raises(ValueError, match=sentence):
        TRUE.seconds(one)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_make_no_sense_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="Pass: seconds is"):
        fit_sharded_times(drawn_passes(0, 1), [seconds])


def test_a_fit_needs_a_pass() -> None:
    with pytest.raises(ValueError, match="there are none; expected some"):
        fit_sharded_times([], [])


def test_negative_coefficients_are_refused() -> None:
    with pytest.raises(ValueError, match="GPU type 'a100': spread"):
        ShardedTimes({"a100": PassCoefficients(1e-15, 0.0, -1e-16, 0.0, 0.0)})
