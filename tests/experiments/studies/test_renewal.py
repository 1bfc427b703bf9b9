"""Renewal of stored results that are older than their code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies import renewal
from goodalloc.experiments.studies.artifacts import ARTIFACTS
from goodalloc.experiments.studies.catalogue import ENTRIES
from goodalloc.experiments.studies.documents import stored_names, stored_result
from goodalloc.experiments.studies.framework.stored_result import ResultOrigin, StoredResult
from goodalloc.experiments.studies.renewal import Renewal, Renewed, Stale, renew, stale_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WHOLE = "goodalloc reproduce fig8b --artifact ARTIFACT"
QUICK = "goodalloc reproduce fig8b --artifact ARTIFACT --workloads 6 --quick"


def origin(command: str, digest: str = "00000000") -> ResultOrigin:
    """The origin of a result, stale unless `digest` is that of a module that is gone."""
    return ResultOrigin(command, "0" * 40, "", 1.0, {}, {"models.no_such_module": digest})


@pytest.mark.parametrize(
    ("refused", "outcome", "options"),
    [
        ((), "confirmed", ("--confirm",)),
        (("--confirm",), "stored", ("--confirm", "--store", "--store")),
        (("--confirm", "--store"), "refused --store", ("--confirm", "--store")),
    ],
)
def test_a_result_is_confirmed_by_quick_rows_or_else_made_anew(
    tmp_path: Path, refused: Sequence[str], outcome: str, options: Sequence[str]
) -> None:
    """With the folder of its data in place of the placeholder; then the quick rows are, too."""
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> str:
        asked.append(words)
        option = next(word for word in words if word in {"--confirm", "--store"})
        return f"refused {option}" if option in refused else ""

    results = [Stale("fig8b", origin(WHOLE), origin(QUICK))]
    (found,) = renew(results, Renewal({"pollux": tmp_path}, tmp_path / "out"), run)
    assert found == Renewed("fig8b", outcome, found.minutes)
    assert [words[-3] for words in asked] == list(options)
    assert ["--quick" in words for words in asked] == [True, False, True][: len(options)]
    for words in asked:
        assert words[:4] == ["reproduce", "fig8b", "--artifact", str(tmp_path)]
        assert words[-2:] == ["--out", str(tmp_path / "out")]
        assert ("--quick" in words) == (
            words[-3] == "--confirm" or words is asked[-1] is not asked[1]
        )


def test_the_data_of_every_stored_result_that_needs_some_have_a_name() -> None:
    """So that its folder can be given."""
    named = {study for studies in ARTIFACTS.values() for study in studies}
    asking = {
        name.removesuffix("-quick")
        for name in stored_names()
        if "ARTIFACT" in stored_result(name).origin.command
    }
    assert asking <= named


def test_a_result_whose_data_are_not_given_is_left(tmp_path: Path) -> None:
    """Nothing is run, and the outcome says what to give."""
    command = "goodalloc reproduce restrictions --artifact ARTIFACT"

    def run(words: Sequence[str]) -> str:
        raise AssertionError(words)

    given = Renewal({"pollux": tmp_path}, tmp_path)
    (found,) = renew([Stale("restrictions", origin(command), None)], given, run)
    assert found.outcome == "left: expected --artifact sia=FOLDER"


def test_results_are_stale_if_they_or_their_quick_rows_are_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quick result is no result of its own."""
    digests = {"fig1": "gone", "fig7": "gone", "fig7-quick": "00000000", "fig8b": "00000000"}
    results = {
        name: StoredResult(name, (), (), origin(WHOLE, one)) for name, one in digests.items()
    }
    monkeypatch.setattr(renewal, "stored_names", lambda: tuple(results))
    monkeypatch.setattr(renewal, "stored_result", results.__getitem__)
    assert [(one.name, one.quick is None) for one in stale_results()] == [
        ("fig7", False),
        ("fig8b", True),
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--renew", "--artifact", "polux=."], "did you mean pollux?"),
        (["--renew", "--artifact", "pollux=no-such-folder"], "no-such-folder' is no folder"),
        (["--renew", "--artifact", "pollux"], "expected NAME=FOLDER"),
        (["--artifact", "pollux=."], "expected --renew, too"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is run."""
    assert main(["report", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_command_that_fails_tells_its_last_line() -> None:
    """And one that succeeds nothing."""
    assert "no-such-study" in renewal.run_command(["reproduce", "no-such-study"])
    assert renewal.run_command(["--version"]) == ""


def test_every_study_reads_one_kind_of_data() -> None:
    """Names of the catalogue, each once."""
    studies = [study for names in ARTIFACTS.values() for study in names]
    assert len(studies) == len(set(studies))
    assert set(studies) <= set(ENTRIES)
