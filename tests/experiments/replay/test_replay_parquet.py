"""Records of replays as Parquet: what the CSV files say, typed."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.replay_parquet import COUNTS, TABLES, TEXTS, write_parquet
from goodalloc.experiments.replay.replay_task import ReplayTask
from tests.support.replay.replays import SHORT, SMALL

if TYPE_CHECKING:
    from pathlib import Path

needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs goodalloc[parquet]")

#: Names that look like numbers or like nothing.
NAMES = ("007", "nan", "NA", "1e3")
ODD = tuple(replace(job, name=name) for job, name in zip(SHORT, NAMES, strict=True))


@needs_pyarrow
@pytest.mark.parametrize("gaps", [True, False], ids=["judged", "blank"])
def test_parquet_reads_back_as_the_csv(tmp_path: Path, gaps: bool) -> None:
    """Every number and name of every table, under types that do not depend on them."""
    ReplayTask(tmp_path, "tiresias", ODD, SMALL, gaps=gaps).run()
    write_parquet(tmp_path)
    for name, columns in TABLES.items():
        ours = pd.read_parquet((tmp_path / name).with_suffix(".parquet"))
        texts = pd.read_csv(tmp_path / name, dtype=str, keep_default_na=False)
        assert tuple(ours.columns) == tuple(texts.columns) == columns
        assert len(ours) == len(texts) > 0
        for column in columns:
            if column in TEXTS:
                assert ours[column].tolist() == texts[column].tolist()
                continue
            assert ours[column].dtype == ("int64" if column in COUNTS else "float64")
            pd.testing.assert_series_equal(
                ours[column].astype(float), pd.to_numeric(texts[column]).astype(float)
            )


@needs_pyarrow
def test_simulate_writes_parquet_beside_the_csv(tmp_path: Path) -> None:
    """For every policy, and again to the same bytes where the replay is there already."""
    write_workload(SHORT, tmp_path / "workload.csv")
    command = [
        "simulate",
        str(tmp_path / "workload.csv"),
        "--policies",
        "tiresias,fifo",
        "--nodes",
        "2",
        "--no-gaps",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main(command) == 0
    assert not [*tmp_path.rglob("*.parquet")]
    written = []
    for _ in range(2):
        assert main([*command, "--parquet"]) == 0
        written.append({path: path.read_bytes() for path in tmp_path.rglob("*.parquet")})
    assert len(written[0]) == 2 * len(TABLES)
    assert written[0] == written[1]


def test_parquet_without_its_library_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is replayed, in one sentence that names the extra."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["simulate", "--parquet", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "Argument --parquet needs the module pyarrow" in error
    assert "'goodalloc[parquet]'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
