"""`goodalloc reproduce openb`: the table holds what its docstring promises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.comparisons import openb
from goodalloc.experiments.studies.comparisons.openb import OPENB, PUBLISHED
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen nodes, two batches, a coarse gap."""
    monkeypatch.setattr(openb, "QUICK", 120)
    monkeypatch.setattr(openb, "LOADS", (0.8, 1.1))
    monkeypatch.setattr(openb, "LIMITS", Stop(gap=0.05))


def test_the_exact_program_is_between_the_heuristics_and_the_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On drawn nodes and pods; without the lists nothing published stands beside."""
    assert main(["reproduce", "openb", "--quick", "--out", str(tmp_path), "--seeds", "1"]) == 0
    assert "exact" not in capsys.readouterr().err
    table = pd.read_csv(tmp_path / "openb-quick.csv")
    assert (tmp_path / "openb-quick.png").stat().st_size > 10_000
    assert table.published_percent.isna().all()
    for _, batch in table.groupby("load_percent"):
        gpus = batch.set_index("solver").allocated_gpus
        assert set(gpus.index) == {"best_fit", "fgd", "pods"}
        assert gpus["pods"] >= max(gpus["best_fit"], gpus["fgd"]) - 0.1
        assert (batch.allocated_gpus <= batch.bound_gpus + 1e-9).all()
        assert (batch.placed <= batch.pods).all()
        assert (batch.gap >= 0).all()


def test_published_values_stand_beside_ours(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of the lists; here of a part of the nodes, so that only their place is tested."""
    quick = Plan(tmp_path, artifact=reference / "alibaba-openb-2023", quick=True)
    machines, pods = openb._lists(quick, 0)  # noqa: SLF001
    assert {row.published_percent for row in OPENB.rows(quick)} == {None}
    monkeypatch.setattr(openb, "_lists", lambda *_: (machines, pods))
    rows = OPENB.rows(replace(quick, quick=False))
    assert {row.nodes for row in rows} == {len(machines)} == {13}
    for row in rows:
        published = PUBLISHED.get(row.solver, {}).get(row.load_percent / 100)
        assert row.published_percent == published
        assert (row.deviation_points is None) == (published is None)
    assert any(row.published_percent for row in rows)


def test_what_makes_no_difference_is_refused(tmp_path: Path) -> None:
    """Workloads and policies of Pollux have no place here."""
    with pytest.raises(ValueError, match="workloads is 1 2"):
        OPENB.refuse_ignored(Plan(tmp_path, workloads=(1, 2)))
