"""Execution plans: their arithmetic, the fastest of them, and the model of their times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models import Rules
from goodalloc.models.plans import (
    Configuration,
    ExecutionPlan,
    MeasuredPlan,
    PlanJob,
    PlanModel,
    PlanParts,
    PlanRestarts,
    PlanRound,
    PlanState,
    PlanTimes,
    Shape,
    TimedPlan,
    Training,
    fit_plan_model,
    held_out_seconds,
    part_name,
    plan_instance,
    plan_violations,
    plans_of,
)

BERT = Training("bert", "1.3B", 128)


@given(st.integers(min_value=0, max_value=7))
def test_plans_of_a_number_of_gpus_take_all_of_them_and_differ(power: int) -> None:
    """Three degrees of powers of two: (n + 1)(n + 2) / 2 ways for 2^n GPUs."""
    plans = plans_of(2**power)
    assert {plan.gpus for plan in plans} == {2**power}
    assert len(set(plans)) == len(plans) == (power + 1) * (power + 2) // 2


@pytest.mark.parametrize("gpus", [-1, 0, 3, 12])
def test_plans_of_other_numbers_are_refused(gpus: int) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match="expected a power of two"):
        plans_of(gpus)


def test_a_configuration_is_part_of_a_node_or_whole_nodes() -> None:
    """Nothing else has a shape."""
    assert Configuration("a40", 2).shape(4) == Shape("a40", 1, 2)
    assert Configuration("a40", 16).shape(2) == Shape("a40", 8, 2)
    with pytest.raises(ValueError, match="does not fill nodes of 4"):
        Configuration("a40", 6).shape(4)


def test_the_fastest_plan_of_a_shape_counts_and_others_are_forgotten() -> None:
    """The first of equals; shapes apart."""
    shape, other = Shape("a100", 1, 2), Shape("a100", 1, 1)
    timed = [
        TimedPlan(BERT, shape, ExecutionPlan(2, 1, 1), 3.0),
        TimedPlan(BERT, shape, ExecutionPlan(1, 2, 1), 2.0),
        TimedPlan(BERT, shape, ExecutionPlan(1, 1, 2), 2.0),
        TimedPlan(BERT, other, ExecutionPlan(1, 1, 1), 5.0),
    ]
    times = PlanTimes.of(timed)
    assert times.plan(BERT, shape) == ExecutionPlan(1, 2, 1)
    assert times.plan(BERT, Shape("a10", 1, 1)) is None
    assert times.speeds(BERT, {"a100": 2}) == {
        Configuration("a100", 1): 0.2,
        Configuration("a100", 2): 0.5,
    }
    assert times.speeds(Training("bert", "760M", 128), {"a100": 2}) == {}


def test_speeds_leave_out_shapes_that_the_nodes_do_not_have() -> None:
    """Half-filled nodes, nodes that are too small, and other types."""
    shapes = [Shape("a", 1, 4), Shape("a", 2, 2), Shape("a", 2, 4), Shape("b", 1, 1)]
    times = PlanTimes.of(TimedPlan(BERT, shape, None, 1.0) for shape in shapes)
    assert set(times.speeds(BERT, {"a": 4})) == {Configuration("a", 4), Configuration("a", 8)}
    assert set(times.speeds(BERT, {"a": 2})) == {Configuration("a", 4)}


def test_smaller_models_run_where_larger_ones_do_and_faster() -> None:
    """A step up in size at a time; what was measured stays."""
    shape, wide = Shape("a", 1, 1), Shape("a", 1, 2)
    small, middle, large = (Training("moe", size, 256) for size in ("690M", "1.3B", "10B"))
    times = PlanTimes.of(
        [
            TimedPlan(large, shape, None, 9.0),
            TimedPlan(middle, wide, None, 2.0),
            TimedPlan(small, wide, None, 1.5),
        ]
    ).with_smaller_models(3.0)
    assert times.best[middle][shape].seconds == pytest.approx(3.0)
    assert times.best[small][shape].seconds == pytest.approx(1.0)
    assert times.best[small][wide].seconds == 1.5
    assert wide not in times.best[large]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_refused(seconds: float) -> None:
    """They name the plan's training and shape."""
    with pytest.raises(ValueError, match=r"Plan of bert 1\.3B on .*seconds"):
        PlanTimes.of([TimedPlan(BERT, Shape("a", 1, 1), None, seconds)])


def test_a_plan_for_another_number_of_gpus_is_refused() -> None:
    """It says which."""
    with pytest.raises(ValueError, match="pp2 dp1 tp1 takes 2 GPUs; expected 4"):
        PlanTimes.of([TimedPlan(BERT, Shape("a", 1, 4), ExecutionPlan(2, 1, 1), 1.0)])


def made_up(seed: int = 0) -> list[MeasuredPlan]:
    """Return plans whose parts are exact powers of degrees, batch and nodes."""
    random = np.random.default_rng(seed)
    found = []
    for model, size in (("bert", "1.3B"), ("bert", "2.6B"), ("moe", "690M")):
        for batch in (128, 256):
            for shape in (Shape("a100", 1, 1), Shape("a100", 1, 4), Shape("a10", 4, 2)):
                for plan in plans_of(shape.gpus):
                    scale = 2.0 if size == "2.6B" else 1.0
                    parts = PlanParts(
                        scale * batch / shape.gpus * plan.tensor**0.2,
                        0.3 * plan.tensor**0.5 * shape.nodes if plan.data * plan.tensor > 1 else 0,
                        0.1 * plan.pipeline if plan.pipeline > 1 else 0.0,
                    )
                    found.append(MeasuredPlan(Training(model, size, batch), shape, plan, parts))
    order = random.permutation(len(found))
    return [found[index] for index in order]


def test_a_model_of_products_of_powers_is_found_again() -> None:
    """To the small bias of the ridge, in every part."""
    measured = made_up()
    model = fit_plan_model(measured)
    for one in measured:
        parts = model.parts(one.training, one.shape, one.plan)
        assert parts == pytest.approx(one.parts, rel=0.02, abs=1e-12)
        assert parts.total == pytest.approx(sum(parts))


def test_the_order_of_measurements_does_not_matter() -> None:
    """Nor does a repetition of all of them, but for the ridge."""
    one, other = fit_plan_model(made_up(0)), fit_plan_model(made_up(1))
    for name, coefficients in one.coefficients.items():
        assert other.coefficients[name] == pytest.approx(coefficients, abs=1e-8)


def test_what_was_left_out_is_predicted_from_the_others() -> None:
    """Other trainings tell how fast a shape is."""
    measured = made_up()
    predicted = held_out_seconds(measured, folds=6)
    true = np.array([one.parts.total for one in measured])
    assert np.abs(predicted / true - 1.0).max() < 0.3


def test_parts_that_a_plan_does_not_have_take_no_time() -> None:
    """No communication on one GPU, none between the stages of one stage."""
    model = fit_plan_model(made_up())
    alone = model.parts(BERT, Shape("a100", 1, 1), ExecutionPlan(1, 1, 1))
    assert alone.within_stages == alone.between_stages == 0.0
    assert part_name("within_stages", ExecutionPlan(4, 1, 1)) == ""
    assert part_name("within_stages", ExecutionPlan(1, 2, 2)) == "within_stages data tensor"
    assert part_name("between_stages", ExecutionPlan(1, 8, 1)) == ""


def test_the_fastest_plan_of_a_model_is_the_least_of_all() -> None:
    """Of those that are allowed."""
    model = fit_plan_model(made_up())
    shape = Shape("a100", 1, 4)
    best = model.fastest(BERT, shape)
    totals = {plan: model.parts(BERT, shape, plan).total for plan in plans_of(4)}
    assert best is not None
    assert best.seconds == min(totals.values()) == totals[best.plan or plans_of(1)[0]]
    data = model.fastest(BERT, shape, lambda plan: plan.data == 4)
    assert data is not None
    assert data.plan == ExecutionPlan(1, 4, 1)
    assert model.fastest(BERT, shape, lambda _: False) is None


def test_nothing_to_fit_is_refused() -> None:
    """In one sentence; an empty model predicts one second a part."""
    with pytest.raises(ValueError, match="expected at least one"):
        fit_plan_model([])
    assert PlanModel({}).parts(BERT, Shape("a", 1, 1), ExecutionPlan(1, 1, 1)).total == 128.0


def state(name: str, speeds: dict[Configuration, float]) -> PlanState:
    """Return a waiting job."""
    job = PlanJob(name, BERT, 0.0, 10.0, min(speeds))
    return PlanState(job, speeds, None, 10.0, 0.0, -1)


def test_every_broken_rule_of_a_decision_is_told() -> None:
    """Unknown jobs, configurations without a plan, too many GPUs, unknown types."""
    one, two, other = Configuration("a", 1), Configuration("a", 2), Configuration("b", 1)
    jobs = (state("x", {one: 1.0, two: 1.5}), state("y", {two: 1.0, other: 0.5}))
    round_ = PlanRound(0.0, {"a": 3}, jobs)
    assert plan_violations(round_, {"x": one, "y": two}) == []
    assert "is not there" in plan_violations(round_, {"z": one})[0]
    assert "has no plan" in plan_violations(round_, {"y": one})[0]
    assert plan_violations(round_, {"x": two, "y": two}) == [
        "4 GPUs 'a' are to be used; there are 3."
    ]
    assert "there are 0" in plan_violations(round_, {"y": other})[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [("submission", -1.0), ("submission", math.nan), ("steps", 0.0), ("steps", math.inf)],
)
def test_impossible_jobs_are_refused(field: str, value: float) -> None:
    """The sentence names the job and the number."""
    given = {"submission": 0.0, "steps": 1.0, field: value}
    with pytest.raises(ValueError, match=f"Job 'a': {field}"):
        PlanJob("a", BERT, given["submission"], given["steps"], Configuration("a", 1))


def test_rounds_with_jobs_of_one_name_or_without_speeds_are_refused() -> None:
    """One sentence names the job."""
    one = state("x", {Configuration("a", 1): 1.0})
    with pytest.raises(ValueError, match="job 'x' is there twice"):
        PlanRound(0.0, {"a": 2}, (one, one))
    with pytest.raises(ValueError, match="Job 'x': speeds are empty"):
        PlanState(one.job, {}, None, 1.0, 0.0, -1)
    with pytest.raises(ValueError, match="Type 'a': GPUs of a node are missing"):
        plan_instance(PlanRound(0.0, {"a": 2}, (one,)), {}, Rules())


def test_a_restart_costs_by_gpu_up_to_a_limit() -> None:
    """As stated."""
    assert [PlanRestarts(10.0, 40.0).seconds(gpus) for gpus in (1, 2, 4, 16)] == [10, 20, 40, 40]
