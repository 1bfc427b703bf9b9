"""The study of exact and genetic decisions under errors of the measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.studies.comparisons import noisy_decisions
from goodalloc.experiments.studies.comparisons.noisy_decisions import (
    DIFFERENCE,
    NOISY_DECISIONS,
    mean_losses,
    plot_losses,
)
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux.studies import EXACT, GENETIC, MUCH

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.replay.replay_task import ReplayTask


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two quick workloads and three seeds."""
    return Plan(tmp_path, workloads=(1, 2), seeds=(0, 1, 2), quick=True)


def test_only_the_genetic_algorithm_is_replayed_with_every_seed(plan: Plan) -> None:
    """Each once with and once without errors."""
    tasks: list[ReplayTask] = list(NOISY_DECISIONS.tasks(plan))  # type: ignore[arg-type]
    kinds = [(task.policy, task.setting.noise == MUCH) for task in tasks]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        ("pollux", False): 2,
        ("pollux", True): 2,
        ("pollux-genetic", False): 6,
        ("pollux-genetic", True): 6,
    }
    assert len({task.folder for task in tasks}) == len(tasks)


def test_losses_are_of_means_over_the_seeds_and_paired_by_workload(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of 1 become 1.1 for exact, and the mean of 1.2, 1.3 and 1.4 for genetic decisions."""
    tasks: list[ReplayTask] = list(NOISY_DECISIONS.tasks(plan))  # type: ignore[arg-type]
    found = {
        task.folder: 1.0
        if task.setting.noise != MUCH
        else (1.1 if task.policy == "pollux" else 1.2 + task.seed / 10)
        for task in tasks
    }
    monkeypatch.setattr(
        noisy_decisions, "replayed", lambda folder: SimpleNamespace(average_hours=found[folder])
    )
    rows = NOISY_DECISIONS.rows(plan)
    assert [(row.way, row.seeds) for row in rows[:3]] == [
        (EXACT.label, 1),
        (GENETIC.label, 3),
        (DIFFERENCE, 3),
    ]
    np.testing.assert_allclose([row.loss_percent for row in rows[:3]], [10.0, 30.0, -20.0])
    assert [row["loss (%)"] for row in mean_losses(rows)] == [
        "+10.0 ± 0.0",
        "+30.0 ± 0.0",
        "-20.0 ± 0.0",
    ]
    drawn = [np.asarray(line.get_xdata()) for line in plot_losses(rows).axes[0].lines[:2]]
    np.testing.assert_allclose(np.stack(drawn), [[10.0, 10.0], [30.0, 30.0]])
