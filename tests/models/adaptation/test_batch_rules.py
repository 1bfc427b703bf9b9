"""Tests of the rules for the batch size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.adaptation.batch_rules import (
    BATCH_RULES,
    AdaBatch,
    Cabs,
    FixedBatch,
    GoodputBatch,
    NoiseScaleBatch,
    Situation,
)
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.batch_split import BatchChoice, split_batch
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, goodput
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from goodalloc.models.adaptation.batch_rules import BatchRule

THROUGHPUT = ThroughputParameters(0.02, 0.001, 0.05, 0.001, 0.1, 0.002, 1.5)
LIMITS = BatchLimits(32, 1024, 4, 64, True)
NOISY = GradientStatistics(1.0, 100.0)
START = BatchChoice(16, 0)
SITUATION = Situation(1, 2, START, LIMITS, 0, 0.1, 2.0, NOISY, THROUGHPUT)
RULES: tuple[BatchRule, ...] = (
    FixedBatch(100),
    AdaBatch(3),
    Cabs(),
    NoiseScaleBatch(),
    GoodputBatch(),
)


@given(
    total=st.floats(0.0, 1e5),
    replicas=st.integers(1, 16),
    initial=st.integers(1, 64),
    smallest=st.integers(1, 64),
    more=st.integers(1, 256),
    times=st.integers(1, 32),
    several=st.booleans(),
)
def test_a_split_batch_keeps_its_limits(
    *,
    total: float,
    replicas: int,
    initial: int,
    smallest: int,
    more: int,
    times: int,
    several: bool,
) -> None:
    """m within its bounds, M at most M_max, and as near to what was wanted as rounding allows."""
    largest = smallest + more
    maximum = max(initial * times, replicas * smallest, initial)
    batch = BatchLimits(initial, maximum, smallest, largest, several)
    if replicas * largest < initial and not several:
        with pytest.raises(ValueError, match="share"):
            split_batch(total, replicas, batch)
        return
    found = split_batch(total, replicas, batch)
    assert smallest <= found.atomic <= largest
    assert found.total(replicas) <= maximum
    assert found.accumulation_steps == 0 or several
    wanted = min(max(total, initial), maximum)
    passes = replicas * (found.accumulation_steps + 1)
    if smallest < found.atomic < largest:
        assert abs(found.total(replicas) - wanted) < passes


def test_one_replica_makes_two_passes() -> None:
    """Where it may and two are not too small; with two replicas one pass will do."""
    assert split_batch(64, 1, LIMITS) == (32, 1, 1.0)
    assert split_batch(32, 1, LIMITS) == (16, 1, 1.0)
    assert split_batch(33, 1, LIMITS._replace(initial=33, maximum=33)) == (33, 0, 1.0)
    assert split_batch(32, 1, LIMITS._replace(atomic_minimum=17)) == (32, 0, 1.0)
    assert split_batch(32, 1, LIMITS._replace(accumulation=False)) == (32, 0, 1.0)
    assert split_batch(64, 2, LIMITS) == (32, 0, 1.0)
    assert split_batch(300, 2, LIMITS) == (50, 2, 1.0)
    assert split_batch(math.inf, 1, LIMITS) == (64, 15, 1.0)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_keeps_the_limits_and_gives_the_same_answer_again(rule: BatchRule) -> None:
    """Its own choice being the present batch size then."""
    found = rule.choose(SITUATION)
    assert LIMITS.atomic_minimum <= found.atomic <= LIMITS.atomic_maximum
    assert LIMITS.initial <= found.total(2) <= LIMITS.maximum
    assert rule.choose(SITUATION._replace(present=found)) == found


@pytest.mark.parametrize("rule", tuple(BATCH_RULES.values())[1:])
def test_rules_that_know_nothing_yet_leave_the_batch_size_alone(rule: BatchRule) -> None:
    """Before the first statistics, loss and fit, also where it is not the initial one."""
    for present in (START, BatchChoice(50, 2, 1.0)):
        assert rule.choose(Situation(1, 2, present, LIMITS)) == present


def test_a_fixed_batch_is_the_initial_one_if_nothing_is_said() -> None:
    """M0."""
    assert FixedBatch().choose(SITUATION).total(2) == LIMITS.initial


def test_adabatch_doubles_and_decays_as_published() -> None:
    """0.75 a doubling instead of 0.375: rate over batch is that of the usual schedule."""
    found = [AdaBatch(5).choose(SITUATION._replace(epoch=epoch)) for epoch in (0, 4, 5, 10)]
    assert [choice.total(2) for choice in found] == [32, 32, 64, 128]
    assert [choice.rate_factor for choice in found] == pytest.approx([1.0, 1.0, 0.75, 0.5625])


@given(st.integers(0, 400), st.integers(1, 9))
def test_adabatch_keeps_the_rate_over_the_batch_on_the_usual_schedule(
    epoch: int, every: int
) -> None:
    """Also where M_max stops the growth."""
    found = AdaBatch(every).choose(SITUATION._replace(epoch=epoch))
    expected = 0.375 ** (epoch // every) / LIMITS.initial
    assert found.rate_factor / found.total(2) == pytest.approx(expected, rel=1e-12)


def test_cabs_is_worked_by_hand() -> None:
    """c lr xi / loss = 0.1 x 3200 / 2 = 160 examples; without loss, all there may be."""
    assert Cabs().choose(SITUATION).total(2) == 160
    assert Cabs(2.0).choose(SITUATION).total(2) == 324  # 320 in three passes of 54
    assert Cabs().choose(SITUATION._replace(loss=0.0)).total(2) == LIMITS.maximum


def test_the_noise_scale_sets_the_batch() -> None:
    """phi = 32 x 4 = 128 examples; infinite where the gradient vanishes."""
    quieter = SITUATION._replace(gradient=GradientStatistics(1.0, 4.0))
    assert NoiseScaleBatch().choose(quieter).total(2) == 128
    assert NoiseScaleBatch(0.5).choose(quieter).total(2) == 64
    vanishing = SITUATION._replace(gradient=GradientStatistics(0.0, 4.0))
    assert NoiseScaleBatch().choose(vanishing).total(2) == LIMITS.maximum


@given(st.floats(1e-3, 1e4), st.integers(1, 8), st.floats(0.0, 0.5), st.integers(4, 64))
def test_the_goodput_rule_changes_only_for_more_than_its_hysteresis(
    variance: float, replicas: int, hysteresis: float, atomic: int
) -> None:
    """Either nothing is that much better, or the new batch size is."""
    gradient = GradientStatistics(1.0, variance)
    present = split_batch(replicas * atomic, replicas, LIMITS)
    situation = SITUATION._replace(gradient=gradient, replicas=replicas, present=present)
    found = GoodputBatch(hysteresis, "integer").choose(situation)
    model = GoodputModel(THROUGHPUT, gradient, LIMITS._replace(maximum=LIMITS.maximum))
    now, then = (
        float(goodput(model, 1, replicas, choice.atomic, choice.accumulation_steps))
        for choice in (present, found)
    )
    best = best_batch_size(model, 1, replicas, search="grid")
    if found == present:  # the grid rounds beyond M_max; one replica makes two passes of M0
        undivided = best.atomic == LIMITS.initial
        assert undivided or float(best.goodput) <= (1.0 + hysteresis) * now * 1.03
    else:
        assert then > (1.0 + hysteresis) * now


@pytest.mark.parametrize(
    ("rule", "numbers", "sentence"),
    [
        (FixedBatch, (0,), "total is 0; expected an integer of at least 1"),
        (FixedBatch, (1.5,), "total is 1.5"),
        (AdaBatch, (0,), "epochs is 0"),
        (AdaBatch, (1, 0.5), "growth is 0.5"),
        (AdaBatch, (1, 2.0, 0.0), "decay is 0.0"),
        (AdaBatch, (1, 2.0, 1.5), "decay is 1.5"),
        (AdaBatch, (1, math.nan), "growth is nan"),
        (Cabs, (0.0,), "constant is 0.0"),
        (Cabs, (math.nan,), "constant is nan"),
        (NoiseScaleBatch, (-1.0,), "factor is -1.0"),
        (NoiseScaleBatch, (math.inf,), "factor is i"),
        (GoodputBatch, (-0.1,), "hysteresis is -0.1"),
        (GoodputBatch, (0.1, "best"), "search is"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(
    rule: Any, numbers: tuple[Any, ...], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        rule(*numbers)


@pytest.mark.parametrize(
    ("total", "replicas", "batch", "sentence"),
    [
        (math.nan, 1, LIMITS, "total is nan"),
        (32, 0, LIMITS, "replicas is 0"),
        (32, 257, LIMITS, "257 replicas share 1028 to 16448 examples a pass; expected some total"),
        (128, 1, LIMITS._replace(initial=128, accumulation=False), "share 4 to 64"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(
    total: float, replicas: int, batch: BatchLimits, sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        split_batch(total, replicas, batch)
