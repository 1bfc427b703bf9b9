"""Results as tables: what each command writes, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data import load_benchmark
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.reporting.report import comparison_rows, comparison_text
from goodalloc.experiments.reporting.result_tables import load_results
from goodalloc.solvers import solve
from goodalloc.solvers.interface.result import Limit

if TYPE_CHECKING:
    from pathlib import Path


def test_a_comparison_is_one_table(tmp_path: Path) -> None:
    """A row a solver and seed, numbers as numbers."""
    arguments = ["compare", "tiny-cold", "--solvers", "highs,greedy", "--seeds", "0-1"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    (name, table), *others = load_results(tmp_path).items()
    assert (name, others) == ("compare", [])
    assert table.solver.to_list() == ["highs", "highs", "greedy", "greedy"]
    assert table.gap.max() < 1
    assert table.limit.isna().all()


def test_the_gap_benchmark_is_two_tables(tmp_path: Path) -> None:
    """Runs and averages."""
    arguments = ["gap", "--instances", "tiny-cold", "--solvers", "greedy,knapsack"]
    assert main([*arguments, "--seeds", "0", "--out", str(tmp_path)]) == 0
    tables = load_results(tmp_path)
    assert [*tables] == ["averages", "gap"]
    assert set(tables["gap"].solver) == {"greedy", "knapsack"}
    assert load_results(tmp_path, "averages").keys() == {"averages"}


def test_replays_are_put_together(tmp_path: Path) -> None:
    """Rows say of which policy they are; a replay that has not ended is left out."""
    workload = "name,time,application,num_replicas,batch_size\na,0,ncf,1,32768\nb,60,ncf,1,32768\n"
    (tmp_path / "workload.csv").write_text(workload)
    out = tmp_path / "out"
    arguments = ["simulate", str(tmp_path / "workload.csv"), "--policies", "fifo,equal"]
    assert main([*arguments, "--nodes", "1", "--no-gaps", "--out", str(out)]) == 0
    tables = load_results(out)
    assert [*tables] == ["jobs", "placements", "rounds", "samples", "summary", "timing"]
    placed = tables["placements"]
    assert {tuple(row) for row in placed[["policy", "job"]].to_numpy().tolist()} == {
        (policy, job) for policy in ("equal", "fifo") for job in ("a", "b")
    }
    jobs = tables["jobs"]
    assert jobs[["folder", "policy", "job"]].to_numpy().tolist() == [
        ["equal", "equal", "a"],
        ["equal", "equal", "b"],
        ["fifo", "fifo", "a"],
        ["fifo", "fifo", "b"],
    ]
    averages = jobs.groupby("policy").jct.mean() / 3600
    summary = tables["summary"].set_index("policy").average_jct_hours
    pd.testing.assert_series_equal(averages, summary.sort_index(), rtol=1e-3, check_names=False)
    single = load_results(out / "fifo")
    assert set(single["rounds"].folder) == {"."}
    (out / "fifo" / "jobs.csv").unlink()
    left = load_results(out)
    assert set(left["rounds"].policy) == set(left["placements"].policy) == {"equal"}


def test_names_stay_names(tmp_path: Path) -> None:
    """What pandas would take for missing is text; what is blank is missing."""
    (tmp_path / "table.csv").write_text("name,value\nNone,inf\nNA,\n")
    table = load_results(tmp_path)["table"]
    assert table.name.to_list() == ["None", "NA"]
    assert table.value[0] == math.inf
    assert math.isnan(table.value[1])


def test_what_holds_no_results_is_refused(tmp_path: Path) -> None:
    """With a sentence that names the folder, the table or the file."""
    with pytest.raises(ValueError, match="is none"):
        load_results(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no results"):
        load_results(tmp_path)
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no table 'jobs'"):
        load_results(tmp_path, ["jobs"])
    (tmp_path / "gap.csv").write_text("a,b\n1,2,3\n1\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"gap\.csv': it is no table"):
        load_results(tmp_path)


def test_a_limit_that_went_into_compiling_is_told() -> None:
    """The fitness is then that of the start, and says nothing of the solver."""
    result = replace(solve(load_benchmark("tiny-cold"), "greedy"), limit=Limit.TIME)
    compiled = replace(result, compile_seconds=3.0, iterations=0)
    told = "greedy (seed 0): no iteration was done; compiling took 3.0 s of the time limit"
    assert told in comparison_text(comparison_rows([compiled]), [compiled], ("solver", "seed"))
    for other in (replace(compiled, iterations=5), replace(compiled, compile_seconds=0.0)):
        text = comparison_text(comparison_rows([other]), [other], ("solver", "seed"))
        assert "no iteration was done" not in text
