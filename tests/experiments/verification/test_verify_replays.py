"""The stand-alone checker of bounds on replays: what it proves, and what it refuses."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goodalloc.experiments.hindsight.bound_file import problem_document
from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.experiments.verification import verify_hindsight, verify_replays
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight.rounds_with_restarts import round_job_bounds
from tests.support.hindsight.lone_rounds import cheapest_by_enumeration, drawn_in_rounds


@pytest.fixture(scope="module")
def files() -> tuple[Any, Any]:
    """Documents of drawn jobs, and of a bound on their replays."""
    problem, bound, rounds = drawn_in_rounds(25)
    return problem_document(problem), replay_bound_document(problem, bound, rounds, spacing=1.0)


def check_proof(seed: int) -> None:
    """Assert that the checker proves what the solver finds, and no more than the cheapest cost."""
    problem, bound, rounds = drawn_in_rounds(seed)
    proved = replay_bound_document(problem, bound, rounds, spacing=1.0)["bound"]
    found = round_job_bounds(problem, bound, rounds, spacing=1.0)
    worth = float(bound.job_bounds.sum()) - bound.value
    if (problem.trainings[0].rates > 0).all():  # it loses digits where a phase hardly runs
        assert proved >= float(found.sum()) - worth - 1e-4 * float(found.sum())
        if (found > bound.job_bounds).all():  # it proves other bounds without chords, and better
            assert proved == pytest.approx(float(found.sum()) - worth, rel=1e-5, abs=1e-5)
    least = [cheapest_by_enumeration(problem, bound.prices, rounds, job) for job in problem.jobs]
    assert proved <= sum(least) - worth + 1e-9


@pytest.mark.parametrize("seed", range(30))
def test_it_proves_what_the_solver_finds_and_no_more_than_enumeration(seed: int) -> None:
    """On jobs with drawn rates, prices and restarts."""
    check_proof(seed)


@pytest.mark.slow
def test_it_proves_no_more_than_enumeration_on_hundreds_of_days() -> None:
    """No violation on 500."""
    for seed in range(2000, 2500):
        check_proof(seed)


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value in one place."""
    other = copy.deepcopy(document)
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return other


def rows_of(problem: Any, seconds: float) -> list[dict[str, str]]:
    """Return the rows of a replay in which every job takes so many seconds."""
    return [
        {
            "job": job["name"],
            "submission": str(job["release"]),
            "completion": str(job["release"] + seconds),
        }
        for job in problem["jobs"]
    ]


def test_a_replay_is_told_with_its_gap(files: tuple[Any, Any]) -> None:
    """By the rows of its jobs."""
    problem, claim = files
    verdict = verify_replays.verify(problem, rows_of(problem, 500.0), claim)
    weights = sum(job["weight"] for job in problem["jobs"])
    assert verdict.verified
    assert verdict.value == pytest.approx(500.0 * weights)
    assert verdict.gap == pytest.approx(1 - claim["bound"] / verdict.value)


def test_a_replay_below_the_bound_is_refused(files: tuple[Any, Any]) -> None:
    """As it does not live by the rounds."""
    problem, claim = files
    verdict = verify_replays.verify(problem, rows_of(problem, 0.5), claim)
    assert (verdict.verified, "does not live by these rounds" in verdict.message) == (False, True)


def test_a_larger_claim_is_refused(files: tuple[Any, Any]) -> None:
    """By the smallest amount."""
    problem, claim = files
    more = changed(claim, ("bound",), float(np.nextafter(claim["bound"], np.inf)))
    verdict = verify_replays.verify(problem, None, more)
    assert (verdict.verified, verdict.message) == (False, "the prices prove a smaller bound")


@pytest.mark.parametrize(
    ("path", "value"),
    [(("jobs", 0, "weight"), 9.0), (("trainings", 0, "work", 0), 1e6), (("gpus", 0, 0), 1e-3)],
)
def test_another_problem_is_refused(files: tuple[Any, Any], path: Any, value: float) -> None:
    """A bound belongs to its problem, by the digest."""
    problem, claim = files
    verdict = verify_replays.verify(changed(problem, path, value), None, claim)
    assert (verdict.verified, verdict.message) == (False, "the certificate is of another problem")


def test_more_nodes_never_prove_less_than_few_by_much() -> None:
    """Any cut of the phases proves some bound; finer ones a better one on average."""
    gains = []
    for seed in range(10):
        problem, bound, rounds = drawn_in_rounds(seed)
        claim, told = replay_bound_document(problem, bound, rounds), problem_document(problem)
        ones = {name: [1 for _ in parts] for name, parts in claim["parts"].items()}
        coarse = verify_replays.verify(told, None, {**claim, "parts": ones}).proved
        gains.append(claim["bound"] - coarse)
    assert np.mean(gains) > 0
    assert min(gains) > -1e-6


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 2, "a goodalloc-replay-bound, version 1"),
        (("bound",), "many", "bound: expected a finite number"),
        (("seconds",), 0.5, "seconds: expected a whole number"),
        (("seconds",), 1e400, "seconds: expected a whole number"),
        (("restart", "one"), -1.0, "one: expected a finite number of at least 0"),
        (("parts", "one"), [0.5], "parts: expected"),
        (("parts", "one", 0), 0, "parts: expected whole numbers"),
        (("parts", "one", 0), 1e7, "parts: expected whole numbers"),
        (("prices", 0), [-1.0], "prices: expected finite numbers"),
        (("edges", 0), 1.0, "edges: expected to ascend from 0"),
    ],
)
def test_a_malformed_certificate_is_bad_input(
    files: tuple[Any, Any], path: Any, value: Any, words: str
) -> None:
    """With a sentence."""
    problem, claim = files
    with pytest.raises(ValueError, match=words):
        verify_replays.verify(problem, None, changed(claim, path, value))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job", "other", "expected those of the problem"),
        ("submission", "99", "is submitted at"),
        ("submission", "nan", "is submitted at"),
        ("completion", "nan", "completes at no time"),
        ("completion", "-1", "completes at no time"),
    ],
)
def test_rows_of_another_replay_are_bad_input(
    files: tuple[Any, Any], key: str, value: str, words: str
) -> None:
    """With a sentence."""
    problem, claim = files
    rows = rows_of(problem, 500.0)
    rows[0][key] = value
    with pytest.raises(ValueError, match=words):
        verify_replays.verify(problem, rows, claim)


def lone(work: list[float], gpus: list[float], rates: list[list[float]]) -> Any:
    """Return the document of a problem with one job of weight 1 that is there from 0 on."""
    training = {"name": "one", "work": work, "gpus": gpus, "rates": [rates]}
    job = {"name": "a", "training": "one", "release": 0.0, "begin": 0.0, "weight": 1.0}
    problem = {"format": "goodalloc-offline-problem", "version": 1, "types": ["gpu"]}
    return problem | {"times": [0.0], "gpus": [[1.0]], "trainings": [training], "jobs": [job]}


def claimed(problem: Any, **changes: Any) -> Any:
    """Return a certificate of a lone job that claims too much."""
    claim = {"format": "goodalloc-replay-bound", "version": 1, "bound": 1e9, "seconds": 60}
    claim |= {"digest": verify_hindsight.digest(problem), "restart": {"one": 0.0}}
    claim |= {"parts": {"one": [1] * len(problem["trainings"][0]["work"])}, "multipliers": {}}
    return claim | {"edges": [0.0, 60.0], "prices": [[0.0]]} | changes


def test_no_price_is_paid_behind_the_last_edge() -> None:
    """A round that goes on behind it costs nothing there, as the GPUs are worth nothing."""
    problem = lone([10.0], [1.0], [[1.0]])
    claim = claimed(problem, edges=[0.0, 1.0], prices=[[5.0]], bound=10.1)
    assert verify_replays.verify(problem, None, claim).proved <= 10.0
    assert not verify_replays.verify(problem, None, claim).verified


@pytest.mark.parametrize(
    ("work", "parts"), [([0.0, 10.0], [1, 1]), ([1e-320, 10.0], [90000, 1]), ([1e308, 1.0], [1, 1])]
)
def test_what_is_no_number_proves_nothing(work: list[float], parts: list[int]) -> None:
    """It is bad input, with a sentence, or refused."""
    problem = lone(work, [1.0], [[1.0] for _ in work])
    claim = claimed(problem, parts={"one": parts})
    if min(work) > 1e-300:
        assert not verify_replays.verify(problem, None, claim).verified
        return
    with pytest.raises(ValueError, match="expected"):
        verify_replays.verify(problem, None, claim)


def test_a_sum_of_many_parts_proves_no_more_than_the_work() -> None:
    """A job of 10,000 s alone costs as many, whatever the sum of 100,000 lengths comes to."""
    problem = lone([10_000.0], [1.0], [[1.0]])
    claim = claimed(problem, seconds=20_000, edges=[0.0, 20_000.0], parts={"one": [100_000]})
    proved = verify_replays.verify(problem, None, claim).proved
    assert 10_000.0 * (1 - 1e-9) < proved <= 10_000.0


def test_a_heavy_job_behind_the_last_edge_proves_nothing() -> None:
    """As its cost is no number."""
    problem = lone([10.0], [1.0], [[1.0]])
    problem["jobs"][0] |= {"weight": 1e308, "begin": 120.0}
    verdict = verify_replays.verify(problem, None, claimed(problem))
    assert (verdict.verified, verdict.message) == (False, "a number is too large")


def test_numbers_of_gpus_may_stand_in_any_order() -> None:
    """The fewest are not dropped for more of them at the same rate."""
    problem = lone([10.0], [2.0, 1.0], [[1.0, 1.0]])
    claim = claimed(problem, seconds=10, edges=[0.0, 10.0, 60.0], prices=[[0.5], [0.0]])
    assert verify_replays.verify(problem, None, claim | {"bound": 11.0}).proved <= 10.0


@pytest.mark.parametrize("cells", [1, 50, 10**9])
def test_it_proves_the_same_however_many_options_are_worked_out_together(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit; also where several corners are between two nodes."""
    for seed in range(40, 52):
        problem, bound, rounds = drawn_in_rounds(seed)
        told = problem_document(problem)
        for spacing in (1.0, 7.0):
            claim = replay_bound_document(problem, bound, rounds, spacing=spacing)
            with monkeypatch.context() as patched:
                patched.setattr(verify_replays, "CELLS", cells)
                assert verify_replays.verify(told, None, claim).proved == claim["bound"]


@pytest.mark.parametrize(
    ("seed", "proved"),
    [(1, -7.610685929306814), (179, 44.46732296262478), (385, -136.63697054398799)],
)
def test_it_proves_what_its_first_version_did(seed: int, proved: float) -> None:
    """Which lowered each node by every corner in turn; on jobs with several corners in a part.

    Less, at most, by the error of the seconds to the end, which it did not subtract.
    """
    problem, bound, rounds = drawn_in_rounds(seed)
    found = replay_bound_document(problem, bound, rounds, spacing=1.0)["bound"]
    assert proved - 5e-8 * abs(proved) < found <= proved


def test_a_certificate_that_takes_hours_is_refused() -> None:
    """In a sentence."""
    problem = lone([10.0], [1.0], [[1.0]])
    claim = claimed(problem, edges=[0.0, 5e6], parts={"one": [90000]})
    with pytest.raises(ValueError, match="nodes, options and rounds at most"):
        verify_replays.verify(problem, None, claim)


def test_rounds_of_no_whole_seconds_have_no_certificate() -> None:
    """The checker counts in whole ones."""
    problem, bound, _ = drawn_in_rounds(25)
    with pytest.raises(ValueError, match="seconds: expected a whole number"):
        replay_bound_document(problem, bound, Rounds(9.5, {"one": 1.0}))


def test_repeated_keys_and_headings_are_bad_input(files: tuple[Any, Any], tmp_path: Path) -> None:
    """Of which a reader would take the last."""
    problem, claim = files
    rows = rows_of(problem, 500.0)
    table = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    twice = [f"{line},{line.split(',')[0]}" for line in table]
    good = {"problem.json": json.dumps(problem), "jobs.csv": "\n".join(table)}
    good |= {"bound.json": json.dumps(claim)}
    bad = {"jobs.csv": "\n".join(twice), "bound.json": '{"bound": 1.0, ' + json.dumps(claim)[1:]}
    command = [sys.executable, "-P", "-m", verify_replays.__name__]
    command += [str(tmp_path / name) for name in good]
    for changes in ({}, *({name: text} for name, text in bad.items())):
        for name, text in (good | changes).items():
            (tmp_path / name).write_text(text, "utf-8")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "once" in done.stderr) == ((2, True) if changes else (0, False))


def test_the_files_run_by_themselves(files: tuple[Any, Any], tmp_path: Path) -> None:
    """With NumPy, and nothing else of goodalloc."""
    for module in (verify_hindsight, verify_replays):
        path = Path(str(module.__file__))
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    problem, claim = files
    rows = rows_of(problem, 500.0)
    table = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    texts = {
        "problem.json": json.dumps(problem),
        "jobs.csv": "\n".join(table),
        "bound.json": json.dumps(claim),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    command = [sys.executable, str(tmp_path / "verify_replays.py")]
    command += [str(tmp_path / name) for name in texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "verified: True" in done.stdout
    (tmp_path / "bound.json").write_text(json.dumps({**claim, "bound": 1e9}), "utf-8")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    (tmp_path / "bound.json").write_text("{}", "utf-8")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "error:" in done.stderr) == (2, True)
