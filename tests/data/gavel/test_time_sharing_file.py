"""Files of time sharing, of shares and of certificates: exact round trips, strict reading."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.gavel.time_sharing_file import (
    ShareProblem,
    digest_of,
    read_time_shares,
    read_time_sharing,
    time_shares_from_dict,
    time_shares_to_dict,
    time_sharing_from_dict,
    time_sharing_to_dict,
    write_time_shares,
    write_time_sharing,
)
from goodalloc.models.gavel.share_goal import max_min
from goodalloc.models.gavel.time_sharing import TimeSharing, rates
from goodalloc.solvers.gavel.share_certificate_file import (
    read_share_certificate,
    share_certificate_to_dict,
    write_share_certificate,
)
from goodalloc.solvers.gavel.time_shares import best_shares
from tests.support.documents import changed
from tests.support.policies.time_shares import drawn, goals, random_shares

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.models.gavel.share_goal import Goal
    from tests.support.documents import Place

SHARING = TimeSharing(
    ("a", "b", "ü"),
    [[2.0, 1.0], [3.0, 0.0], [0.1, 1 / 3]],
    [1, 2],
    [1, 1, 2],
    [(0, 1)],
    [[[1.5, 2.0], [0.5, 0.0]]],
    cluster_gpus=[4, 2],
)
PROBLEM = ShareProblem(SHARING, max_min(SHARING), np.array([0.1, 0.0, 0.01]))
RESULT = best_shares(*PROBLEM)
ASKED = time_sharing_to_dict(PROBLEM)
ANSWER = time_shares_to_dict(RESULT.shares, SHARING)
CERTIFICATE = share_certificate_to_dict(PROBLEM, RESULT)


def same_goals(one: Goal, other: Goal) -> bool:
    """Of the same kind, with the same numbers."""
    return type(one) is type(other) and all(
        np.array_equal(value, vars(other)[name]) for name, value in vars(one).items()
    )


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_what_is_written_and_read_back_is_equal(
    tmp_path_factory: pytest.TempPathFactory, seed: int, jobs: int, pairs: bool
) -> None:
    """To the last digit, of every goal, with and without pairs and promises."""
    folder, random = tmp_path_factory.mktemp("files"), np.random.default_rng(seed)
    sharing = drawn(seed, jobs, pairs=pairs)
    shares = random_shares(sharing, random)
    for promised in (None, rates(sharing, shares)):
        for goal in goals(sharing, seed).values():
            problem = ShareProblem(sharing, goal, promised)
            write_time_sharing(problem, folder / "problem.json")
            read = read_time_sharing(folder / "problem.json")
            for name in vars(sharing):
                assert np.array_equal(getattr(sharing, name), getattr(read.sharing, name)), name
            assert same_goals(goal, read.goal)
            if promised is None:
                assert read.promised is None
            else:
                assert read.promised is not None
                assert np.array_equal(promised, read.promised)
            assert digest_of(time_sharing_to_dict(read)) == digest_of(time_sharing_to_dict(problem))
    for one in (shares, None):
        write_time_shares(one, sharing, folder / "shares.json")
        found = read_time_shares(folder / "shares.json", sharing)
        assert (found is None) == (one is None)
        assert found is None or np.array_equal(found, shares)


def test_a_certificate_that_is_written_and_read_back_is_equal(tmp_path: Path) -> None:
    """Digest, bound and prices."""
    write_share_certificate(PROBLEM, RESULT, tmp_path / "certificate.json")
    found = read_share_certificate(tmp_path / "certificate.json")
    assert (found.digest, found.bound) == (digest_of(ASKED), RESULT.bound)
    assert RESULT.prices is not None
    for name, prices in RESULT.prices._asdict().items():
        assert np.array_equal(prices, getattr(found.prices, name)), name


def test_documents_of_equal_numbers_have_one_digest_and_others_have_others() -> None:
    """Neither order nor 1 for 1.0 makes a difference, and every number does."""
    whole = changed(ASKED, ("gpus",), [1.0, 2.0])
    assert digest_of(whole) == digest_of(dict(reversed(ASKED.items()))) == digest_of(ASKED)
    others = [
        changed(ASKED, ("rate", 2, 1), np.nextafter(1 / 3, 1.0)),
        changed(ASKED, ("gpus", 0), 2),
        changed(ASKED, ("promised",), None),
        changed(ASKED, ("goal", "floor", 0), 1e-300),
    ]
    assert len({digest_of(document) for document in (ASKED, *others)}) == 5


BAD_PROBLEMS: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-time-shares", "format is 'goodalloc-time-shares'; expected"),
    (("version",), 2, "version is 2; expected 1"),
    (("names",), ..., "Time sharing: key 'names' is missing"),
    (("gpu",), [1], "key 'gpu' is unknown .did you mean 'gpus'"),
    (("names",), "abc", "Key 'names' is 'abc'; expected a list"),
    (("names", 1), "a", "Job 'a' is there twice"),
    (("names", 1), 7, "Key 'names': name is 7; expected a non-empty string"),
    (("rate",), None, "Key 'rate' is null; expected a list"),
    (("rate", 0), [1.0], "Rates are .*; expected an array of numbers"),
    (("rate", 0, 0), -1.0, "Rates are -1.0 somewhere"),
    (("rate", 0, 0), "1", "Key 'rate': an entry is '1'; expected a number"),
    (("rate", 0, 0), True, "Key 'rate': an entry is true; expected a number"),
    (("rate", 0, 0), 10**400, "Key 'rate': an entry is 10{20}"),
    (("rate", 0, 0), [[[1.0]]], "Key 'rate': an entry is .*; expected a number"),
    (("rate", 1), [0.0, 0.0], "Job 'b' takes 1 GPUs and runs nowhere"),
    (("gpus", 0), 0, "GPUs of a type are 0.0; expected whole numbers above 0"),
    (("gpus", 0), 1.5, "GPUs of a type are 1.5; expected whole"),
    (("gpus",), [1], r"Rates have shape \(3, 2\); expected \(3, 1\)"),
    (("cluster_gpus",), [1], r"GPUs of the cluster have shape \(1,\)"),
    (("replicas", 2), 8, "Job 'ü' takes 8 GPUs and runs nowhere"),
    (("pairs", 0), [0, 2], "they take 1 and 2 GPUs; expected as many"),
    (("pairs", 0), [0, 0], "expected two jobs"),
    (("pairs", 0), [0, 3], "expected two of 3 jobs"),
    (("pairs",), [], r"Pairs: rates have shape \(1, 2, 2\); expected \(0, 2, 2\)"),
    (("pair_rate",), [], r"Pairs: rates have shape \(0,\); expected \(1, 2, 2\)"),
    (("goal",), "level", "Goal is 'level'; expected an object with its kind, one of worst"),
    (("goal", "kind"), "levels", "Goal: kind is 'levels' .did you mean level.*; expected one of"),
    (("goal", "kind"), [], r"Goal: kind is \[\]; expected one of"),
    (("goal", "kind"), "worst", "Goal: key 'floor' is unknown; expected one of kind, delay, work"),
    (("goal", "step"), ..., "Goal: key 'step' is missing"),
    (("goal", "step"), [0.0] * 3, "Goal: step is 0 for everybody"),
    (("goal", "step"), [1.0, 1.0], "Goal: shapes are"),
    (("goal", "floor", 0), -1.0, "Goal: floor has -1.0; expected finite numbers of at least 0"),
    (("promised",), [1.0], r"Promised rates have shape \(1,\); expected \(3,\)"),
    (("promised", 0), -1.0, "Promised rates are -1.0 somewhere"),
    (("promised",), 0.0, "Promised rates is 0.0; expected a list"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), BAD_PROBLEMS)
def test_a_problem_that_makes_no_sense_is_refused(place: Place, value: Any, sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        time_sharing_from_dict(changed(ASKED, place, value))


BAD_SHARES: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-time-sharing", "format is 'goodalloc-time-sharing'; expected"),
    (("names",), ["a", "b"], "Time shares: names are .*; expected .'a', 'b', 'ü'"),
    (("names",), ["b", "a", "ü"], "Time shares: names are"),
    (("shares",), [], r"Shares have shape \(0,\); expected \(4, 2\)"),
    (("shares", 0), [1.0], "Shares are .*; expected an array of numbers"),
    (("shares", 0, 0), None, "Shares: an entry is null; expected a number"),
    (("share",), None, "key 'share' is unknown .did you mean 'shares'"),
    (("shares",), ..., "key 'shares' is missing"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), BAD_SHARES)
def test_shares_that_make_no_sense_are_refused(place: Place, value: Any, sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        time_shares_from_dict(changed(ANSWER, place, value), SHARING)


BAD_CERTIFICATES: list[tuple[Place, Any, str]] = [
    (("kind",), "round", "Certificate: kind is 'round'; expected one of time shares"),
    (("digest",), 7, "Certificate: digest is 7; expected a string"),
    (("bound",), "high", "Certificate: bound is 'high'; expected a number"),
    (("bound",), None, "Certificate: bound is null; expected a number"),
    (("prices",), [], r"Prices is \[\]; expected an object"),
    (("prices", "time"), ..., "Prices: key 'time' is missing"),
    (("prices", "time", 0), -1.0, "Prices: time has -1.0; expected finite numbers of at least 0"),
    (("prices", "time"), [[1.0]], r"Prices: time has a table of shape \(1, 1\); expected"),
    (("prices", "gpus", 0), "0", "Prices: gpus: an entry is '0'; expected a number"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), BAD_CERTIFICATES)
def test_a_certificate_that_makes_no_sense_is_refused(
    tmp_path: Path, place: Place, value: Any, sentence: str
) -> None:
    """In one sentence, which names the file."""
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(changed(CERTIFICATE, place, value)))
    with pytest.raises(ValueError, match=f"^File '.*certificate.json': {sentence}"):
        read_share_certificate(path)


@pytest.mark.parametrize("text", ['{"rate": NaN}', "[" * 99999, '{"a": 1, "a": 1}', "", "null"])
@pytest.mark.parametrize(
    "read",
    [read_time_sharing, lambda path: read_time_shares(path, SHARING), read_share_certificate],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, read: Callable[[Path], object], text: str
) -> None:
    """With the name of the file."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^File '.*other.json'"):
        read(path)
    with pytest.raises(ValueError, match=r"^File '.*none.json' does not exist"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(tmp_path: Path, number: str) -> None:
    """In a problem and in shares."""
    for document, place, read in (
        (ASKED, ("rate", 0, 0), read_time_sharing),
        (ANSWER, ("shares", 0, 0), lambda path: read_time_shares(path, SHARING)),
        (CERTIFICATE, ("prices", "time", 0), read_share_certificate),
    ):
        path = tmp_path / "file.json"
        path.write_text(json.dumps(changed(document, place, 12345.0)).replace("12345.0", number))
        with pytest.raises(ValueError, match=r"^File '.*file.json': .*(NaN|inf|Infinity)"):
            read(path)


def test_the_example_of_the_page_is_read(repository: Path) -> None:
    """What `FORMAT.md` shows is a problem."""
    page = (repository / "data" / "FORMAT.md").read_text(encoding="utf-8")
    form = r"^(\{\n \"format\": \"goodalloc-time-sharing\".*?^\})$"
    (block,) = re.findall(form, page, flags=re.MULTILINE | re.DOTALL)
    assert time_sharing_from_dict(json.loads(block)).sharing.num_lines == 4


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Goals, promises and shares of others, shares that are no numbers."""
    other = drawn(1, 5)
    wrong: list[Callable[[], None]] = [
        lambda: write_time_sharing(PROBLEM._replace(goal=max_min(other)), tmp_path / "a"),
        lambda: write_time_sharing(PROBLEM._replace(promised=np.ones(2)), tmp_path / "a"),
        lambda: write_time_shares(np.ones((2, 2)), SHARING, tmp_path / "a"),
        lambda: write_time_shares(np.full((4, 2), np.nan), SHARING, tmp_path / "a"),
        lambda: write_time_shares(RESULT.shares, SHARING, tmp_path),
    ]
    for write in wrong:
        with pytest.raises(ValueError, match="expected"):
            write()
    assert not list(tmp_path.iterdir())
