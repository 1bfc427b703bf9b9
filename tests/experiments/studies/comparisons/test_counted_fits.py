"""Measured configurations and fits are those that the agents of a replay make."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.job_modes import fit_tables
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.comparisons.counted_fits import (
    COUNTED_FITS,
    WAYS,
    FitRow,
    count_fits,
)
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.experiments.replay.replay_conditions import Knowledge


def replayed(knowledge: Knowledge) -> Simulator:
    """A replay of few jobs, several of the same application."""
    workload = [replace(job, application="cifar10", batch_size=128) for job in draw_workload(3)[:6]]
    setting = Setting(Cluster.uniform(2, 4), knowledge=knowledge)
    return Simulator(workload, applications_of(None), make_policy("pollux"), setting)


@pytest.mark.parametrize("knowledge", ["explored", "history", "similar"])
def test_as_many_fits_are_counted_as_agents_make(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the jobs know; those that explore fit whenever they measure."""
    fitted = []

    def spy(tables: Sequence[Any]) -> Any:
        fitted.append(len(tables))
        return fit_tables(tables)

    monkeypatch.setattr("goodalloc.experiments.replay.agents.fit_tables", spy)
    counted = count_fits(replayed(knowledge))
    assert counted.fits == sum(fitted)
    assert (counted.measured == counted.fits) == (knowledge == "explored")


def test_jobs_with_experience_measure_less() -> None:
    """Than those that explore."""
    explored, known = (count_fits(replayed(one)) for one in ("explored", "history"))
    assert known.measured < explored.measured


def test_the_share_that_is_done_is_reported_and_the_picture_drawn(tmp_path: Path) -> None:
    """The share ends at all."""
    shares: list[float] = []
    count_fits(replayed("explored"), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    rows = [FitRow(6, 6, way.label, 5.0, 6.0, -10.0, -5.0, 1.2) for way in WAYS]
    COUNTED_FITS.plot(Plan(tmp_path), rows).savefig(tmp_path / "fits.png")
    assert (tmp_path / "fits.png").stat().st_size > 5_000
