"""Bound <= optimum of the time-indexed program <= every schedule and policy, on small days.

The stored result has thousands of them; a few are decided anew here, and hundreds in a slow test.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.documents import stored_rows
from goodalloc.experiments.studies.steady_jobs import day_optimum, days_and_optimum
from goodalloc.experiments.studies.steady_jobs.day_optimum import (
    CLOSED_FORM,
    HINDSIGHT,
    KINDS,
    ON_REPLAYS,
    ON_SCHEDULES,
    RENTING,
    ROUNDING,
    SELDOM,
    day_beside_optimum,
    day_of,
    edges_before,
    optimum_of,
    policies_for,
)
from goodalloc.experiments.studies.steady_jobs.days_and_optimum import ANY, BEST, rows_of_days
from goodalloc.experiments.studies.steady_jobs.small_days import (
    RESTART,
    ROUND,
    gang_day,
    malleable_day,
)
from goodalloc.solvers import POLICIES
from goodalloc.solvers.milp import run_mixed_integer
from tests.support.few import slow_where
from tests.support.hindsight.optimum import optimum

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.experiments.studies.steady_jobs.day_optimum import Kind

#: Policies that decide in no time, by the days that they serve.
RIGID = ("allox", "fifo", "srtf", "themis", "themis-exact", "themis-maxmin", "tiresias")
FAST: dict[str, list[str]] = {
    "gangs": [*RIGID, "tiresias-gittins"],
    "malleable": [*RIGID, "tiresias-gittins", "hesrpt", "optimus"],
    "two types": ["allox", "gavel", "sia"],
}

#: Seed and jobs of days that the study does not draw; a node is missing on the second malleable.
FEW = ((900, 2), (932, 3), (902, 4))

#: Kinds of days, and whether their jobs restart, that take longest.
LONG = (("malleable", True), ("two types", False))

#: Per cent of the days without restarts on which the best policy attains the optimum, at the least.
ATTAINED = {"gangs": 95.0, "malleable": 50.0, "two types": 20.0}


def decided(kind: Kind, seed: int, jobs: int, policies: list[str], *, restarts: bool) -> Any:
    """Return the record of a day of which nothing is on the wrong side and no bound is 0."""
    record = day_beside_optimum(day_of(kind, seed, jobs, restarts=restarts), policies)
    assert record["unsound"] == [], (kind, seed, jobs, restarts)
    averages, best = record["averages"], record["optimum"]
    assert 0.2 * best < averages[ON_SCHEDULES] <= record["proved"] * (1.0 + ROUNDING)
    assert averages[ON_SCHEDULES] <= averages[ON_REPLAYS] * (1.0 + ROUNDING)
    assert {ON_SCHEDULES, ON_REPLAYS, CLOSED_FORM, *policies} <= {*averages}
    assert (HINDSIGHT in averages) == (kind == "malleable")
    return record


@pytest.mark.parametrize(
    "case", slow_where(product(KINDS, (False, True)), lambda case: case in LONG), ids=str
)
def test_the_optimum_is_between_bounds_and_policies(case: tuple[Kind, bool]) -> None:
    """On days that the study does not draw; where restarts are free, policies attain it on some."""
    kind, restarts = case
    days = [(jobs, decided(kind, seed, jobs, FAST[kind], restarts=restarts)) for seed, jobs in FEW]
    rows = {(row.jobs, row.name): row for row in rows_of_days(kind, days, restarts=restarts)}
    assert rows[ANY, BEST].days == len(FEW)
    assert rows[ANY, BEST].attained_percent > 0.0 or restarts


def test_nodes_are_missing_on_some_of_these_days() -> None:
    """So that bound and program are tried there."""
    settings = [malleable_day(seed, jobs).setting for seed, jobs in FEW]
    assert [bool(setting.outages) for setting in settings] == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "restarts"), [*product(KINDS, (False, True))])
def test_it_is_so_on_hundreds_of_days_under_all_policies(kind: Kind, restarts: bool) -> None:
    """Of two to five jobs, every eighth day under Pollux's variants, too."""
    days = [
        (jobs, decided(kind, seed, jobs, policies_for(kind, seed), restarts=restarts))
        for jobs in days_and_optimum.JOBS
        for seed in range(1000, 1012)
    ]
    rows = {(row.jobs, row.name): row for row in rows_of_days(kind, days, restarts=restarts)}
    if not restarts:  # of 48 days three are 6 %
        assert rows[ANY, BEST].attained_percent >= 0.9 * ATTAINED[kind]


def _stored() -> list[Mapping[str, Any]]:
    return list(stored_rows("hindsight-optimum"))


def test_the_stored_days_are_two_thousand_and_none_is_unsound() -> None:
    """All policies that serve days of a kind are there, and every bound is above 0."""
    whole = [row for row in _stored() if row["jobs"] == ANY]
    assert [row for row in _stored() if int(row["unsound"])] == []
    assert sum(int(row["days"]) for row in whole if row["name"] == ON_SCHEDULES) >= 2000
    assert {row["kind"] for row in whole} == {*KINDS}
    for kind in KINDS:
        mine = [row for row in whole if row["kind"] == kind]
        assert {row["name"] for row in mine} >= {ON_REPLAYS, CLOSED_FORM, *policies_for(kind)}
        assert all(float(row["least"]) > 0.2 for row in mine if row["name"] == ON_SCHEDULES)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_side_of_the_stored_days_is_idle(kind: Kind) -> None:
    """Some policy attains the optimum of many days, and the bound is near it on the mean."""
    rows = {
        row["name"]: row
        for row in _stored()
        if (row["kind"], row["jobs"], row["restarts"]) == (kind, ANY, "no")
    }
    assert float(rows[BEST]["attained_percent"]) >= ATTAINED[kind]
    assert float(rows[ON_SCHEDULES]["over_optimum"]) > 0.8
    assert all(float(rows[name]["attained_percent"]) > 0.0 for name in FAST[kind])


def _record(unsound: list[str] | None = None, **averages: float) -> dict[str, Any]:
    named = {name.replace("_", " "): value for name, value in averages.items()}
    return {"optimum": 100.0, "proved": 100.0, "averages": named, "unsound": unsound or []}


class Told:
    """A day under policies that do what is told, beside the optimum that the program finds."""

    def __init__(self, seed: int, averages: Mapping[str, float], *, restarts: bool = False) -> None:
        """Take a malleable day."""
        self.day, self.averages = malleable_day(seed, 3, restarts=restarts), averages
        self.problem, self.rounds = self.day.problem, self.day.rounds

    def average(self, policy: str) -> float:
        """Return what is told."""
        return self.averages[policy]


def test_a_policy_below_the_optimum_and_bounds_above_it_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bound on replays may be above it where restarts cost time, but above no replay."""
    best = optimum_of(malleable_day(1, 3).problem, 1000.0).average
    day = Told(1, {"srtf": 0.99 * best, "fifo": 2.0 * best})
    assert day_beside_optimum(day, ["srtf", "fifo"])["unsound"] == ["srtf"]
    far = Told(1, {"srtf": 0.3 * best})
    assert day_beside_optimum(far, ["srtf"])["unsound"] == ["srtf"]

    def high(*_args: Any) -> dict[str, float]:
        return {"bound": 1.5 * best}

    monkeypatch.setattr(day_optimum, "best_replay_bound", high)
    sound = {"srtf": 1.6 * best}
    assert day_beside_optimum(Told(1, sound), ["srtf"])["unsound"] == [ON_REPLAYS]
    paid = optimum_of(malleable_day(1, 3, restarts=True).problem, 1000.0).average
    sound, low = {"srtf": 2.0 * paid}, {"srtf": 1.001 * paid}
    assert 1.001 * paid < 1.5 * best < 2.0 * paid
    assert day_beside_optimum(Told(1, sound, restarts=True), ["srtf"])["unsound"] == []
    assert day_beside_optimum(Told(1, low, restarts=True), ["srtf"])["unsound"] == [ON_REPLAYS]


def test_rows_are_means_for_each_number_of_jobs_and_for_all() -> None:
    """With the share of the days on which the optimum is attained, and those that are unsound."""
    days = [
        (2, _record(srtf=100.0)),
        (2, _record(srtf=110.0)),
        (3, _record(["bound on schedules"], srtf=160.0, bound_on_schedules=101.0)),
    ]
    found = {(row.jobs, row.name): row for row in rows_of_days("gangs", days, restarts=False)}
    assert found["2", "srtf"].over_optimum.mean == pytest.approx(1.05)
    assert (found["2", "srtf"].least, found["2", "srtf"].greatest) == (1.0, 1.1)
    assert found["3", "srtf"].days == 1
    assert [key for key, row in found.items() if row.unsound] == [
        ("3", ON_SCHEDULES),
        (ANY, ON_SCHEDULES),
    ]
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
        assert found.proved == pytest.approx(found.average, rel=ROUNDING)


def test_a_program_that_is_not_solved_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence, whether nothing is found or nothing is proved."""
    day = gang_day(3, 5)
    solved = run_mixed_integer

    def unproved(*given: Any, **options: Any) -> Any:
        return replace(solved(*given, **options), bound=1.0)

    def nothing(*given: Any, **options: Any) -> Any:
        return replace(solved(*given, **options), values=None)

    monkeypatch.setattr(day_optimum, "run_mixed_integer", unproved)
    with pytest.raises(RuntimeError, match=r"the bound is 1 s; expected .* of its schedule"):
        optimum_of(day.problem, 1000.0)
    monkeypatch.setattr(day_optimum, "run_mixed_integer", nothing)
    with pytest.raises(RuntimeError, match="HiGHS found no schedule within 600 s"):
        optimum_of(day.problem, 1000.0)


def test_days_with_restarts_are_the_same_days_and_pay_for_them() -> None:
    """Both kinds of replay; of gangs the first start is free."""
    for seed in range(5):
        assert gang_day(seed, 3).jobs == gang_day(seed, 3, restarts=True).jobs
        assert malleable_day(seed, 3).jobs == malleable_day(seed, 3, restarts=True).jobs
    assert gang_day(0, 3, restarts=True).restart == RESTART
    assert malleable_day(0, 3, restarts=True).setting.restart_delay == RESTART
    assert malleable_day(0, 3).setting.restart_delay == 0.0
    plain, paid = (malleable_day(1, 4, restarts=restarts) for restarts in (False, True))
    for first, second in zip(plain.problem.jobs, paid.problem.jobs, strict=True):
        assert second.begin == first.begin + RESTART
    assert {paid.rounds.lost(job.training) for job in paid.problem.jobs} == {RESTART - 1.0}


def test_policies_serve_the_days_that_they_can() -> None:
    """One job to a GPU; rigid jobs and types need policies that know them."""
    assert all(POLICIES[name].rigid for name in policies_for("gangs"))
    assert all(POLICIES[name].gpu_types for name in policies_for("two types"))
    assert len(policies_for("malleable")) > 25
    shared = {"gandiva", "antman", *RENTING}
    assert not any(shared & {*policies_for(kind)} for kind in KINDS)
    served = [seed for seed in range(20) if "pollux-genetic" in policies_for("malleable", seed)]
    assert served == [0, SELDOM, 2 * SELDOM]
    assert all("pollux" in policies_for("two types", seed) for seed in range(3))


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
    """With two days of each number of jobs; it draws a picture."""
    monkeypatch.setattr(days_and_optimum, "KINDS", ("gangs",))
    monkeypatch.setattr(days_and_optimum, "JOBS", (2,))
    assert main(["reproduce", "hindsight-optimum", "--quick", "--out", str(tmp_path)]) == 0
    rows = pd.read_csv(tmp_path / "hindsight-optimum-quick.csv")
    assert (rows["unsound"] == 0).all()
    assert {*rows["jobs"].astype(str)} == {"2", ANY}
    assert (tmp_path / "hindsight-optimum-quick.png").stat().st_size > 5000
    assert "tiresias-gittins" in capsys.readouterr().out
