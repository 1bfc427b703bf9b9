"""Prices and a core: the optimum of the whole program, by solving little of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.models.round.objective import utility_table
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.milp.price_and_core import decide
from tests.support.random_instances import random_instance
from tests.support.shapes import decide_whole, every_choice

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program

GAP = 1e-7


def watch(seconds: float | None = None) -> Watch:
    """A clock."""
    return Watch(Stop(seconds=seconds))


@pytest.fixture(autouse=True)
def _columns_join_when_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small programs start with the columns that were named, so that the others must join."""
    monkeypatch.setattr("goodalloc.solvers.milp.highs_program.FEW_COLUMNS", 0)


def random_program(seed: int) -> Program:
    """Some rows of small whole numbers; often fractional when relaxed, sometimes infeasible."""
    generator = np.random.default_rng(seed)
    builder = ProgramBuilder()
    count, rows = int(generator.integers(4, 25)), int(generator.integers(2, 7))
    cost = generator.uniform(-1.0, 1.0, size=count).round(3)
    columns = builder.add_columns("x", count, cost=cost, upper=generator.integers(1, 4, size=count))
    matrix = generator.integers(-3, 8, size=(rows, count)) * (generator.random((rows, count)) < 0.5)
    upper = generator.integers(1, 16, size=rows)
    lower = np.where(generator.random(rows) < 0.3, upper - generator.integers(0, 4, size=rows), -99)
    row, column = np.nonzero(matrix)
    names = builder.add_rows("row", rows, lower=lower, upper=upper)
    builder.add_entries(names[row], columns[column], matrix[row, column])
    return builder.build()


def check(program: Program, priced: np.ndarray, guide: np.ndarray | None = None) -> None:
    """The decision is that of HiGHS on the whole program, with its proof."""
    whole = decide_whole(program)
    decision = decide(program, priced, watch(), gap=GAP, guide=guide)
    if whole.values is None:
        assert decision.values is None
        assert decision.bound == math.inf
        return
    assert decision.values is not None
    assert decision.objective == pytest.approx(whole.objective, abs=2 * GAP)
    assert decision.objective - decision.bound <= 2 * GAP
    assert decision.bound <= whole.objective + GAP
    assert program.cost @ decision.values == pytest.approx(decision.objective, abs=GAP)
    assert decision.values == pytest.approx(np.rint(decision.values), abs=1e-6)


@pytest.mark.parametrize("first", [0, 40])
def test_random_programs_are_decided_as_by_highs_alone(first: int) -> None:
    """Whatever columns the relaxation starts with, and with a guide or without."""
    for seed in range(first, first + 40):
        program = random_program(seed)
        generator = np.random.default_rng(seed)
        priced = generator.random(program.num_columns) < generator.choice([0.3, 1.0])
        guide = generator.uniform(0.0, 1.0, size=program.num_columns) if seed % 2 else None
        check(program, priced, guide)


def test_pattern_programs_are_decided_as_by_highs_alone() -> None:
    """Tiny rounds with random costs, the distributed choices left out at first."""
    for seed in range(70_000, 70_040):
        instance = random_instance(seed)
        choices, cost = every_choice(instance, seed)
        program = build_patterns(instance, choices, cost).program
        priced = np.ones(program.num_columns, dtype=bool)
        priced[: len(choices)] = choices.kind != Kind.SEVERAL_NODES
        check(program, priced)


@pytest.mark.parametrize("state", ["running", "disturbed"])
def test_whole_rounds_are_decided_as_by_highs_alone(state: str) -> None:
    """Forty jobs that run, at p = -1: the core is a small part of the program."""
    instance = generate(1, 40, 12, state=state)  # type: ignore[arg-type]
    utility_table(instance)
    choices = enumerate_choices(instance)
    cost = power_cost(choices.utility, -1.0, float(np.median(choices.utility)))
    program = build_patterns(instance, choices, cost).program
    priced = np.ones(program.num_columns, dtype=bool)
    check(program, priced)
    assert decide(program, priced, watch(), gap=GAP).core < program.num_columns


def test_a_known_optimum_is_proved_and_no_other_is_looked_for() -> None:
    """With the optimum known only the bound is needed; a worse one known changes nothing."""
    proved = 0
    for seed in range(40):
        program = random_program(seed)
        whole = decide_whole(program)
        if whole.values is None:
            continue
        every = np.ones(program.num_columns, dtype=bool)
        alone = decide(program, every, watch(), gap=GAP)
        knowing = decide(program, every, watch(), gap=GAP, known=whole.objective)
        if knowing.values is None:
            proved += 1
            assert knowing.objective - knowing.bound <= GAP
        else:
            assert knowing.objective == pytest.approx(whole.objective, abs=2 * GAP)
        assert knowing.bound <= whole.objective + GAP
        worse = decide(program, every, watch(), gap=GAP, known=whole.objective + 1.0)
        assert worse.objective == alone.objective
    assert proved > 0


def test_relaxation_by_column_generation_is_that_of_all_columns() -> None:
    """Its prices leave no column with negative reduced cost, and its value is a lower bound."""
    for seed in range(40):
        program = random_program(seed)
        none = np.zeros(program.num_columns, dtype=bool)
        one, all_of_them = (run_relaxation(program, priced, watch()) for priced in (none, ~none))
        assert one.finished == all_of_them.finished
        if all_of_them.values is None:
            assert one.values is None
            continue
        assert one.objective == pytest.approx(all_of_them.objective, abs=1e-9)
        assert one.values is not None
        assert one.duals is not None
        assert program.cost @ one.values == pytest.approx(one.objective, abs=1e-9)
        at_zero = one.values < 1e-9
        assert program.reduced_costs(one.duals)[at_zero].min(initial=0.0) >= -1e-8
        assert one.objective <= decide_whole(program).objective + 1e-8


def test_an_expired_watch_leaves_what_there_is() -> None:
    """Out of time before the relaxation: nothing found, nothing proved."""
    program = random_program(1)
    priced = np.ones(program.num_columns, dtype=bool)
    late = watch(1e-9)
    decision = decide(program, priced, late, gap=GAP)
    whole = decide_whole(program)
    assert decision.bound <= whole.objective + GAP
    if decision.values is not None:
        assert decision.objective >= whole.objective - GAP


def test_an_infeasible_program_is_proved_so() -> None:
    """No values and an infinite bound, as by HiGHS alone."""
    builder = ProgramBuilder()
    columns = builder.add_columns("x", 2, cost=1.0, upper=1.0)
    row = builder.add_rows("row", 1, lower=3.0)
    builder.add_entries(row[[0, 0]], columns, 1.0)
    program = builder.build()
    assert decide(program, np.ones(2, dtype=bool), watch(), gap=GAP).bound == math.inf
    outcome = run_mixed_integer(program, watch(), gap=GAP)
    assert (outcome.values, outcome.bound, outcome.finished) == (None, math.inf, True)
