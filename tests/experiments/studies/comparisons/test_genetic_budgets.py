"""Budgets of the genetic algorithm: what a judged round compares, its table and its picture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.replay import replay
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.studies.comparisons import genetic_budgets
from goodalloc.experiments.studies.comparisons.genetic_budgets import (
    BUDGETS,
    GENETIC_BUDGETS,
    TIMES,
    BudgetRow,
    Probe,
    gap_percent,
    judge_budgets,
    summarise_budgets,
)
from goodalloc.experiments.studies.comparisons.judged_policy import JudgedPolicy, verdicts
from goodalloc.experiments.studies.pollux.scenario import LOADS
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.policies.pollux import PolluxGenetic, decision_of
from tests.support.policies.policy_rounds import active, round_of
from tests.support.replay.replays import SMALL
from tests.support.replay.studies import TinyPlan, carry_out

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.round.rules import Rules


def row(workload: int, same: float, published: float, ten: float) -> BudgetRow:
    """A judged round in which the exact solver takes a tenth of the published time."""
    return BudgetRow("load 2", workload, 0, 600, 5, 0.02, 0.2, 10, published, same, ten)


def test_the_gap_of_the_optimum_is_0_and_of_half_its_fitness_50() -> None:
    """In per cent of the bound."""
    instance = round_of(active("a", 4, explored=4), active("b", 4, explored=4)).instance(OSDI21)
    best = solve(instance, "highs")
    assert best.allocation is not None
    decision = decision_of(instance, best.allocation)
    value = fitness(instance, best.allocation)
    assert gap_percent(instance, decision, value) == 0.0
    assert gap_percent(instance, decision, 2.0 * value) == pytest.approx(50.0)


def test_judging_a_round_changes_no_decision(tmp_path: Path) -> None:
    """The population that goes on is that of the published budget."""
    rounds = [
        round_of(*(active(name, explored=4) for name in "abc"), time=60 * n) for n in (1, 2, 3)
    ]
    alone = small()
    file = tmp_path / "probes"
    judged = JudgedPolicy(small(), judge_budgets, file, every=2)
    for one in rounds:
        assert judged.decide(one).placements == alone.decide(one).placements
    (probe,) = [Probe(**found) for found in verdicts(file)]
    assert (probe.time, probe.jobs) == (120, 3)
    assert probe.generations >= 1
    assert 0.0 <= probe.ten_times_gap_percent <= probe.published_gap_percent


def test_means_are_over_workloads_and_seconds_follow_the_generations() -> None:
    """Rounds of a workload are averaged first."""
    rows = [row(1, 4.0, 2.0, 1.0), row(1, 0.0, 0.0, 0.0), row(2, 8.0, 6.0, 3.0)]
    lines = {line.budget: line for line in summarise_budgets(rows)}
    assert set(lines) == set(BUDGETS)
    published, ten = lines["published"], lines["ten times the published"]
    assert published.gap_percent.mean == pytest.approx((1.0 + 6.0) / 2)
    assert published.worst_percent == 6.0
    assert ten.seconds == pytest.approx(TIMES * published.seconds)
    assert lines["time of the exact solver"].seconds == pytest.approx(0.02)


@pytest.fixture
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """One load on two nodes, small budgets, and a judged round in five."""
    one = replace(LOADS[0], setting=SMALL)
    monkeypatch.setattr(genetic_budgets, "SCENARIOS", (one,))
    monkeypatch.setattr(genetic_budgets, "EVERY", 5)
    monkeypatch.setattr(ReplayTask, "made_policy", lambda task: small(task.rules, task.seed))


def small(rules: Rules = OSDI21, seed: int = 0) -> PolluxGenetic:
    """Return the genetic algorithm with a budget for tests."""
    return PolluxGenetic(rules, population=20, generations=5, seed=seed)


@pytest.mark.usefixtures("short_days")
def test_a_day_that_was_cut_off_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judged rounds are those of a day that was not."""
    monkeypatch.setattr(replay, "LONGEST_UNSAVED", 0.0)

    def cut_off(share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    found = []
    for name in ("whole", "cut off"):
        plan = TinyPlan(tmp_path / name, (1,))
        (task,) = GENETIC_BUDGETS.tasks(plan)
        if name == "cut off":
            with pytest.raises(KeyboardInterrupt):
                task.run(cut_off)
        task.run(lambda _: None)
        found.append([(row.time, row.published_gap_percent) for row in GENETIC_BUDGETS.rows(plan)])
    assert found[0] == found[1]
    assert len(found[0]) > 1


@pytest.mark.usefixtures("short_days")
def test_a_table_and_a_picture_come_of_it(tmp_path: Path) -> None:
    """A row for every judged round of a short day."""
    plan = carry_out(GENETIC_BUDGETS, tmp_path)
    rows = GENETIC_BUDGETS.rows(plan)
    assert rows
    assert [one.time for one in rows] == sorted(one.time for one in rows)
    assert all(0.0 <= one.published_gap_percent <= 100.0 for one in rows)
    assert "gap to the proved optimum" in GENETIC_BUDGETS.plot(plan, rows).axes[0].get_xlabel()
