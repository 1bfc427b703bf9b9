"""Tables of other studies, and the bounds on what they average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.gavel.rates import FOLDER, TABLE
from goodalloc.experiments.studies.documents import stored_rows
from goodalloc.experiments.studies.framework.record_reading import read_record
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.last_rows.bound_tasks import (
    DayTableTask,
    SteadyTableTask,
    table_bound,
)
from goodalloc.experiments.studies.last_rows.bounded_tables import (
    BOUNDED_TABLES,
    TableBoundRow,
    plot_bounds,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.last_rows.bound_tasks import TableTask


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that take no time."""

    def work(task: TableTask, report: object) -> dict[str, Any]:
        return table_bound(4, 7200.0, 3600.0)._asdict()

    for kind in (SteadyTableTask, DayTableTask):
        monkeypatch.setattr(kind, "work", work)


def _rows(plan: Plan) -> list[TableBoundRow]:
    for task in BOUNDED_TABLES.tasks(plan):
        task.run(lambda _: None)
    return BOUNDED_TABLES.rows(plan)


@pytest.mark.usefixtures("bounded")
def test_every_average_is_bounded_on_the_workloads_of_its_table(tmp_path: Path) -> None:
    """Three seeds and loads of Gavel, conditions that need no lists, eight days and three."""
    rows = _rows(BOUNDED_TABLES.own(Plan(tmp_path, workloads=())))
    own = {
        study: [row for row in rows if row.study == study]
        for study in dict.fromkeys(row.study for row in rows)
    }
    gavel = {(row.case, row.workload, row.seed) for row in own["gavel"]}
    assert gavel == {(load, None, seed) for load in ("1.0", "2.0", "3.0") for seed in range(3)}
    conditions = own["aiturbo-conditions"]
    assert len(conditions) == 8 * 3 * 3
    assert {row.workload for row in conditions} == {11, 12, 13}
    assert [row.workload for row in own["themis-searches"]] == [*range(1, 9)]
    assert [row.workload for row in own["mixed"]] == [1, 2, 3]
    assert {row.above_alone_percent for row in rows} == {100.0}
    assert len(BOUNDED_TABLES.shown(rows)) == 3 + 8 * 3 + 1 + 1
    (ax,) = plot_bounds(rows).axes
    assert len(ax.get_yticks()) == 3 + 8 + 1 + 1


@pytest.mark.usefixtures("bounded")
def test_a_quick_run_has_one_workload_and_one_condition(tmp_path: Path) -> None:
    """And its rows are read back as they were written."""
    rows = _rows(BOUNDED_TABLES.own(Plan(tmp_path, workloads=(), quick=True)))
    assert len(rows) == 3 + 3 + 1 + 1
    for row, cells in zip(rows, table_of(rows), strict=True):
        assert read_record(TableBoundRow, {name: str(cell) for name, cell in cells.items()}) == row


def test_no_stored_average_is_below_its_bound() -> None:
    """Of the tables that the bounds end, but for Gandiva, whose trials share GPUs."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in stored_rows("hindsight-tables"):
        key = row["study"], row["case"], row["counted"], row["workload"]
        found.setdefault(key, []).append(float(row["bound_hours"]))
        whole = row["study"], row["case"], row["counted"], ""
        if row["workload"]:
            found.setdefault(whole, []).append(float(row["bound_hours"]))
    bounds = {key: sum(hours) / len(hours) * (1 - 1e-4) for key, hours in found.items()}
    over = [
        float(row["average_jct_hours"]) / bounds["gavel", row["jobs_per_hour"], "middle", ""]
        for row in stored_rows("gavel")
        if float(row["jobs_per_hour"])
    ]
    for row in stored_rows("aiturbo-conditions"):
        for counted in ("all", "short", "long"):
            average = float(row[f"{counted}_jct_hours".replace("all", "average")])
            over.append(average / bounds["aiturbo-conditions", row["condition"], counted, ""])
    over += [
        float(row["average_hours"]) / bounds["themis-searches", "", "searches", row["workload"]]
        for row in stored_rows("themis-searches")
        if row["policy"] != "gandiva"
    ]
    over += [
        float(row["average_jct_hours"]) / bounds["mixed", "", "all", row["workload"]]
        for row in stored_rows("mixed")
    ]
    assert len(over) == 24 + 60 * 3 + 8 * 8 + 3 * 5
    assert min(over) >= 1.0


@pytest.mark.parametrize(
    ("folders", "missing"),
    [
        ((), f"holds neither {TABLE}"),
        ((FOLDER,), "expected a folder with some of chronus-philly"),
        ((FOLDER, "chronus-philly"), "no folder 'pollux/workloads'"),
        ((FOLDER, "chronus-philly", "pollux/workloads"), "no folder 'pollux/traces'"),
    ],
)
def test_a_folder_that_lacks_data_is_refused(
    folders: tuple[str, ...], missing: str, tmp_path: Path
) -> None:
    """By the name of the first that is not there; without a folder none is needed."""
    BOUNDED_TABLES.require(Plan(tmp_path))
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    if folders:
        (tmp_path / FOLDER / TABLE).touch()
    with pytest.raises(ValueError, match=missing):
        BOUNDED_TABLES.require(Plan(tmp_path, artifact=tmp_path))
