"""Measured configurations and fits are those that the agents of a replay make."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from goodalloc.experiments.studies.comparisons.counted_fits import Counted


def replayed(knowledge: Knowledge) -> Simulator:
    """A replay of few jobs, several of the same application."""
    workload = [replace(job, application="cifar10", batch_size=128) for job in draw_workload(3)[:4]]
    setting = Setting(Cluster.uniform(2, 4), knowledge=knowledge)
    return Simulator(workload, applications_of(None), make_policy("pollux"), setting)


class Watched(NamedTuple):
    """What is counted of a replay, the fits that its agents made, and the shares reported."""

    counted: Counted
    fitted: int
    shares: list[float]


@cache
def watched(knowledge: Knowledge) -> Watched:
    """A replay to its end."""
    fitted = []
    shares: list[float] = []

    def spy(tables: Sequence[Any]) -> Any:
        fitted.append(len(tables))
        return fit_tables(tables)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goodalloc.experiments.replay.agents.fit_tables", spy)
        counted = count_fits(replayed(knowledge), shares.append)
    return Watched(counted, sum(fitted), shares)


@pytest.mark.parametrize("knowledge", ["explored", "history", "similar"])
def test_as_many_fits_are_counted_as_agents_make(knowledge: Knowledge) -> None:
    """Whatever the jobs know; those that explore fit whenever they measure."""
    counted, fitted, _ = watched(knowledge)
    assert counted.fits == fitted
    assert (counted.measured == counted.fits) == (knowledge == "explored")


def test_jobs_with_experience_measure_less() -> None:
    """Than those that explore."""
    assert watched("history").counted.measured < watched("explored").counted.measured


def test_the_share_that_is_done_is_reported_and_the_picture_drawn(tmp_path: Path) -> None:
    """The share ends at all."""
    shares = watched("explored").shares
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    rows = [FitRow(6, 6, way.label, 5.0, 6.0, -10.0, -5.0, 1.2) for way in WAYS]
    COUNTED_FITS.plot(Plan(tmp_path), rows).savefig(tmp_path / "fits.png")
    assert (tmp_path / "fits.png").stat().st_size > 5_000
