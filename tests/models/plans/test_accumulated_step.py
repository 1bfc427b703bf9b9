"""Steps in passes: which micro-batch is the fastest, by trying all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.plans import AccumulatedStep, ExecutionPlan, accumulated_seconds, fastest_step
from goodalloc.models.plans.sharded_training import (
    LanguageModel,
    PassCoefficients,
    ShardedPass,
    ShardedTimes,
)

TIMES = ShardedTimes({"gpu": PassCoefficients(5e-15, 1e-15, 1e-16, 1e-15, 0.1)})
MODEL = LanguageModel(parameters=1e9, attention=5e5)

coefficients = st.builds(
    PassCoefficients, *[st.floats(0.0, 1e-14)] * 4, overhead=st.floats(0.0, 10.0)
)


def one_pass(sequences: int, gpus: int = 8) -> ShardedPass:
    """A pass of some sequences on each GPU."""
    return ShardedPass(MODEL, "gpu", gpus, 2048, sequences, recomputes=True)


@given(coefficients, st.integers(1, 4), st.integers(1, 300), st.integers(1, 20))
def test_as_few_passes_as_fit_are_the_fastest(
    of_type: PassCoefficients, nodes: int, batch: int, most: int
) -> None:
    """Whatever the fit; and no smaller micro-batch makes as few."""
    times = ShardedTimes({"gpu": of_type})
    step = fastest_step(times, one_pass(most, 8 * nodes), batch)
    of_replica = math.ceil(batch / (8 * nodes))
    tried = range(1, most + 1)
    passes = [math.ceil(of_replica / sequences) for sequences in tried]
    least = min(
        accumulated_seconds(times, one_pass(sequences, 8 * nodes), batch) for sequences in tried
    )
    assert step.seconds <= least * (1 + 1e-12)
    assert step.passes == min(passes)
    assert step.micro_batch == 1 + passes.index(step.passes)


@given(st.integers(1, 300), st.integers(1, 20))
def test_a_step_takes_the_work_of_its_sequences_and_the_overhead_of_its_passes(
    batch: int, micro_batch: int
) -> None:
    """Equation (3), with k of the slope of a pass."""
    slope = TIMES.seconds(one_pass(2)) - TIMES.seconds(one_pass(1))
    of_replica = math.ceil(batch / 8)
    expected = of_replica * slope + math.ceil(of_replica / micro_batch) * 0.1
    assert accumulated_seconds(TIMES, one_pass(micro_batch), batch) == pytest.approx(expected)


def test_the_last_pass_is_smaller_where_passes_do_not_divide_the_batch() -> None:
    """Nine sequences of which eight fit: five and four, in no more time than eight and one."""
    step = fastest_step(TIMES, one_pass(8), batch=72)
    assert step.text == "pp1 dp8 tp1, micro-batch 5, 2 passes"
    parts = TIMES.seconds(one_pass(5)) + TIMES.seconds(one_pass(4))
    assert step.seconds == pytest.approx(parts)
    assert step.seconds == pytest.approx(accumulated_seconds(TIMES, one_pass(8), batch=72))


def test_one_pass_is_told_as_one() -> None:
    step = AccumulatedStep(ExecutionPlan(1, 8, 1), micro_batch=4, passes=1, seconds=1.0)
    assert step.text == "pp1 dp8 tp1, micro-batch 4, 1 pass"


@pytest.mark.parametrize(("sequences", "batch"), [(0, 8), (8, 0)])
def test_no_sequences_are_refused(sequences: int, batch: int) -> None:
    with pytest.raises(ValueError, match="is 0; expected an integer of at least 1"):
        accumulated_seconds(TIMES, one_pass(sequences), batch)
    with pytest.raises(ValueError, match="is 0; expected an integer of at least 1"):
        fastest_step(TIMES, one_pass(sequences), batch)
