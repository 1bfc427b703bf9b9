"""Published plans and traces: what is read, what is refused, and what ships."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.derivation.fit_plans import derive_plan_model, main
from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.plans import (
    arena_cluster,
    draw_plan_jobs,
    read_estimated_plans,
    read_measured_times,
    read_plan_trace,
    shipped_plan_model,
    shipped_plan_times,
    times_of,
)
from goodalloc.data.plans.shipped_plans import SHIPPED
from goodalloc.models.plans import Configuration, ExecutionPlan, Shape, Training

if TYPE_CHECKING:
    from pathlib import Path

MEASURED = "model,parameters,global_batch,gpu_type,nodes,gpus_per_node,iteration_s"
ESTIMATED = (
    "model,parameters,global_batch,gpu_type,nodes,gpus_per_node,pp,dp,tp,computation_s,"
    "intra_stage_communication_s,inter_stage_communication_s,iteration_s"
)
TRACE = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type"
NODE_GPUS = {"a100": 4, "a40": 2, "a10": 2}


def write(folder: Path, name: str, *lines: str) -> Path:
    """Write a table, and return its path."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_measured_times_leave_out_what_could_not_run(tmp_path: Path) -> None:
    """A time of -1 marks it."""
    rows = "moe,690M,256,a100,1,1,3.5", "moe,690M,256,a100,1,2,-1"
    write(tmp_path, "measured.csv", MEASURED, *rows)
    times = read_measured_times(tmp_path)
    moe = Training("moe", "690M", 256)
    assert times.speeds(moe, NODE_GPUS) == {Configuration("a100", 1): pytest.approx(1 / 3.5)}
    assert times.plan(moe, Shape("a100", 1, 1)) is None


def test_estimated_plans_have_their_parts(tmp_path: Path) -> None:
    """Infinite ones are left out; the fastest counts."""
    rows = (
        "bert,1.3B,128,a100,1,2,1,1,2,5.5,1.5,0.0,7.0",
        "bert,1.3B,128,a100,1,2,1,2,1,5.0,0.5,0.0,5.5",
        "bert,1.3B,128,a100,1,2,2,1,1,inf,0.0,,inf",
    )
    write(tmp_path, "estimated_plans.csv", ESTIMATED, *rows)
    plans = read_estimated_plans(tmp_path)
    assert [one.parts.total for one in plans] == [7.0, 5.5]
    best = times_of(plans).plan(Training("bert", "1.3B", 128), Shape("a100", 1, 2))
    assert best == ExecutionPlan(1, 2, 1)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("moe,690,256,a100,1,1,3.5", "parameters is '690'"),
        ("moe,690M,0,a100,1,1,3.5", "global_batch is '0'"),
        ("moe,690M,256,a100,0,1,3.5", "nodes is '0'"),
        ("moe,690M,256,a100,1,1.5,3.5", r"gpus_per_node is '1\.5'"),
        ("moe,690M,256,a100,1,1,fast", "iteration_s is 'fast'"),
        ("moe,690M,256,a100,1,1,0", "iteration_s is '0'"),
    ],
)
def test_cells_that_are_not_what_they_should_be_are_refused(
    row: str, complaint: str, tmp_path: Path
) -> None:
    """With file, line, column and cell."""
    write(tmp_path, "measured.csv", MEASURED, row)
    with pytest.raises(ValueError, match=complaint):
        read_measured_times(tmp_path)


def test_plans_for_other_numbers_of_gpus_are_refused(tmp_path: Path) -> None:
    """Their degrees multiply to something else."""
    row = "bert,1.3B,128,a100,1,2,2,2,1,5.0,0.5,0.1,5.6"
    write(tmp_path, "estimated_plans.csv", ESTIMATED, row)
    with pytest.raises(ValueError, match="multiply to 2 GPUs"):
        read_estimated_plans(tmp_path)


def test_a_trace_is_read_in_order_of_submission(tmp_path: Path) -> None:
    """Times from the first, iterations divided by five."""
    rows = "b,1300,500,bert__1.3B,9,128,4,a40", "a,1000,100,moe__690M,9,256,1,a100"
    jobs = read_plan_trace(write(tmp_path, "trace.csv", TRACE, *rows))
    assert [(job.name, job.submission, job.steps) for job in jobs] == [
        ("a", 0.0, 20.0),
        ("b", 300.0, 100.0),
    ]
    assert jobs[1].training == Training("bert", "1.3B", 128)
    assert jobs[1].request == Configuration("a40", 4)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("a,1,5,bert,9,128,4,a40", "model_name is 'bert'"),
        ("a,-1,5,bert__1.3B,9,128,4,a40", "submission_time is '-1'"),
        ("a,1,0,bert__1.3B,9,128,4,a40", "num_iteration is '0'"),
        ("a,1,5,bert__1.3B,9,128,0,a40", "num_gpu is '0'"),
        ("a,1,5,bert__1.3B,9,128,4,a40\na,2,5,bert__1.3B,9,128,4,a40", "a name of its own"),
    ],
)
def test_bad_traces_are_refused(row: str, complaint: str, tmp_path: Path) -> None:
    """In one sentence each."""
    with pytest.raises(ValueError, match=complaint):
        read_plan_trace(write(tmp_path, "trace.csv", TRACE, row))


def test_the_shipped_model_is_what_its_derivation_makes(reference: Path, tmp_path: Path) -> None:
    """To ten digits, since solvers of linear systems differ in the last."""
    main(["--reference", str(reference), "--out", str(tmp_path / "plans.json")])
    made = json.loads((tmp_path / "plans.json").read_text(encoding="utf-8"))
    shipped = json.loads(read_shipped(SHIPPED))
    for name, coefficients in shipped.pop("coefficients").items():
        assert made["coefficients"][name] == pytest.approx(coefficients, rel=1e-8, abs=1e-8)
    for name, families in shipped.pop("errors").items():
        for family, errors in families.items():
            assert made["errors"][name][family] == pytest.approx(errors, rel=1e-8)
    assert {name: made[name] for name in shipped} == shipped


def test_the_published_tables_and_traces_are_read(reference: Path) -> None:
    """As many plans and jobs as are there, and every job can run as requested."""
    folder = reference / "arena"
    plans = read_estimated_plans(folder)
    assert len(plans) == 2054
    times = read_measured_times(folder)
    assert sum(map(len, times.best.values())) == 318
    filled = times.with_smaller_models(1.8)
    node_gpus = {"a100": 4, "v100": 16, "a40": 2, "a10": 2}
    for name, count in (("philly", 1938), ("venus", 438), ("pai", 125)):
        jobs = read_plan_trace(folder / f"simulate_trace_{name}.csv")
        assert len(jobs) == count
        assert all(job.request in filled.speeds(job.training, node_gpus) for job in jobs)


def test_a_folder_without_the_table_is_refused_by_the_derivation(tmp_path: Path) -> None:
    """It says what it expects."""
    with pytest.raises(ValueError, match=r"arena/estimated_plans\.csv"):
        derive_plan_model(tmp_path)


def test_the_shipped_plans_are_faster_on_more_gpus_of_a_node() -> None:
    """For every training on A100s, by the model."""
    for training in shipped_plan_times().trainings:
        speeds = shipped_plan_times().speeds(training, NODE_GPUS)
        one_node = [
            speeds[one] for one in sorted(speeds) if one.gpu_type == "a100" and one.gpus <= 4
        ]
        assert one_node == sorted(one_node)
    assert set(shipped_plan_model().coefficients) == {
        "computation",
        "within_stages data",
        "within_stages tensor",
        "within_stages data tensor",
        "between_stages",
    }


def test_drawn_jobs_are_possible_and_the_same_for_a_seed() -> None:
    """And others for another seed."""
    times = shipped_plan_times()
    jobs = draw_plan_jobs(3, 50, times, NODE_GPUS)
    assert jobs == draw_plan_jobs(3, 50, times, NODE_GPUS)
    assert jobs != draw_plan_jobs(4, 50, times, NODE_GPUS)
    assert all(job.request in times.speeds(job.training, NODE_GPUS) for job in jobs)
    assert np.all(np.diff([job.submission for job in jobs]) >= 0)
    assert arena_cluster().num_gpus == 1280


@pytest.mark.parametrize("given", [{"jobs": 0}, {"jobs_per_hour": 0.0}])
def test_empty_workloads_are_refused(given: dict[str, float]) -> None:
    """In one sentence."""
    options = {"jobs": 5, **given}
    with pytest.raises(ValueError, match=r"Workload: jobs"):
        draw_plan_jobs(
            0,
            int(options["jobs"]),
            shipped_plan_times(),
            NODE_GPUS,
            jobs_per_hour=options.get("jobs_per_hour", 1.0),
        )
