"""The documents of the repository: every number is that of a stored result that is not stale."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.classical import hesrpt
from goodalloc.experiments.studies.documents import (
    ORIGINS,
    benchmark_names,
    documents,
    repository,
    results_folder,
    stored_names,
    stored_result,
    stored_rows,
)
from goodalloc.experiments.studies.framework.result_document import (
    renewed,
    studies_in,
    unsourced_tables,
)

if TYPE_CHECKING:
    from pathlib import Path

#: Studies whose stored result, the quick one where there is one, is made again here, in seconds.
SAMPLES = ("hesrpt", "profile-fits")

#: How the last row of a table begins that has the bound on any schedule.
BOUND = "bound on any schedule"


@pytest.fixture(scope="module", autouse=True)
def in_repository() -> None:
    """Skips the tests where goodalloc is installed without its documents."""
    try:
        repository()
    except ValueError as error:
        pytest.skip(str(error))


def test_documents_agree_with_the_stored_results() -> None:
    """`goodalloc report` corrects what differs."""
    source = cache(stored_rows)
    found = [
        (path.name, *one)
        for path in documents()
        for one in renewed(path.read_text("utf-8"), source).differences
    ]
    assert not found


def test_no_table_of_results_is_without_a_source() -> None:
    """Or a comment tells why it needs none."""
    root = repository()
    found = {
        path.relative_to(root).as_posix(): len(tables)
        for path in documents()
        if (tables := unsourced_tables(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("name", stored_names())
def test_no_stored_result_is_older_than_its_code(name: str) -> None:
    """`goodalloc report --stale` tells the command and the minutes that renew it."""
    assert stored_result(name).origin.changed_modules == ()


@pytest.mark.parametrize("name", stored_names())
def test_no_command_of_a_stored_result_names_a_folder_of_some_machine(name: str) -> None:
    """Whoever repeats it has others."""
    command = stored_result(name).origin.command
    assert not re.search(r"(?:^|[\s'=])/", command)


def test_every_stored_result_is_shown_or_is_the_quick_one_of_such() -> None:
    """What nobody reads is not kept; quick results serve `--confirm`."""
    shown = {
        name.removesuffix("-summary").removesuffix("-quick")
        for path in documents()
        for name in studies_in(path.read_text("utf-8"))
        if name != ORIGINS
    }
    assert {name.removesuffix("-quick") for name in stored_names()} == shown - {*benchmark_names()}
    assert {*benchmark_names()} <= shown
    assert {*SAMPLES} <= shown


def test_tables_show_who_knows_what_and_who_chooses_the_batch_sizes() -> None:
    """Some table of every study whose rows tell these."""
    shown: dict[str, set[str]] = {}
    for path in documents():
        for study, told in re.findall(
            r"<!-- results ([\w-]+)\n(.*?)-->", path.read_text("utf-8"), re.S
        ):
            fields = re.findall(r"{(knows|batch)}", told)
            shown.setdefault(study.removesuffix("-summary"), set()).update(fields)
    for name in stored_names():
        columns = {"knows", "batch"} & stored_rows(name)[0].keys()
        assert columns <= shown.get(name.removesuffix("-quick"), set()), name


def test_what_stored_results_took_can_be_shown() -> None:
    """One row for each, the processor seconds of its origin as minutes and as hours."""
    rows = {row["result"]: row for row in stored_rows(ORIGINS)}
    assert [*rows] == [*stored_names(), *benchmark_names()]
    kinds = {name: rows[name]["kind"] for name in ("hesrpt", "artifact-quick", "bench-round")}
    assert kinds == {"hesrpt": "full", "artifact-quick": "quick", "bench-round": "benchmark"}
    seconds = stored_result("hesrpt").origin.processor_seconds
    assert float(rows["hesrpt"]["processor_minutes"]) == pytest.approx(seconds / 60)
    assert float(rows["hesrpt"]["processor_hours"]) == pytest.approx(seconds / 3600)


@pytest.mark.parametrize("name", [pytest.param("hesrpt", marks=pytest.mark.slow), *SAMPLES[1:]])
def test_a_sample_of_the_studies_gives_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    """Of those that take seconds."""
    quick = f"{name}-quick" in stored_names()
    options = ["--quick"] if quick else []
    assert main(["reproduce", name, *options, "--out", str(tmp_path)]) == 0
    stored = results_folder(name) / (f"{name}-quick.csv" if quick else f"{name}.csv")
    assert (tmp_path / stored.name).read_bytes() == stored.read_bytes()


def test_some_tasks_of_a_study_give_their_stored_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of workloads of the fewest jobs with the first power: each line is stored, in this order."""
    monkeypatch.setattr(hesrpt, "JOBS", hesrpt.JOBS[:1])
    monkeypatch.setattr(hesrpt, "POWERS", hesrpt.POWERS[:1])
    assert main(["reproduce", "hesrpt", "--quick", "--out", str(tmp_path)]) == 0
    again = (tmp_path / "hesrpt-quick.csv").read_bytes().splitlines()
    stored = (results_folder("hesrpt") / "hesrpt-quick.csv").read_bytes().splitlines()
    places = [stored.index(line) for line in again]
    assert (len(places), places[0]) == (1 + 2, 0)
    assert places == sorted({*places})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hesrtp", r"Study 'hesrtp' does not exist \(did you mean hesrpt\?\)"),
        (
            "bench-rounds",
            r"has no stored result in .*; `make bench STORE=1 BENCH=rounds` makes one",
        ),
        ("elastic-quick", r"has no stored result in .*; `goodalloc reproduce elastic --store`"),
    ],
)
def test_a_result_that_is_not_there_is_an_error(name: str, words: str) -> None:
    """With what would make one."""
    with pytest.raises(ValueError, match=words):
        stored_result(name)


def test_no_average_in_a_table_is_below_the_bound_in_its_last_row() -> None:
    """Of the same load or case, where the bound tells one."""
    found = [
        (path.name, *one) for path in documents() for one in below_bound(path.read_text("utf-8"))
    ]
    assert found == []


def test_an_average_below_the_bound_is_found() -> None:
    """A row of another load does not count, nor do words and blanks."""
    table = (
        "| | knows | (h) |\n| --- | --- | --- |\n"
        "| a, load 1 | 0 | 0.9 |\n| b, load 2 | all | 0.2 |\n"
        "| bound on any schedule, load 1 | all | 1.0 ± 0.5 |\n"
    )
    assert below_bound(table) == [("a, load 1", 0.9)]
    assert below_bound(table.replace(", load", ", rounds")) == [
        ("a, rounds 1", 0.9),
        ("b, rounds 2", 0.2),
    ]
    assert below_bound(table.replace("| 1.0 ±", "| −5 ±")) == []
    of_a = table.replace("| a, load 1 ", "| a ").replace("schedule, load 1", "schedule: a")
    assert below_bound(of_a) == [("a", 0.9)]


def below_bound(text: str) -> list[tuple[str, float]]:
    """Return rows of tables, by their first cell, and averages there below the bound beneath."""
    found: list[tuple[str, float]] = []
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        label = cells[0] if cells else ""
        if label.startswith(BOUND):
            load = label.removeprefix(BOUND) if ", load " in label else ""
            case = label.removeprefix(f"{BOUND}: ") if ": " in label else None
            for column, bound in enumerate(map(leading_number, cells)):
                averages = [(row[0], leading_number(row[column])) for row in rows]
                found += [
                    (name, average)
                    for name, average in averages
                    if name.endswith(load) and case in (None, name) and bound is not None
                    if average is not None and average < bound
                ]
        elif cells:
            rows.append(cells)
        else:
            rows = []
    return found


def leading_number(cell: str) -> float | None:
    """Return the number with which a cell of a table begins; None where there is none."""
    number = re.match(r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?", cell)
    return None if number is None else float(number[0].replace("−", "-").replace(",", ""))
