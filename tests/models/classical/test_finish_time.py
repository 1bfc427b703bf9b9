"""Finish-time fairness: by hand, its laws, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.classical.finish_time import (
    Progress,
    finish_time_fairness,
    speed_of_share,
    valuations,
)

LINEAR = np.arange(9.0)

speeds = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8).filter(lambda s: s[-1] > 0.1)


def test_the_ratio_is_that_of_the_paper() -> None:
    """100 s gone, 200 of 300 steps left, a share of two GPUs: alone it would take 150 s."""
    rho = finish_time_fairness(Progress(100.0, 200.0, 300.0, LINEAR), 2.0)
    assert rho[0] == math.inf
    assert rho[1:] == pytest.approx([(100 + 200 / k) / 150 for k in range(1, 9)])
    assert valuations(rho)[0] == 0.0
    assert valuations(rho)[4] == pytest.approx(1.0)


def test_a_job_that_waits_goes_on_with_its_share() -> None:
    """After 50 s, on two GPUs; one GPU for as long as it takes is no better than that."""
    rho = finish_time_fairness(Progress(100.0, 200.0, 300.0, LINEAR), 2.0, wait=50.0)
    assert rho[0] == pytest.approx((100 + 50 + 100) / 150)
    assert rho[1] == rho[0]
    assert rho[2] == pytest.approx((100 + 100) / 150)


def test_a_share_between_whole_numbers_is_shared_out() -> None:
    """Half a GPU half the time; more than it can use is as good as that; slower ones stay idle."""
    table = np.array([0.0, 4.0, 6.0, 5.0])
    assert speed_of_share(table, 0.5) == pytest.approx(2.0)
    assert speed_of_share(table, 1.5) == pytest.approx(5.0)
    assert speed_of_share(table, 3.0) == speed_of_share(table, 64.0) == pytest.approx(6.0)
    gang = np.array([0.0, 0.0, 6.0])
    assert speed_of_share(gang, 1.0) == pytest.approx(3.0)


def test_a_finished_job_needs_nothing() -> None:
    """Whatever it holds; even where it would wait for ever."""
    rho = finish_time_fairness(Progress(30.0, 0.0, 60.0, LINEAR), 2.0)
    assert rho == pytest.approx(np.ones(9))


@given(
    speeds,
    st.floats(0.0, 1e6),
    st.floats(0.0, 1.0),
    st.floats(1.0, 1e6),
    st.floats(0.1, 64.0),
    st.one_of(st.just(math.inf), st.floats(0.0, 1e5)),
)
def test_more_gpus_are_never_worse_and_time_is_never_better(
    table: list[float], elapsed: float, left: float, whole: float, share: float, wait: float
) -> None:
    """Fairness never rises with GPUs, nor falls with time gone; on all that it can use a new job
    is no slower than on its share."""
    given_speeds = np.array([0.0, *table])
    progress = Progress(elapsed, left * whole, whole, given_speeds)
    rho = finish_time_fairness(progress, share, wait)
    assert (rho[1:] <= rho[:-1]).all()
    later = finish_time_fairness(progress._replace(elapsed=elapsed + 60.0), share, wait)
    assert (later >= rho).all()
    new = finish_time_fairness(Progress(0.0, whole, whole, given_speeds), share, wait)
    assert new[-1] <= 1.0 + 1e-9
    assert (finish_time_fairness(progress, share, math.inf)[1:] >= rho[1:]).all()


@pytest.mark.parametrize(
    ("change", "share", "complaint"),
    [
        ({"elapsed": -1.0}, 1.0, "elapsed is -1.0; expected a finite number of at least 0"),
        ({"elapsed": math.nan}, 1.0, "elapsed is nan"),
        ({"remaining": math.inf}, 1.0, "remaining is inf"),
        ({"remaining": 301.0}, 1.0, "remaining is 301; expected at most whole, 300"),
        ({"whole": 0.0, "remaining": 0.0}, 1.0, "whole is 0.0"),
        ({"speeds": np.array([0.0])}, 1.0, r"speeds have the shape \(1,\)"),
        ({"speeds": np.array([[0.0, 1.0]])}, 1.0, "speeds have the shape"),
        ({"speeds": np.array([0.0, -1.0])}, 1.0, "speed is -1.0; expected a finite number from 0"),
        ({"speeds": np.array([0.0, math.nan])}, 1.0, "speed is nan"),
        ({"speeds": np.array([1.0, 2.0])}, 1.0, "expected 0 on no GPU and more on some"),
        ({"speeds": np.array([0.0, 0.0])}, 1.0, "expected 0 on no GPU and more on some"),
        ({}, 0.0, "share is 0.0"),
        ({}, math.inf, "share is inf"),
    ],
)
def test_what_makes_no_sense_is_refused(
    change: dict[str, object], share: float, complaint: str
) -> None:
    """With the value and what was expected."""
    progress = Progress(100.0, 200.0, 300.0, LINEAR)._replace(**change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=complaint):
        finish_time_fairness(progress, share)


def test_a_wait_is_a_number_from_0() -> None:
    """Infinite for never; not NaN."""
    for wait in (-1.0, math.nan):
        with pytest.raises(ValueError, match="wait is"):
            finish_time_fairness(Progress(0.0, 1.0, 1.0, LINEAR), 1.0, wait)
