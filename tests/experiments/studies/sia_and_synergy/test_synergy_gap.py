"""Synergy's heuristics against its optimum: rows, summary, picture and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.sia_and_synergy import synergy_gap
from goodalloc.experiments.studies.sia_and_synergy.synergy_gap import (
    HEURISTICS,
    MIXTURES,
    SYNERGY,
    RoundRow,
    gap,
    round_row,
    summarise_rounds,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mixture", list(MIXTURES))
def test_a_row_obeys_the_laws(mixture: str) -> None:
    """LP >= ILP >= what is placed, TUNE's and the proportional one; proportional is one a job."""
    row = round_row(mixture, 4, 2)
    assert row.linear >= row.opt - 1e-6
    for name in ("opt_placed", "tune", "tune_in_queue_order", "proportional"):
        assert row.throughput(name) <= row.opt + 1e-6
    assert row.tune >= row.proportional == row.jobs
    assert row.gpus <= 32
    assert 0 < row.opt_seconds < 1


def test_the_golden_round_stands_in_the_table() -> None:
    """Seed 0, 32 one-GPU jobs drawn evenly: 37.6 in integers and 37.615 without."""
    row = round_row("all models evenly", 4, 0)
    assert row.opt == pytest.approx(37.6)
    assert row.linear == pytest.approx(37.615)


def test_the_summary_is_of_means_over_the_seeds() -> None:
    """Two rounds by hand: TUNE 10 and 30 % below OPT, deviating by 10 points from the published."""
    ten = dict.fromkeys(("linear", "opt", "opt_placed", *HEURISTICS), 10.0)
    none = dict.fromkeys(("opt_seconds", "placing_seconds", "heuristics_seconds"), 0.1)
    row = RoundRow(jobs_drawn="any", servers=1, seed=0, jobs=8, gpus=8, **ten, **none)
    rows = [row._replace(tune=9.0), row._replace(tune=7.0, opt_seconds=0.3)]
    (shown,) = summarise_rounds(rows)
    assert shown["opt_over_proportional_%"] == shown["greedy_below_opt_%"] == 0.0
    assert gap(rows[0], "tune") == pytest.approx(10.0)
    names = ("published_%", "tune_below_opt_%", "deviation_%", "worst_%", "worst_opt_seconds")
    assert [shown[name] for name in names] == [10.0, 20.0, 10.0, 30.0, 0.3]


def test_reproduce_synergy_writes_rows_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row a round; whoever asks for other workloads is told that it makes no difference."""
    monkeypatch.setattr(synergy_gap, "SEEDS", range(2))
    monkeypatch.setattr(synergy_gap, "SERVERS", (1, 2))
    assert main(["reproduce", "synergy", "--out", str(tmp_path)]) == 0
    assert SYNERGY.title in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "synergy.csv")
    assert len(table) == 2 * 2 * len(MIXTURES)
    assert (table.opt >= table.tune - 1e-6).all()
    assert (tmp_path / "synergy.png").read_bytes().startswith(b"\x89PNG")
    assert main(["reproduce", "synergy", "--seeds", "1,2", "--out", str(tmp_path)]) == 2
    assert "seeds is 1 2; it makes no difference there" in capsys.readouterr().err
