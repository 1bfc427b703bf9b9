"""The study of ways to ideal schedules: every way is there, and nodes lose what they must."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.hindsight.placed_replay import HOLDS, Planner
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.schedules import (
    SCHEDULES,
    WAYS,
    ScheduleRow,
    lost_to_nodes,
    replayed_value,
    schedules_by_way,
)
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.hindsight.schedule_search import rule_of_thumb
from goodalloc.solvers.hindsight_schedules.exact_windows import WindowSearch
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_every_way_makes_a_schedule_above_the_bound(tmp_path: Path) -> None:
    """Those that go on from another are no worse; and the picture is drawn."""
    problem = tiny_trace(5)
    bound = hindsight_bound(problem, (Stage(UNIT, (20.0, 5.0, 1.0), 20),))
    windows = (WindowSearch(seconds=3 * UNIT, step=UNIT, windows=2),)
    made = [*schedules_by_way(problem, bound, 20, windows)]
    assert tuple(one.way for one in made) == WAYS
    assert min(one.value for one in made) >= bound.value
    rules, multipliers, points, search, from_alpha, exact = (one.value for one in made)
    assert search <= min(rules, multipliers)
    assert from_alpha <= points
    assert exact <= search
    assert made[-1].solved + made[-1].unsolved <= 2
    assert [one.way for one in made if one.worths is None] == [WAYS[-1]]
    rows = [
        ScheduleRow(
            6, 3, one.way, one.value, 100 * (one.value / bound.value - 1), None, 1.0, 0, 0, 0, 0
        )
        for one in made
    ]
    SCHEDULES.plot(Plan(tmp_path), rows).savefig(tmp_path / "ways.png")
    assert (tmp_path / "ways.png").stat().st_size > 10_000


def test_the_worths_of_a_schedule_are_replayed_as_the_best_of_their_plans() -> None:
    """Of those by any time that allocations are to last; above the bound on schedules."""
    applications, setting = profiled_applications(), Setting(Cluster.uniform(2, 4))
    drawn = draw_workload(3, jobs=60)
    jobs = tuple(job for job in drawn if job.application in {"ncf", "cifar10"})[:8]
    problem = replayed_problem(jobs, applications, setting)
    planner = Planner(problem, jobs, applications, setting)
    worths = rule_of_thumb(problem, 3.0, 0.5)
    plans = [problem.total(planner.scheduler(hold).run(worths)) for hold in HOLDS]
    found = replayed_value(problem, planner, worths)
    assert found == pytest.approx(min(plans))
    assert len(set(plans)) > 1
    assert found > hindsight_bound(problem, (Stage(300.0, (10.0,), 20),)).value


@pytest.mark.parametrize(
    ("gpus", "lost"),
    [((3,), 1 / 3), ((7,), 1 / 7), ((4,), 0.0), ((2,), 0.0), ((3, 1), 0.0), ((3, 3, 1), 1 / 7)],
)
def test_only_pieces_of_three_gpus_without_one_of_one_lose_a_gpu(
    gpus: tuple[int, ...], lost: float
) -> None:
    """Of jobs alone that can run on one number of GPUs each, all at the same time."""
    trainings = tuple(
        Training(f"job {index}", np.array([60.0]), np.array([float(number)]), np.ones((1, 1, 1)))
        for index, number in enumerate(gpus)
    )
    jobs = tuple(OfflineJob(one.name, one.name, 0.0, 0.0) for one in trainings)
    problem = OfflineProblem(trainings, jobs, Supply.constant({"t4": 16.0}))
    bound = hindsight_bound(problem, (Stage(20.0, (1.0, 0.1), 20),))
    assert lost_to_nodes(problem, bound) == pytest.approx(lost, abs=0.02)
