"""Budgets of the genetic algorithm: what a judged round compares, its table and its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.comparisons import genetic_budgets
from goodalloc.experiments.studies.comparisons.genetic_budgets import (
    BUDGETS,
    GENETIC_BUDGETS,
    TIMES,
    BudgetRow,
    ProbedGenetic,
    gap_percent,
    summarise_budgets,
)
from goodalloc.experiments.studies.pollux.scenario import LOADS
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.policies.pollux import PolluxGenetic, decision_of
from tests.support.policies.policy_rounds import active, round_of
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


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


def test_judging_a_round_changes_no_decision() -> None:
    """The population that goes on is that of the published budget."""
    rounds = [
        round_of(active("a", 4), active("b", 2), active("c", 1), time=60 * n) for n in (1, 2, 3)
    ]
    alone = PolluxGenetic(population=20, generations=5)
    judged = ProbedGenetic(PolluxGenetic(population=20, generations=5), every=2)
    for one in rounds:
        assert judged.decide(one).placements == alone.decide(one).placements
    (probe,) = judged.probes
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


def test_a_table_and_a_picture_come_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for every judged round of a short day."""
    monkeypatch.setattr(genetic_budgets, "SCENARIOS", LOADS[:1])
    monkeypatch.setattr(genetic_budgets, "EVERY", 5)
    monkeypatch.setattr(
        genetic_budgets, "PolluxGenetic", lambda rules, seed: PolluxGenetic(rules, 20, 5, seed)
    )
    plan = carry_out(GENETIC_BUDGETS, tmp_path)
    rows = GENETIC_BUDGETS.rows(plan)
    assert rows
    assert [one.time for one in rows] == sorted(one.time for one in rows)
    assert all(0.0 <= one.published_gap_percent <= 100.0 for one in rows)
    assert "gap to the proved optimum" in GENETIC_BUDGETS.plot(plan, rows).axes[0].get_xlabel()
