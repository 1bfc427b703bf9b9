"""Policies for jobs with execution plans above the bound on any schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.plans import draw_plan_jobs, shipped_plan_times
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND
from goodalloc.experiments.studies.plans import arena_replay
from goodalloc.experiments.studies.plans.arena_above_bound import (
    PLANS_ABOVE,
    plot_plans_above,
    steady_plan_jobs,
)
from goodalloc.experiments.studies.plans.arena_replay import cluster_of
from goodalloc.solvers.interface import Stop
from goodalloc.solvers.steady_jobs import price_search, steady_jobs_bound
from tests.support.hindsight.one_stage import search_in_one_stage

if TYPE_CHECKING:
    from pathlib import Path


def test_no_policy_is_below_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a drawn workload on few GPUs; the figure has a mark for every policy."""
    search_in_one_stage(monkeypatch, coarseness=2.0)
    monkeypatch.setattr(price_search, "MOST_STEPS", 10)
    monkeypatch.setattr(arena_replay, "QUICK_JOBS", 15)
    plan = Plan(tmp_path, quick=True, workloads=(1,))
    for task in PLANS_ABOVE.tasks(plan):
        task.run(lambda _: None)
    rows = PLANS_ABOVE.rows(plan)
    assert [row.policy for row in rows] == [*arena_replay.POLICIES, BOUND]
    assert min(row.above_bound_percent for row in rows) == rows[-1].above_bound_percent == 0
    assert {row.trace for row in rows} == {"drawn 1"}
    assert {row.knows for row in rows} == {"nothing", "true remaining", "all"}
    (ax,) = plot_plans_above(rows).axes
    assert len(ax.get_yticks()) == len(arena_replay.POLICIES)
    assert PLANS_ABOVE.shown is not None
    assert PLANS_ABOVE.shown(rows)[-1]["above the bound (%)"] == 0


def test_jobs_are_as_fast_as_by_their_plans() -> None:
    """Their first decision counts, and the restart on their GPUs; these are the cluster's."""
    times, cluster = shipped_plan_times(), cluster_of(("a100", "a40"), share=40)
    jobs = draw_plan_jobs(3, 10, times, cluster.node_gpus, jobs_per_hour=20.0)
    problem = steady_plan_jobs(times, cluster, jobs)
    assert problem.supply.tolist() == [cluster.capacity[name] for name in ("a100", "a40")]
    rounds = problem.begin / 300.0
    assert rounds == pytest.approx(rounds.round(), rel=2e-9)
    assert (problem.begin >= problem.release).all()
    assert (problem.begin - problem.release < 300.0).all()
    delays, seconds = problem.first_work - problem.begin, problem.first_end - problem.begin
    for job, delay, least in zip(jobs, delays, seconds, strict=True):
        speeds = {
            one: speed
            for one, speed in times.speeds(job.training, cluster.node_gpus).items()
            if one.gpus <= cluster.capacity[one.gpu_type]
        }
        restarts = {one: min(10.0 * one.gpus, 40.0) for one in speeds}
        assert delay == pytest.approx(min(restarts.values()), rel=1e-9)
        alone = [restarts[one] + job.steps / speed for one, speed in speeds.items()]
        assert least == pytest.approx(min(alone), rel=1e-9)
    for kind, index in {int(kind): i for i, kind in enumerate(problem.kind)}.items():
        speeds = times.speeds(jobs[index].training, cluster.node_gpus)
        told = sorted(
            (speed, one.gpus * (one.gpu_type == "a100"), one.gpus * (one.gpu_type == "a40"))
            for one, speed in speeds.items()
            if one.gpus <= cluster.capacity[one.gpu_type]
        )
        own = problem.kinds[kind]
        assert sorted(zip(own.rates, *own.uses.T, strict=True)) == told


def test_the_bound_of_a_crowded_trace_is_above_the_time_of_the_jobs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixty jobs an hour on few GPUs."""
    search_in_one_stage(monkeypatch, coarseness=2.0)
    times, cluster = shipped_plan_times(), cluster_of(("a100", "a40"), share=40)
    jobs = draw_plan_jobs(3, 8, times, cluster.node_gpus, jobs_per_hour=60.0)
    problem = steady_plan_jobs(times, cluster, jobs)
    assert steady_jobs_bound(problem, 3600.0, Stop(iterations=20)).value > 1.05 * problem.lone_value
