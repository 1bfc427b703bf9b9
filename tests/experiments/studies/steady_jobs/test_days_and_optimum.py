"""Bound <= optimum of the time-indexed program <= every schedule and policy, on small days.

The stored result has thousands of them; a few are decided anew here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.documents import stored_rows
from goodalloc.experiments.studies.steady_jobs import days_and_optimum
from goodalloc.experiments.studies.steady_jobs.day_optimum import (
    CLOSED,
    KINDS,
    LONG,
    ON_REPLAYS,
    ON_SCHEDULES,
    PLANNED,
    RENTING,
    day_beside_optimum,
    day_of,
    edges_before,
    optimum_of,
    policies_for,
)
from goodalloc.experiments.studies.steady_jobs.days_and_optimum import (
    ANY,
    BEST,
    ROUNDING,
    rows_of_days,
)
from goodalloc.experiments.studies.steady_jobs.small_days import (
    RESTART,
    ROUND,
    gang_day,
    malleable_day,
)
from goodalloc.solvers import POLICIES
from tests.support.hindsight.optimum import optimum

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.steady_jobs.day_optimum import Kind

#: Policies that decide in no time.
FAST: dict[str, list[str]] = {
    "gangs": ["fifo", "srtf", "themis", "tiresias"],
    "malleable": ["allox", "hesrpt", "optimus", "srtf"],
    "two types": ["allox", "gavel", "sia"],
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_between_bounds_and_policies(kind: Kind, restarts: bool) -> None:
    """On days that the study does not draw."""
    days = [
        (jobs, day_beside_optimum(day_of(kind, seed, jobs, restarts=restarts), FAST[kind]))
        for seed, jobs in ((900, 2), (901, 3))
    ]
    rows = rows_of_days(kind, days, restarts=restarts)
    assert [row for row in rows if row.unsound] == []
    assert {row.name for row in rows} >= {ON_SCHEDULES, ON_REPLAYS, CLOSED, BEST, *FAST[kind]}
    assert (PLANNED in {row.name for row in rows}) == (kind == "malleable")
    bounds = [row for row in rows if row.name in (ON_SCHEDULES, ON_REPLAYS, CLOSED)]
    assert all(row.least > 0.2 for row in bounds)


def test_the_stored_days_are_two_thousand_and_none_is_unsound() -> None:
    """All policies that serve days of a kind are there, and every bound."""
    rows = stored_rows("hindsight-optimum")
    assert [row for row in rows if int(row["unsound"])] == []
    whole = [row for row in rows if row["jobs"] == ANY]
    assert sum(int(row["days"]) for row in whole if row["name"] == ON_SCHEDULES) >= 2000
    for kind in KINDS:
        named = {row["name"] for row in whole if row["kind"] == kind}
        assert named >= {ON_SCHEDULES, ON_REPLAYS, CLOSED, BEST, *policies_for(kind)}


def test_neither_side_of_the_stored_days_is_idle() -> None:
    """Some policy attains the optimum of many days, and the bound is near it on the mean."""
    rows = stored_rows("hindsight-optimum")
    whole = [row for row in rows if row["jobs"] == ANY and row["restarts"] == "no"]
    for row in whole:
        if row["name"] == BEST:
            assert float(row["attained_percent"]) > 15.0, row["kind"]
        if row["name"] == ON_SCHEDULES:
            assert float(row["over_optimum"]) > 0.8, row["kind"]


def _told(**averages: float) -> dict[str, Any]:
    return {"optimum": 100.0, "proved": 100.0, "averages": averages}


def test_a_bound_above_the_optimum_and_a_policy_below_it_are_counted() -> None:
    """The bound on replays may be above it where restarts cost time, but not above a policy."""
    names = {"bound_on_schedules": ON_SCHEDULES, "bound_on_replays": ON_REPLAYS}
    told = _told(srtf=99.0, fifo=120.0, bound_on_schedules=100.1, bound_on_replays=100.5)
    told["averages"] = {names.get(name, name): value for name, value in told["averages"].items()}

    def counted(*, restarts: bool) -> set[str]:
        rows = rows_of_days("gangs", [(2, told)], restarts=restarts)
        return {row.name for row in rows if row.jobs == ANY and row.unsound}

    assert counted(restarts=False) == {"srtf", BEST, ON_SCHEDULES, ON_REPLAYS}
    told["averages"]["srtf"] = 110.0
    assert counted(restarts=True) == {ON_SCHEDULES}
    told["averages"][ON_REPLAYS] = 110.1
    assert counted(restarts=True) == {ON_SCHEDULES, ON_REPLAYS}


def test_rows_are_means_for_each_number_of_jobs_and_for_all() -> None:
    """With the share of the days on which the optimum is attained."""
    days = [(2, _told(srtf=100.0)), (2, _told(srtf=110.0)), (3, _told(srtf=160.0))]
    found = {(row.jobs, row.name): row for row in rows_of_days("gangs", days, restarts=False)}
    assert found["2", "srtf"].over_optimum.mean == pytest.approx(1.05)
    assert (found["2", "srtf"].least, found["2", "srtf"].greatest) == (1.0, 1.1)
    assert found["3", "srtf"].days == 1
    row = found[ANY, BEST]
    assert row.days == 3
    assert row.attained_percent == pytest.approx(100.0 / 3.0, abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_a_longer_horizon_changes_no_optimum(seed: int) -> None:
    """The program ends where an optimum must have ended."""
    for day in (gang_day(seed, 3), malleable_day(seed, 2, restarts=seed % 2 == 1)):
        average = day.average("srtf")
        found = optimum_of(day.problem, average)
        edges = edges_before(day.problem, average)
        longer = np.concatenate([edges, edges[-1] + ROUND * np.arange(1.0, 4.0)])
        assert found.average == pytest.approx(optimum(day.problem, longer)[0], rel=1e-6)
        assert found.bound <= found.average * (1.0 + ROUNDING)


def test_days_with_restarts_pay_for_them() -> None:
    """Both kinds of replay; of gangs the first start is free."""
    assert gang_day(0, 3, restarts=True).restart == RESTART
    assert malleable_day(0, 3, restarts=True).setting.restart_delay == RESTART
    assert malleable_day(0, 3).setting.restart_delay == 0.0
    begins = [job.begin for job in malleable_day(1, 4, restarts=True).problem.jobs]
    assert all((begin - RESTART) % ROUND == 0.0 for begin in begins)


def test_policies_serve_the_days_that_they_can() -> None:
    """One job to a GPU; rigid jobs and types need policies that know them."""
    assert all(POLICIES[name].rigid for name in policies_for("gangs"))
    assert all(POLICIES[name].gpu_types for name in policies_for("two types"))
    assert len(policies_for("malleable")) > 25
    shared = {"gandiva", "antman", *RENTING}
    assert not any(shared & {*policies_for(kind)} for kind in KINDS)
    assert [seed for seed in range(20) if LONG in policies_for("malleable", seed)] == [0, 8, 16]


def test_a_policy_that_leaves_a_job_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence with its name."""
    day = gang_day(0, 2)
    monkeypatch.setattr(
        "goodalloc.experiments.studies.steady_jobs.small_days.RateSimulator.run", lambda _: []
    )
    with pytest.raises(RuntimeError, match="Policy 'fifo': 0 of 2 jobs ended"):
        day.average("fifo")


def test_the_study_runs_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two days of each number of jobs; its picture has a panel for each kind."""
    monkeypatch.setattr(days_and_optimum, "KINDS", ("gangs",))
    monkeypatch.setattr(days_and_optimum, "JOBS", (2,))
    assert main(["reproduce", "hindsight-optimum", "--quick", "--out", str(tmp_path)]) == 0
    rows = pd.read_csv(tmp_path / "hindsight-optimum-quick.csv")
    assert (rows["unsound"] == 0).all()
    assert {*rows["jobs"].astype(str)} == {"2", ANY}
    assert (tmp_path / "hindsight-optimum-quick.png").stat().st_size > 5000
    assert "unsound" in capsys.readouterr().out
