"""When a job counts as predictable: the rule, its laws and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.parameter_servers.predictability import is_predictable

SHARES, ERRORS = st.floats(0.0, 1.0), st.floats(0.0, math.inf)


@given(SHARES, SHARES, ERRORS, ERRORS)
def test_the_rule_is_monotone(confidence: float, more: float, error: float, less: float) -> None:
    """Neither more confidence nor a better fit makes a predictable job unpredictable."""
    if is_predictable(confidence, error):
        assert is_predictable(max(confidence, more), min(error, less))


@given(SHARES)
def test_every_job_starts_unpredictable(confidence: float) -> None:
    """Until its loss curve has been fitted; where that does not matter the classifier decides."""
    assert not is_predictable(confidence, math.inf)
    alone = is_predictable(confidence, math.inf, largest_error=math.inf)
    assert alone == (confidence >= 0.5)


def test_the_rule_at_its_edges() -> None:
    """Both thresholds are within."""
    assert is_predictable(0.5, 0.25)
    assert not is_predictable(0.4999, 0.25)
    assert not is_predictable(0.5, 0.2501)
    assert is_predictable(0.3, 0.2, threshold=0.3, largest_error=0.2)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf, True, None, "0.5"])
@pytest.mark.parametrize("name", ["confidence", "threshold"])
def test_shares_that_make_no_sense_are_refused(name: str, bad: Any) -> None:
    """From 0 to 1 they are."""
    with pytest.raises(ValueError, match=f"Predictability: {name} is"):
        is_predictable(**{"confidence": 0.5, "curve_error": 0.1, name: bad})


@pytest.mark.parametrize("bad", [-0.1, math.nan, -math.inf, False, None])
@pytest.mark.parametrize("name", ["curve_error", "largest_error"])
def test_errors_that_make_no_sense_are_refused(name: str, bad: Any) -> None:
    """At least 0 they are, and not NaN."""
    with pytest.raises(ValueError, match=f"Predictability: {name} is"):
        is_predictable(**{"confidence": 0.5, "curve_error": 0.1, name: bad})
