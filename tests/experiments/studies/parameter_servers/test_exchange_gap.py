"""The experiment on the exchange: rows that add up, a table, a picture, and its resumption."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.recorded_task import RECORD
from goodalloc.experiments.studies.parameter_servers.exchange_gap import (
    CASES,
    ExchangeGaps,
    above,
    gap_row,
    plot_gaps,
    summarise_gaps,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.parameter_servers.exchange_gap import (
        GapRow,
    )

ROWS = [gap_row(6, case, seed) for case in CASES for seed in range(3)]


@pytest.mark.parametrize("row", ROWS)
def test_nothing_is_below_the_optimum_and_nodes_cost_something_or_nothing(
    row: GapRow,
) -> None:
    """Pool at most nodes, exchange and greedy; both optima proved."""
    assert row.pool <= row.exchange * (1 + 1e-6)
    assert row.pool <= row.greedy * (1 + 1e-6)
    assert row.pool <= row.placed * (1 + 1e-6)
    assert row.pool_bound >= row.pool * (1 - 2e-6)
    assert row.placed_bound >= row.placed * (1 - 2e-6)


def test_the_same_seed_gives_the_same_totals() -> None:
    """All but the seconds."""
    again = gap_row(6, "time", 0)._asdict()
    for name, value in ROWS[0]._asdict().items():
        if not name.endswith("seconds"):
            assert again[name] == value


def test_the_table_has_a_row_for_every_case_with_its_means_and_its_worst() -> None:
    """Of three rounds each."""
    table = summarise_gaps(ROWS)
    assert [row["case"] for row in table] == list(CASES)
    for row in table:
        losses = [above(r, "exchange") for r in ROWS if r.case == row["case"]]
        assert row["rounds"] == 3
        assert row["exchange_above_%"] == pytest.approx(sum(losses) / 3, rel=1e-2, abs=1e-6)
        assert row["exchange_worst_%"] == pytest.approx(max(losses), rel=1e-2, abs=1e-6)
        assert row["worst_gap"] <= 1e-5


def test_the_picture_shows_all_cases_and_the_clock(tmp_path: Path) -> None:
    """A panel each, written as a file."""
    figure = plot_gaps(ROWS)
    assert [ax.get_title() for ax in figure.axes] == [
        *(case.title for case in CASES.values()),
        "time to decide",
    ]
    figure.savefig(tmp_path / "gaps.png")
    assert (tmp_path / "gaps.png").stat().st_size > 10_000


@pytest.mark.parametrize("case", CASES)
def test_a_task_that_is_done_is_not_done_again(tmp_path: Path, case: str) -> None:
    """Its file stays as it is; another task is refused the folder."""
    task = ExchangeGaps(tmp_path / "gaps", 4, 2, case)
    shares: list[float] = []
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    (file,) = (path for path in (tmp_path / "gaps").iterdir() if path.name == RECORD)
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert [row["seed"] for row in rows] == [0, 1]
    file.write_text("[]", encoding="utf-8")
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"replay|folder"):
        ExchangeGaps(tmp_path / "gaps", 5, 2, case).run()
