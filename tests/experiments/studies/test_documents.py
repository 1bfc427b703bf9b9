"""The documents of the repository: every number is that of a stored result that is not stale."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.documents import (
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
    }
    assert {name.removesuffix("-quick") for name in stored_names()} == shown - {*benchmark_names()}
    assert {*benchmark_names()} <= shown
    assert {*SAMPLES} <= shown


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_the_studies_gives_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    """Of those that take seconds."""
    quick = f"{name}-quick" in stored_names()
    options = ["--quick"] if quick else []
    assert main(["reproduce", name, *options, "--out", str(tmp_path)]) == 0
    stored = results_folder(name) / (f"{name}-quick.csv" if quick else f"{name}.csv")
    assert (tmp_path / stored.name).read_bytes() == stored.read_bytes()


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
