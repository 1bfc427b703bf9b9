"""Replays of jobs with execution plans: their arithmetic, the study, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.plans import PlanSimulator, arena_replay
from goodalloc.experiments.studies.plans.arena_replay import (
    ARENA,
    POLICIES,
    ArenaTask,
    below_optimum,
    require_arena_tables,
)
from goodalloc.experiments.studies.plans.arena_report import plot_arena, ratio, summarise_arena
from goodalloc.models.plans import (
    Configuration,
    PlanJob,
    PlanRestarts,
    PlanRound,
    PlanState,
    PlanTimes,
    Shape,
    TimedPlan,
    Training,
)
from goodalloc.solvers.plans import FirstComePlans

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BERT = Training("bert", "1.3B", 128)
ONE, TWO = Configuration("a", 1), Configuration("a", 2)
TIMES = PlanTimes.of(
    [TimedPlan(BERT, Shape("a", 1, 1), None, 2.0), TimedPlan(BERT, Shape("a", 1, 2), None, 1.0)]
)


def job(name: str, submission: float, steps: float, request: Configuration = ONE) -> PlanJob:
    """Return a job of BERT."""
    return PlanJob(name, BERT, submission, steps, request)


def replay(jobs: list[PlanJob], **options: object) -> PlanSimulator:
    """Return a replay on two GPUs, first come, first served unless told otherwise."""
    given = {
        "policy": FirstComePlans(),
        "restarts": PlanRestarts(10.0, 40.0),
        **options,
    }
    return PlanSimulator(jobs, TIMES, {"a": 2}, {"a": 2}, **given)  # type: ignore[arg-type]


def test_a_job_ends_after_its_start_and_its_steps() -> None:
    """Ten seconds for a plan, a hundred steps of two seconds; the first round after it came."""
    (done,) = replay([job("x", 100.0, 100.0)]).run()
    assert (done.start, done.completion, done.restarts) == (300.0, 300.0 + 10.0 + 200.0, 0)
    assert done.gpu_seconds == pytest.approx(210.0)


def test_jobs_wait_for_each_other_and_rounds() -> None:
    """The second starts with the round after the first ended."""
    done = replay([job("x", 0.0, 400.0, TWO), job("y", 0.0, 100.0, TWO)]).run()
    assert [(one.name, one.start, one.completion) for one in done] == [
        ("x", 0.0, 420.0),
        ("y", 600.0, 720.0),
    ]


class Growing:
    """Policy that gives a job a second GPU after some rounds."""

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        return {round_.jobs[0].job.name: ONE if round_.time < 600.0 else TWO}


def test_steps_count_as_they_are_made_or_as_published() -> None:
    """Published: all time so far counts at the present speed, and short restarts are free."""
    jobs = [job("x", 0.0, 500.0)]
    (made,) = replay(jobs, policy=Growing()).run()
    # 590 s on one GPU make 295 steps; 205 more take 205 s after a restart of 20 s
    assert (made.completion, made.restarts) == (600.0 + 20.0 + 205.0, 1)
    (published,) = replay(jobs, policy=Growing(), credit="published").run()
    assert published.completion == 900.0  # 900 s at one step a second are more than 500


def test_published_restarts_of_more_than_a_round_cost_rounds() -> None:
    """Six hundred seconds: the first round is lost, then the rest of it is forgiven."""
    restarts = PlanRestarts(600.0, 600.0)
    (done,) = replay([job("x", 0.0, 100.0)], restarts=restarts, credit="published").run()
    assert done.completion == 600.0
    (made,) = replay([job("x", 0.0, 100.0)], restarts=restarts).run()
    assert made.completion == 800.0


class Greedy:
    """Policy that gives every job two GPUs."""

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        return {state.job.name: TWO for state in round_.jobs}


class Idle:
    """Policy that gives nobody anything."""

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        return {}


def test_impossible_decisions_and_policies_that_serve_nobody_are_refused() -> None:
    """Each in one sentence."""
    two = [job("x", 0.0, 1.0), job("y", 0.0, 1.0)]
    with pytest.raises(ValueError, match="Decision at 0 s: 4 GPUs 'a' are to be used; there are 2"):
        replay(two, policy=Greedy()).run()
    with pytest.raises(ValueError, match="'x' first, did not complete"):
        replay(two, policy=Idle()).run()
    with pytest.raises(ValueError, match=r"no plan of bert 39B 128 fits"):
        replay([PlanJob("z", Training("bert", "39B", 128), 0.0, 1.0, ONE)]).run()
    with pytest.raises(ValueError, match="credit"):
        replay(two, credit="none")


def test_what_a_decision_lacks_is_told_by_the_best_sum() -> None:
    """One of two GPUs left idle."""
    state = PlanState(job("x", 0.0, 9.0), {ONE: 0.5, TWO: 1.0}, None, 9.0, 0.0, -1)
    round_ = PlanRound(0.0, {"a": 2}, (state,))
    assert below_optimum(round_, {"x": ONE}) == pytest.approx(0.5, rel=1e-5)
    assert below_optimum(round_, {"x": TWO}) == pytest.approx(0.0, abs=1e-5)


def test_the_study_runs_on_drawn_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every policy, both terms; rows, table and figure; records are kept."""
    monkeypatch.setattr(arena_replay, "QUICK_JOBS", 6)
    plan = Plan(tmp_path, workloads=(1,), quick=True)
    tasks = ARENA.tasks(plan)
    for task in tasks:
        task.run(lambda _: None)
    rows = ARENA.rows(plan)
    assert len(rows) == len(tasks) == len(POLICIES) + 4
    assert {row.jobs for row in rows} == {6}
    assert max(row.worst_gap for row in rows) <= 1e-4
    arena = next(row for row in rows if row.policy == "arena")
    assert ratio(rows, arena) == 1.0
    assert arena.below_optimum_percent is not None
    assert arena.below_optimum_percent >= 0.0
    shown = summarise_arena(rows)
    assert len(shown) == len(rows)
    assert shown[0]["policy"] == "first come"
    target = tmp_path / "arena.png"
    plot_arena(rows).savefig(target)
    assert target.stat().st_size > 10_000
    task = tasks[0]
    assert isinstance(task, ArenaTask)
    kept = task.record()
    task.run()
    assert task.record() == kept
    assert REPRODUCTIONS["arena"] is ARENA


def test_other_folders_and_traces_are_refused(tmp_path: Path) -> None:
    """In one sentence each."""
    with pytest.raises(ValueError, match=r"has no file 'measured\.csv'"):
        require_arena_tables(Plan(tmp_path, artifact=tmp_path))
    (tmp_path / "measured.csv").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="Workload 4: expected a trace from 1 to 3"):
        require_arena_tables(Plan(tmp_path, workloads=(4,), artifact=tmp_path))
