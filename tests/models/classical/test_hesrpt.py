"""heSRPT: its closed form against direct optimisation, its laws, and its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from goodalloc.models.classical.fluid import fluid_completion_times
from goodalloc.models.classical.hesrpt import hesrpt_shares, least_flow_time, weighted_shares
from goodalloc.solvers.classical.hesrpt import whole_shares

if TYPE_CHECKING:
    from goodalloc.models.classical.fluid import Rule
    from goodalloc.models.support.array_types import Floats
from tests.support.few import few

SIZES = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12)
POWERS = st.floats(0.05, 0.95)


def shares_of(power: float, servers: float) -> Rule:
    """heSRPT as a rule."""
    return lambda left: servers * hesrpt_shares(left.size, power)


def best_found(sizes: Floats, servers: float, power: float, weights: Floats) -> float:
    """The least weighted flow time that a search over the shares of every phase finds.

    Between two completions constant shares are best: of shares that vary, the mean does no less
    work of any job, as k^p is concave.
    """
    jobs = sizes.size

    def total(logits: Floats) -> float:
        def rule(left: Floats) -> Floats:
            first = left.size * (left.size - 1) // 2
            part = np.exp(logits[first : first + left.size] - logits.max())
            return np.asarray(servers * part / part.sum())

        return float(weights @ fluid_completion_times(sizes, servers, power, rule))

    number = jobs * (jobs + 1) // 2
    starts = [np.zeros(number), np.random.default_rng(0).normal(size=number)]
    options = {"maxiter": 1500, "xatol": 1e-6, "fatol": 1e-10, "adaptive": True}
    return min(
        float(minimize(total, start, method="Nelder-Mead", options=options).fun) for start in starts
    )


@pytest.mark.parametrize("jobs", few([2, 3, 4], 2))
@pytest.mark.parametrize("power", [0.2, 0.5, 0.8])
def test_no_search_over_shares_beats_the_closed_form_and_one_finds_it(
    jobs: int, power: float
) -> None:
    """Flow time and slowdown, on eight servers: to five digits from above, never from below."""
    sizes = np.sort(np.random.default_rng(jobs).lognormal(0.0, 1.0, jobs))[::-1]
    for weights in (np.ones(jobs), 1.0 / sizes):
        found = best_found(sizes, 8.0, power, weights)
        least = least_flow_time(sizes, 8.0, power, weights)
        assert least * (1 - 1e-9) <= found <= least * (1 + 1e-5)


@given(SIZES, POWERS, st.floats(0.5, 100.0))
def test_the_closed_form_is_what_its_shares_come_to(
    sizes: list[float], power: float, servers: float
) -> None:
    """Priced by the fluid, which knows nothing of it; in whatever order the jobs are listed."""
    ends = fluid_completion_times(sizes, servers, power, shares_of(power, servers))
    assert ends.sum() == pytest.approx(least_flow_time(sizes, servers, power), rel=1e-6)
    assert least_flow_time(sizes[::-1], servers, power) == pytest.approx(ends.sum(), rel=1e-6)
    size = np.array(sizes)
    assert (np.diff(ends[np.lexsort((ends, size))]) >= -1e-9 * ends.max()).all()


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=10), POWERS)
def test_slowdown_is_the_same_with_other_weights(sizes: list[float], power: float) -> None:
    """The weight of a job is one over its size."""
    size = np.sort(sizes)[::-1]
    ends = fluid_completion_times(
        size, 4.0, power, lambda left: 4.0 * weighted_shares(1.0 / size[: left.size], power)
    )
    least = least_flow_time(size, 4.0, power, 1.0 / size)
    assert float((ends / size).sum()) == pytest.approx(least, rel=1e-6)


@given(st.integers(1, 50), POWERS)
def test_shares_are_of_one_whole_and_grow_towards_the_smallest_job(jobs: int, power: float) -> None:
    """Every job has some; the largest of m keep their proportions when the smallest ends."""
    shares = hesrpt_shares(jobs, power)
    assert shares.sum() == pytest.approx(1.0)
    assert (shares > 0).all()
    assert (np.diff(shares) >= -1e-12).all()
    if jobs > 1:
        fewer = hesrpt_shares(jobs - 1, power)
        assert shares[:-1] / shares[:-1].sum() == pytest.approx(fewer)


def test_near_power_1_the_smallest_job_has_all_and_near_0_all_have_the_same() -> None:
    """SRPT where speedup is linear; equal shares where more servers hardly help."""
    assert hesrpt_shares(5, 0.999)[-1] == pytest.approx(1.0, abs=1e-9)
    assert hesrpt_shares(5, 0.001) == pytest.approx(np.full(5, 0.2), rel=1e-2)


@given(SIZES, POWERS, st.integers(1, 20))
def test_neither_equal_shares_nor_srpt_nor_whole_servers_are_better(
    sizes: list[float], power: float, servers: int
) -> None:
    """Each priced by the fluid."""
    least = least_flow_time(sizes, servers, power)

    def equal(left: Floats) -> Floats:
        return np.full(left.size, servers / left.size)

    def smallest(left: Floats) -> Floats:
        return np.where(np.arange(left.size) == left.size - 1, float(servers), 0.0)

    def whole(left: Floats) -> Floats:
        most = np.full(left.size, servers)
        return whole_shares(hesrpt_shares(left.size, power), servers, most).astype(float)

    for rule in (equal, smallest, whole):
        ends = fluid_completion_times(sizes, servers, power, rule)
        assert ends.sum() >= least * (1 - 1e-9)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(1, 40),
)
def test_whole_shares_use_what_they_can_and_nobody_has_too_many(
    jobs: list[tuple[float, int]], gpus: int
) -> None:
    """All GPUs or all that jobs may have; without limits no job is a GPU away from its share."""
    shares, most = np.array([share for share, _ in jobs]), np.array([most for _, most in jobs])
    shares /= shares.sum()
    whole = whole_shares(shares, gpus, most)
    assert whole.sum() == min(gpus, most.sum())
    assert ((whole >= 0) & (whole <= most)).all()
    free = whole_shares(shares, gpus, np.full(len(jobs), gpus))
    assert (np.abs(free - gpus * shares) < 1 + 1e-6).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([1.0], 1, 0.0), "power is 0.0; expected a finite number above 0"),
        (([1.0], 1, 1.0), "power is 1.0; expected a number between 0 and 1"),
        (([1.0], 1, float("nan")), "power is nan"),
        (([1.0], 0, 0.5), "Servers is 0; expected a finite number above 0"),
        (([], 1, 0.5), r"sizes have shape \(0,\)"),
        (([[1.0]], 1, 0.5), r"sizes have shape \(1, 1\)"),
        (([1.0, 0.0], 1, 0.5), r"Job\[1\]: size is 0.0; expected finite seconds above 0"),
        (([1.0, np.inf], 1, 0.5), r"Job\[1\]: size is inf"),
        (([1.0, np.nan], 1, 0.5), r"Job\[1\]: size is nan"),
        (([2.0, 1.0], 1, 0.5, [1.0]), r"weights have shape \(1,\); expected \(2,\)"),
        (([2.0, 1.0], 1, 0.5, [2.0, 1.0]), "no less than that of a larger job"),
        (([2.0, 1.0], 1, 0.5, [0.0, 1.0]), "weight is 0.0; expected a number above 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(arguments: tuple[Any, ...], complaint: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=complaint):
        least_flow_time(*arguments)


@pytest.mark.parametrize(
    ("given_", "complaint"),
    [
        ([3.0, 2.0], "gives 5 servers; there are 4"),
        ([0.0, 0.0], "expected servers for each"),
        ([1.0], "expected servers for each"),
        ([-1.0, 2.0], "expected servers for each"),
    ],
)
def test_a_rule_that_gives_what_is_not_there_is_refused(
    given_: list[float], complaint: str
) -> None:
    """Or nothing, or to nobody."""
    with pytest.raises(ValueError, match=complaint):
        fluid_completion_times([1.0, 2.0], 4.0, 0.5, lambda _: np.array(given_))
