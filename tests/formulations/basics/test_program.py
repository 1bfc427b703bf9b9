"""A program in matrix form: what is put in is there, and a file of it says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import highspy
import numpy as np
import pytest

from goodalloc.formulations.basics.program import NotFiniteError, ProgramBuilder
from goodalloc.formulations.gpu_rounds import kept_placements as residents
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.node_indexed.node_program import build_node_program
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from tests.support.random_instances import random_instance
from tests.support.shapes import decide_whole, every_choice

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.formulations.basics.program import Program


def small_program() -> Program:
    """Minimise -x0 - 2 x1 + 3, subject to x0 + x1 <= 1.5 and integer x1."""
    builder = ProgramBuilder()
    (x,) = builder.add_columns("real", 1, cost=-1.0, upper=4.0, integer=False)
    (y,) = builder.add_columns("whole", 1, cost=-2.0, label=lambda i: f"{i}_of_one")
    (row,) = builder.add_rows("sum", 1, upper=1.5)
    builder.add_entries(row, [x, y], 1.0)
    return builder.build(offset=3.0)


def by_patterns(instance: Instance, seed: int, *, exact: bool = False) -> Program:
    """The pattern program at random costs."""
    choices, cost = every_choice(instance, seed)
    return build_patterns(instance, choices, cost, exact=exact).program


def by_node(instance: Instance, seed: int) -> Program:
    """The node program at random costs."""
    return build_node_program(instance, *every_choice(instance, seed)).program


def read(path: Path) -> tuple[float, list[str], list[str]]:
    """Optimum, column names and row names of a file, as another program reads it."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.run()
    lp = solver.getLp()
    return solver.getInfo().objective_function_value, list(lp.col_names_), list(lp.row_names_)


def test_a_program_is_extended_by_what_a_builder_adds(tmp_path: Path) -> None:
    """What was there stays, with its names; the optimum is that of the whole."""
    builder = ProgramBuilder.extending(small_program())
    assert (builder.num_columns, builder.num_rows) == (2, 1)
    (free,) = builder.add_columns("free", 1, cost=1.0, lower=-10.0, upper=0.0, integer=False)
    (row,) = builder.add_rows("more", 1, lower=0.0)
    builder.add_entries(row, [1, free], [4.0, 1.0])
    program = builder.build(offset=3.0)
    program.write(tmp_path / "program.lp")
    columns, rows = ["real_0", "whole_0_of_one", "free_0"], ["sum_0", "more_0"]
    # x1 = 1 lets the free column down to -4
    assert read(tmp_path / "program.lp") == (-0.5 - 2.0 - 4.0 + 3.0, columns, rows)


def test_a_small_program_is_as_written() -> None:
    """Costs, bounds, matrix and offset, with entries of one cell summed."""
    builder = ProgramBuilder()
    columns = builder.add_columns("x", 3, cost=[1.0, 2.0, 3.0], upper=[1.0, 5.0, np.inf])
    rows = builder.add_rows("row", 2, lower=[-np.inf, 1.0], upper=2.0)
    builder.add_entries(rows[[0, 0, 1]], columns[[0, 0, 2]], [1.0, 2.0, 5.0])
    program = builder.build(offset=7.0)
    assert (program.num_columns, program.num_rows, program.offset) == (3, 2, 7.0)
    assert program.starts.tolist() == [0, 1, 1, 2]
    assert (program.index.tolist(), program.value.tolist()) == ([0, 1], [3.0, 5.0])
    assert program.integer.all()
    assert program.reduced_costs(np.array([1.0, 2.0])).tolist() == [-2.0, 2.0, -7.0]
    part = program.columns(np.array([True, False, True]))
    assert (part.cost.tolist(), part.upper.tolist()) == ([1.0, 3.0], [1.0, np.inf])
    assert (part.starts.tolist(), part.index.tolist()) == ([0, 1, 2], [0, 1])


def test_a_small_program_has_the_known_optimum() -> None:
    """One whole unit, half a real one; the offset counts."""
    outcome = decide_whole(small_program())
    assert outcome.values is not None
    assert outcome.values.tolist() == pytest.approx([0.5, 1.0])
    assert outcome.objective == pytest.approx(0.5)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_a_small_file_has_names_and_the_same_optimum(tmp_path: Path, suffix: str) -> None:
    """Names by family and label; the offset is kept."""
    path = tmp_path / f"program{suffix}"
    small_program().write(path)
    optimum, columns, rows = read(path)
    assert optimum == pytest.approx(0.5)
    assert (columns, rows) == (["real_0", "whole_0_of_one"], ["sum_0"])


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize("seed", range(90_000, 90_006))
def test_written_programs_have_the_same_optimum(tmp_path: Path, suffix: str, seed: int) -> None:
    """Both formulations of random rounds, with names that are all different."""
    instance = random_instance(seed)
    for program in (by_patterns(instance, seed), by_node(instance, seed)):
        path = tmp_path / f"program{suffix}"
        program.write(path)
        optimum, columns, rows = read(path)
        assert optimum == pytest.approx(decide_whole(program).objective, abs=1e-6)
        assert len(set(columns)) == len(columns) == program.num_columns
        assert len(set(rows)) == len(rows) == program.num_rows
        assert columns[0].startswith("choice_0_")


@pytest.mark.parametrize("most", [5, 0])
def test_names_say_what_is_what(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs, kinds, nodes and sizes stand in the names of a known round's programs."""
    monkeypatch.setattr(residents, "MOST_STAYS", most)
    jobs = (
        Job("a", placement=((0, 2),), max_replicas=3),
        Job("b", placement=((0, 1), (1, 1)), max_replicas=3),
        Job("c", max_replicas=3),
    )
    instance = Instance(Cluster.uniform(3, 3), jobs)
    common = {
        "choice_0_keep_2",
        "choice_1_idle_0",
        "choice_2_one_node_3",
        "choice_2_several_nodes_3",
    }
    counted = {"cut_3_1", "distributed_3_2"}
    resident = (
        {"state_0_none", "state_0_0", "state_0_0_1", "state_1_1"}
        if most
        else {"offer_0_3_open", "offer_0_2_closed", "offer_1_1_open"}
    )
    expected = {
        "relaxed": (by_patterns(instance, 0), common | counted | resident | {"pieces_2_1"}),
        "exact": (by_patterns(instance, 0, exact=True), common | {"pieces_0_1", "pieces_2_2"}),
        "node": (
            by_node(instance, 0),
            common | {"local_2_one_node_3_1", "amount_1_2", "touched_2_0"},
        ),
    }
    for name, (program, names) in expected.items():
        path = tmp_path / f"{name}.lp"
        program.write(path)
        _, columns, rows = read(path)
        assert names <= set(columns), name
        assert {"one_choice_0", "one_choice_2"} <= set(rows), name


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    """Costs, entries and the offset; a bound may be infinite, but no NaN."""
    builder = ProgramBuilder()
    columns = builder.add_columns("x", 2, cost=[1.0, bad])
    rows = builder.add_rows("row", 1, upper=np.inf)
    builder.add_entries(rows, columns, 1.0)
    with pytest.raises(NotFiniteError, match=rf"Program: a cost is {bad:g}; expected a finite"):
        builder.build()
    program = small_program()
    with pytest.raises(NotFiniteError, match="an entry of the matrix is"):
        replace(program, value=np.full(program.value.size, bad))
    with pytest.raises(NotFiniteError, match="the offset is"):
        replace(program, offset=bad)
    with pytest.raises(NotFiniteError, match="a bound is nan; expected a number"):
        replace(program, upper=np.array([1.0, np.nan]))


def test_equal_names_give_way_to_numbers(tmp_path: Path) -> None:
    """Two families of one name: rather plain numbers than the solver's own."""
    builder = ProgramBuilder()
    for _ in range(2):
        builder.add_columns("x", 1, cost=1.0, upper=1.0)
    builder.add_entries(builder.add_rows("row", 1, lower=1.0), [0, 1], 1.0)
    path = tmp_path / "program.lp"
    builder.build().write(path)
    assert read(path)[1:] == (["x_0", "x_1"], ["row_0"])


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Only .mps and .lp, and only where a file can be."""
    with pytest.raises(ValueError, match=r"expected a name that ends in \.mps or \.lp"):
        small_program().write(tmp_path / "program.txt")
    with pytest.raises(ValueError, match=r"cannot be written"):
        small_program().write(tmp_path / "missing" / "program.lp")
