"""The benchmark of back ends: those that are installed find the same optimum of small programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from goodalloc.experiments.benchmarks import back_ends
from goodalloc.experiments.benchmarks.back_ends import ABSENT, RELAXATION, ROADS, WHOLE, main
from goodalloc.formulations.basics import ProgramBuilder
from goodalloc.solvers.milp.other_solvers import by_highs, by_mpax

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.formulations.basics import Program

#: First-order methods, which end at a relative error of about 1e-6.
FIRST_ORDER = ("pdlp", "ortools pdlp", "mpax")


def small() -> Program:
    """The relaxation ``minimise -x - 2 y`` on ``x + y <= 3``, ``1 <= y <= 2``, ``x - y = 0``."""
    builder = ProgramBuilder()
    columns = builder.add_columns("x", 2, cost=np.array([-1.0, -2.0]), upper=9.0, integer=False)
    both = builder.add_rows("both", 1, upper=3.0)
    builder.add_entries(np.repeat(both, 2), columns, 1.0)
    builder.add_entries(builder.add_rows("second", 1, lower=1.0, upper=2.0), columns[1], 1.0)
    equal = builder.add_rows("equal", 1, lower=0.0, upper=0.0)
    builder.add_entries(np.repeat(equal, 2), columns, np.array([1.0, -1.0]))
    return builder.build(offset=1.0)


@pytest.mark.parametrize(
    ("rounds", "formulation", "absent"),
    [
        ("node:4x2x2", "node", "mpax"),
        ("disturbed:8x4x4", "pattern", "mpax ortools"),
        ("one_node:4x2x8", "aggregate", "mpax ortools pyscipopt highspy_extras"),
    ],
)
def test_all_back_ends_that_are_installed_find_the_same_optimum(
    rounds: str, formulation: str, absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some that take long to start count as absent; their rows say so."""
    for module in absent.split():
        monkeypatch.setitem(sys.modules, module, None)
    out = tmp_path / "rows.csv"
    assert main(["--rounds", rounds, "--seconds", "30", "--out", str(out)]) == 0
    table = pd.read_csv(out)
    assert [*table.back_end] == [*RELAXATION, *WHOLE, *ROADS]
    assert set(table.formulation) == {formulation}
    missing, found = table[table.status == ABSENT], table[table.status != ABSENT]
    assert {name.split()[0].rstrip(",") for name in missing.back_end} >= {
        {"pyscipopt": "scip", "highspy_extras": "hipo"}.get(module, module)
        for module in absent.split()
    }
    assert missing[["objective", "difference", "seconds"]].isna().all(axis=None)
    assert set(found.status) == {"optimal"}
    loose, road = found.back_end.isin(FIRST_ORDER), found.back_end.isin([*ROADS])
    assert (found[~loose & ~road].difference.abs() <= 1e-6).all()
    assert (found[loose].difference.abs() <= 1e-5).all()
    assert (found[road].difference >= -1e-9).all()
    if formulation != "aggregate":  # which bounds the round
        assert (found[road].difference <= 1e-6).all()


def test_a_back_end_that_runs_out_of_time_has_no_objective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row says what ended it, and those compared with it have no difference."""
    monkeypatch.setattr(back_ends, "RELAXATION", {"simplex": RELAXATION["simplex"]})
    monkeypatch.setattr(back_ends, "WHOLE", {"highs": WHOLE["highs"]})
    out = tmp_path / "rows.csv"
    assert main(["--rounds", "cold:60x16x4", "--seconds", "1e-6", "--out", str(out)]) == 0
    table = pd.read_csv(out)
    first = table[table.back_end.isin(["simplex", "highs"])]
    assert set(first.status) == {"time limit"}
    assert table.difference.isna().all()


@pytest.mark.parametrize(
    ("rounds", "complaint"),
    [
        ("colt:8x4x4", "set 'colt' does not exist (did you mean cold?)"),
        ("cold:8x4", "expected SET:JOBSxNODESxGPUS, as in cold:160x64x4"),
        ("cold:8x0x4", "expected SET:JOBSxNODESxGPUS, as in cold:160x64x4"),
        ("kept:8x2x4", "expected 8 GPUs per node in set 'kept'"),
    ],
)
def test_rounds_that_cannot_be_drawn_are_refused(
    rounds: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, with exit code 2."""
    with pytest.raises(SystemExit) as end:
        main(["--rounds", rounds])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_rows_with_two_sides_and_equations_reach_highs() -> None:
    """By each of its methods that is always there, with the constant term."""
    for solver in ("simplex", "ipx", "pdlp"):
        found = by_highs(small(), 30.0, solver=solver)
        assert found.status == "optimal"
        assert found.objective == pytest.approx(1.0 - 4.5, rel=1e-6), solver


@pytest.mark.slow
def test_rows_with_two_sides_and_equations_reach_mpax() -> None:
    """With the constant term, in double precision, and compiling is timed apart."""
    pytest.importorskip("mpax", reason="needs goodalloc[back-ends]")
    found = by_mpax(small())
    assert found.status == "optimal"
    assert found.objective == pytest.approx(1.0 - 4.5, rel=1e-5)
    assert found.compile_seconds > 0.0
