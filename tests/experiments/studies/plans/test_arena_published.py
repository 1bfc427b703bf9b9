"""What of Arena's comparison comes out: times of data parallelism, and the three ways to count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.plans.data_parallel import data_parallel_times
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.plans import arena_published as study
from goodalloc.models.plans.execution_plan import ExecutionPlan, Shape, Training
from goodalloc.models.plans.plan_model import MeasuredPlan, PlanParts
from goodalloc.models.plans.plan_times import PlanTimes, TimedPlan

if TYPE_CHECKING:
    from pathlib import Path

SMALL, LARGE = Training("moe", "690M", 256), Training("moe", "2.4B", 256)
SHAPE, OTHER = Shape("a100", 1, 4), Shape("v100", 1, 4)

MEASURED = """model,parameters,global_batch,gpu_type,nodes,gpus_per_node,iteration_s
moe,690M,256,a100,1,1,4.0
moe,690M,256,a100,1,2,2.0
moe,2.4B,256,a100,1,2,8.0
"""
PARTS = "computation_s,intra_stage_communication_s,inter_stage_communication_s,iteration_s"
ESTIMATED = f"""model,parameters,global_batch,gpu_type,nodes,gpus_per_node,pp,dp,tp,{PARTS}
moe,690M,256,a100,1,2,1,2,1,3.0,1.0,0.0,4.0
moe,690M,256,a100,1,2,1,1,2,1.0,1.0,0.0,2.0
moe,2.4B,256,a100,1,2,1,2,1,3.0,1.0,0.0,4.0
"""
TRACE = """job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,gpu_type
a,0,5000,moe__690M,256,1,a100
b,3600,5000,moe__2.4B,256,2,a100
c,36000,5000,moe__690M,256,2,a100
"""


def plan_of(training: Training, shape: Shape, plan: ExecutionPlan, seconds: float) -> MeasuredPlan:
    """An estimated plan."""
    return MeasuredPlan(training, shape, plan, PlanParts(seconds, 0.0, 0.0))


@given(fast=st.floats(0.1, 10.0), slower=st.floats(1.0, 5.0), measured=st.floats(0.1, 10.0))
def test_data_parallelism_is_as_much_slower_as_was_estimated(
    fast: float, slower: float, measured: float
) -> None:
    """Than the fastest plan; the measured time stands where there is no estimate."""
    plans = [
        plan_of(SMALL, SHAPE, ExecutionPlan(2, 2, 1), fast),
        plan_of(SMALL, SHAPE, ExecutionPlan(1, 4, 1), fast * slower),
    ]
    shapes = (SHAPE, OTHER)
    times = PlanTimes.of(TimedPlan(SMALL, shape, None, measured) for shape in shapes)
    found = data_parallel_times(times, plans, 2e9).best[SMALL]
    assert found[SHAPE].seconds == pytest.approx(measured * slower)
    assert found[SHAPE].plan == ExecutionPlan(1, 4, 1)
    assert found[OTHER].seconds == measured


def test_what_does_not_fit_runs_nowhere() -> None:
    """Models above the limit, and shapes of which other plans alone were estimated."""
    times = PlanTimes.of(TimedPlan(one, SHAPE, None, 2.0) for one in (SMALL, LARGE))
    assert data_parallel_times(times, [], 2e9).trainings == (SMALL,)
    assert data_parallel_times(times, [], 1e8).trainings == ()
    pipeline = [plan_of(SMALL, SHAPE, ExecutionPlan(4, 1, 1), 1.0)]
    assert data_parallel_times(times, pipeline, 1e10).trainings == (LARGE,)


def test_jobs_that_cannot_run_count_to_the_last_submission(tmp_path: Path) -> None:
    """By hand: b waits nine hours, a and c run alone; Arena has all plans."""
    for name, text in (
        ("measured.csv", MEASURED),
        ("estimated_plans.csv", ESTIMATED),
        ("simulate_trace_philly.csv", TRACE),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    plan = Plan(tmp_path / "out", workloads=(1,), artifact=tmp_path)
    for task in study.ARENA_PUBLISHED.tasks(plan):
        task.run(lambda _: None)
    rows = study.ARENA_PUBLISHED.rows(plan)
    assert [(row.policy, row.plans) for row in rows] == [*study.WAYS]
    for row in rows:
        waits = 9.0 if row.plans == "data parallel" else 0.0
        assert row.never == (row.plans == "data parallel")
        ended = row.average_jct_hours * row.jobs
        assert row.counted_jct_hours == pytest.approx((ended + waits) / 3, rel=1e-4)
        assert row.arena_below_counted_percent == pytest.approx(
            100.0 * (1.0 - rows[0].counted_jct_hours / row.counted_jct_hours), abs=1e-2
        )
    assert rows[0].arena_below_percent == 0.0
    slow, fast = (row for row in rows if row.policy == "sia one by one")
    assert (slow.plans, fast.plans) == ("all", "data parallel")
    summary = study.summarise_published(rows)
    assert [one.published_percent for one in summary] == [None, 75.0, 75.0, 77.0, 77.0]
    assert summary[2].never_percent.mean == pytest.approx(100.0 / 3.0, rel=1e-4)
    (ax,) = study.ARENA_PUBLISHED.plot(plan, rows).axes
    assert len(ax.get_yticklabels()) == 4


def test_without_the_tables_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """One sentence says what is expected."""
    with pytest.raises(ValueError, match="--artifact: expected the folder of Arena's tables"):
        study.require_published_tables(Plan(tmp_path))
