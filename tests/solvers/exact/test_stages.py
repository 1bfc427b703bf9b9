"""Stages of a solve: what was tried, in which order, and whether ties were decided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.data.rounds.generator import generate
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact import ties
from goodalloc.solvers.exact.ties import TieRule
from goodalloc.solvers.interface.stages import StageLog
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance


@pytest.fixture
def log() -> StageLog:
    """An empty record."""
    return StageLog()


@pytest.fixture
def settled() -> Instance:
    """A round that one price does not prove."""
    return load_benchmark("even-settled")


def names(log: StageLog) -> list[str]:
    """Names of the stages."""
    return [stage.name for stage in log.stages]


def test_a_round_that_a_price_proves_needs_no_program(log: StageLog) -> None:
    result = solve(generate(seed=0, jobs=100, nodes=16, gpus_per_node=4), log=log)
    assert names(log) == ["one price", "ties"]
    assert [stage.outcome for stage in log.stages] == ["proved", TieRule.APPLIED]
    assert log.stages[0].bound == pytest.approx(result.bound, rel=1e-9)


def test_a_round_that_a_price_does_not_prove_says_what_the_program_proves(
    log: StageLog, settled: Instance
) -> None:
    result = solve(settled, log=log)
    assert names(log) == ["one price", "choices", "pattern program", "ties"]
    price, choices, program, rule = log.stages
    assert (price.outcome, program.outcome, rule.outcome) == ("no proof", "proved", "applied")
    assert price.bound >= program.bound == result.bound
    assert choices.outcome.endswith(" found")
    assert math.isinf(choices.bound)


def test_the_seconds_of_the_stages_add_up_to_the_solve(log: StageLog, settled: Instance) -> None:
    result = solve(settled, log=log)
    assert 0.0 < sum(stage.seconds for stage in log.stages) <= result.solve_seconds
    assert all(stage.seconds >= 0.0 for stage in log.stages)


def test_jobs_with_modes_say_that_ties_are_left_to_chance(log: StageLog) -> None:
    solve(random_mode_instance(3), log=log)
    assert names(log)[-2:] == ["aggregate with cuts", "ties"]
    assert log.stages[-1].outcome == TieRule.MODES


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("MOST_CHOICES", 5, TieRule.MANY_CHOICES), ("FEW_TIED", -1, TieRule.MANY_TIED)],
)
def test_ties_of_large_rounds_are_said_to_be_left_to_chance(
    log: StageLog,
    settled: Instance,
    name: str,
    value: int,
    rule: TieRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ties, name, value)
    monkeypatch.setattr(ties, "MOST_TIED", 0)
    solve(settled, log=log)
    assert log.stages[-1].outcome == rule


def test_without_time_the_heuristics_are_a_stage(log: StageLog) -> None:
    solve(load_benchmark("large-settled"), stop=Stop(seconds=1e-3), log=log)
    assert "heuristics" in names(log)


def test_the_rule_is_no_stage_where_it_is_not_wanted(log: StageLog, settled: Instance) -> None:
    solve(settled, break_ties=False, log=log)
    assert names(log)[-1] == "pattern program"


def test_a_record_is_of_the_last_solve(log: StageLog, settled: Instance) -> None:
    solve(settled, log=log)
    solve(generate(seed=0, jobs=100, nodes=16, gpus_per_node=4), log=log)
    assert names(log) == ["one price", "ties"]


def test_a_solver_without_stages_refuses_a_record(log: StageLog, settled: Instance) -> None:
    with pytest.raises(ValueError, match="Option 'log' is unknown to solver 'greedy'"):
        solve(settled, "greedy", log=log)


def test_a_stage_begins_where_the_one_before_it_ended(log: StageLog) -> None:
    log.begin()
    log.add("first", "done")
    log.add("second", "done", 2.0)
    assert names(log) == ["first", "second"]
    assert str(log.stages[1]).startswith("second: done in 0.0")
