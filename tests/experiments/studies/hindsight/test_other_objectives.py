"""Policies above the bounds of other objectives: rows of a little day, table and picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.reporting.table_numbers import HOUR
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, IDEAL
from goodalloc.experiments.studies.hindsight.other_objectives import (
    DUE,
    MAKESPAN,
    OBJECTIVES,
    SLOWDOWN,
    ObjectivesTask,
    late_name,
    values_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.hindsight.other_objectives import (
        ObjectiveRow,
    )

SHORT = {"ncf", "cifar10"}
JOBS = tuple(job for job in draw_workload(3, jobs=60) if job.application in SHORT)[:6]


class SmallPlan(Plan):
    """Plan whose workload is a few short jobs."""

    def workload(self, *_: object, **__: object) -> tuple[Submission, ...]:
        """Return them."""
        return JOBS


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[ObjectiveRow]:
    """Rows of the day under the policies of a quick run."""
    plan = SmallPlan(tmp_path_factory.mktemp("objectives"), quick=True)
    for task in OBJECTIVES.tasks(plan):
        task.run(lambda _: None)
    return OBJECTIVES.rows(plan)


def test_no_policy_and_no_schedule_is_below_the_bound_of_any_objective(
    rows: list[ObjectiveRow],
) -> None:
    """A row for every objective, policy, schedule and bound."""
    objectives = (SLOWDOWN, *map(late_name, DUE), MAKESPAN)
    assert {row.objective for row in rows} == {*objectives}
    for objective in objectives:
        own = {row.policy: row for row in rows if row.objective == objective}
        assert [*own] == ["pollux", "tiresias", IDEAL, BOUND]
        bound = own[BOUND].value
        assert all(row.value >= bound for row in own.values())
        if bound:
            above = [row.above_bound_percent for row in own.values()]
            expected = [100.0 * (row.value / bound - 1.0) for row in own.values()]
            assert above == pytest.approx(expected, abs=1e-3)
    bounds = {row.objective: row.value for row in rows if row.policy == BOUND}
    assert bounds[SLOWDOWN] > 0.0
    assert bounds[MAKESPAN] > 0.0


def test_values_are_those_of_the_completion_times() -> None:
    """Slowdown and lateness by hand, for two jobs."""
    jobs = JOBS[:2]
    alone, release = np.array([100.0, 200.0]), np.array([job.time for job in jobs])
    ends = release + np.array([150.0, 390.0])
    values = values_of(jobs, alone, ends)
    assert values[SLOWDOWN] == pytest.approx((1.5 + 1.95) / 2)
    assert (values[late_name(1.2)], values[late_name(2.0)]) == (2, 0)
    assert values[MAKESPAN] == pytest.approx(ends.max() / HOUR)


def test_the_table_has_a_row_for_every_policy_and_the_picture_a_panel_for_every_objective(
    rows: list[ObjectiveRow],
) -> None:
    """With the bound as a line."""
    table = pd.DataFrame(OBJECTIVES.shown(rows))
    assert table.policy.tolist() == ["pollux", "tiresias", IDEAL, BOUND]
    figure = OBJECTIVES.plot(Plan(None), rows)  # type: ignore[arg-type]
    assert [ax.get_xlabel() for ax in figure.axes] == table.columns[2:].tolist()


def test_a_day_is_described_by_its_jobs_and_the_search(tmp_path: Path) -> None:
    """So that its record serves no other."""
    one = ObjectivesTask(tmp_path, JOBS, None, 10)
    others = (ObjectivesTask(tmp_path, JOBS[1:], None, 10), ObjectivesTask(tmp_path, JOBS, None, 9))
    assert all(one.description() != other.description() for other in others)
