"""The stand-alone checker of bounds on whole traces: what it proves, and what it refuses."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goodalloc.experiments.hindsight.bound_file import (
    bound_document,
    late_document,
    problem_document,
    schedule_document,
)
from goodalloc.experiments.verification import verify_hindsight
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.hindsight.late_jobs import late_jobs_bound
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

#: No schedule.
NONE = schedule_document(None)
QUICK = (Stage(UNIT, (20.0, 5.0), 10),)


@pytest.fixture(scope="module")
def files() -> tuple[Any, Any]:
    """Documents of a tiny trace with two types of GPU, and of a bound on it."""
    problem = tiny_trace(5, types=2)
    return problem_document(problem), bound_document(problem, hindsight_bound(problem, QUICK))


@pytest.mark.parametrize("seed", range(8))
def test_it_proves_what_the_search_found(seed: int) -> None:
    """To rounding, or a little more where the search has chords in its tables."""
    problem = tiny_trace(seed, types=1 + seed % 2)
    found = hindsight_bound(problem, QUICK)
    claim = bound_document(problem, found)
    assert claim["bound"] >= found.value * (1 - 1e-9)
    assert verify_hindsight.verify(problem_document(problem), NONE, claim).verified


def tampered(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy with another value in one place."""
    other = copy.deepcopy(document)
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return other


def test_a_larger_claim_is_refused(files: tuple[Any, Any]) -> None:
    """By the smallest amount."""
    problem, claim = files
    more = tampered(claim, ("bound",), float(np.nextafter(claim["bound"], np.inf)))
    verdict = verify_hindsight.verify(problem, NONE, more)
    assert (verdict.verified, verdict.message) == (False, "the prices prove a smaller bound")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("jobs", 0, "release"), 0.5),
        (("jobs", 0, "weight"), 9.0),
        (("trainings", 0, "work", 0), 1e6),
        (("trainings", 0, "rates", 0, 0, 0), 1e-6),
        (("gpus", 0, 0), 1.0e-3),
    ],
)
def test_another_problem_is_refused(files: tuple[Any, Any], path: Any, value: float) -> None:
    """A bound belongs to its problem, by the digest."""
    problem, claim = files
    verdict = verify_hindsight.verify(tampered(problem, path, value), NONE, claim)
    assert (verdict.verified, verdict.message) == (False, "the certificate is of another problem")


def test_other_prices_prove_another_bound(files: tuple[Any, Any]) -> None:
    """Whatever they are, it is below the optimum; prices that are too high prove less."""
    problem, claim = files
    high = tampered(claim, ("prices",), [[9.0 for _ in row] for row in claim["prices"]])
    assert not verify_hindsight.verify(problem, NONE, high).verified


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("bound",), "many", "bound: expected a finite number"),
        (("bound",), float("nan"), "bound: expected a finite number"),
        (("prices", 0), [-1.0, 0.0], "prices: expected finite numbers of at least 0"),
        (("prices", 0), [1.0], "prices: expected finite numbers"),
        (("edges", 0), 1.0, "expected to begin with 0"),
        (("edges", 1), 0.0, "expected to ascend"),
        (("version",), 2, "a goodalloc-hindsight-bound, version 1"),
    ],
)
def test_a_malformed_certificate_is_bad_input(
    files: tuple[Any, Any], path: Any, value: Any, words: str
) -> None:
    """With a sentence."""
    problem, claim = files
    with pytest.raises((ValueError, TypeError), match=words):
        verify_hindsight.verify(problem, NONE, tampered(claim, path, value))


def scheduled(seed: int = 4) -> tuple[Any, Any, Any]:
    """Return the documents of a tiny trace, of a schedule and of a bound."""
    problem = tiny_trace(seed)
    bound = hindsight_bound(problem, QUICK)
    found = find_schedule(problem, bound, clock=UNIT, stop=Stop(iterations=5))
    documents = problem_document(problem), schedule_document(found.segments)
    return *documents, bound_document(problem, bound)


def test_a_schedule_is_checked_with_its_value() -> None:
    """And the gap between them."""
    problem, schedule, claim = scheduled()
    verdict = verify_hindsight.verify(problem, schedule, claim)
    assert verdict.verified
    assert verdict.proved <= verdict.value
    assert verdict.gap == pytest.approx(1 - claim["bound"] / verdict.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda own: own.clear(), "is never complete"),
        (lambda own: own[0].__setitem__(0, 0.0 - 5.0), "segments: expected"),
        (lambda own: own[0].__setitem__(2, 7), "a segment of"),
        (lambda own: own[0].__setitem__(3, 5.0), "a segment of"),
        (lambda own: own[0].__setitem__(1, own[0][0]), "a segment of"),
    ],
)
def test_an_impossible_schedule_is_refused(change: Any, words: str) -> None:
    """Whatever the bound says."""
    problem, schedule, claim = scheduled()
    change(next(iter(schedule["segments"].values())))
    try:
        message = verify_hindsight.verify(problem, schedule, claim).message
    except ValueError as error:
        message = str(error)
    assert words in message


def test_more_gpus_than_there_are_are_refused() -> None:
    """Two jobs at once on one GPU."""
    problem, schedule, claim = scheduled()
    gpus = problem["gpus"][0][0]
    early = [[job["begin"], 900.0, 0, gpus] for job in problem["jobs"]]
    told = {job["name"]: [segment] for job, segment in zip(problem["jobs"], early, strict=True)}
    verdict = verify_hindsight.verify(problem, {**schedule, "segments": told}, claim)
    assert verdict.message == "more GPUs are held than there are"


def lone_day(work: float, gpus: float = 1.0, begin: float = 0.0) -> Any:
    """Return the document of a problem with one job, at a rate of 1 a second on one GPU."""
    training = {"name": "one", "work": [work], "gpus": [gpus], "rates": [[[1.0]]]}
    job = {"name": "a", "training": "one", "release": begin, "begin": begin, "weight": 1.0}
    problem = {"format": "goodalloc-offline-problem", "version": 1, "types": ["gpu"]}
    return problem | {"times": [0.0], "gpus": [[1.0]], "trainings": [training], "jobs": [job]}


def judged(problem: Any, segments: list[list[float]], bound: float = -1.0) -> Any:
    """Return the verdict on the segments of the job, beside a bound by no prices."""
    schedule = {"format": "goodalloc-offline-schedule", "version": 1, "segments": {"a": segments}}
    claim = {"format": "goodalloc-hindsight-bound", "version": 1, "edges": [0.0, 2e6]}
    claim |= {"digest": verify_hindsight.digest(problem), "prices": [[0.0]], "multipliers": {}}
    return verify_hindsight.verify(problem, schedule, claim | {"bound": bound})


def test_segments_late_in_a_trace_are_no_longer_than_they_are() -> None:
    """A hundred of a millisecond each, after eleven days, do not do a fifth of a second of work."""
    starts = [1e6 + index for index in range(100)]
    segments = [[start, start + 1e-3, 0.0, 1.0] for start in starts]
    problem = lone_day(0.2, begin=1e6)
    problem["trainings"][0]["work"] = [2e-3] * 100
    problem["trainings"][0]["rates"] = [[[1.0]] * 100]
    assert judged(problem, segments).message == "'a' is never complete"
    problem["trainings"][0]["work"] = [1e-3] * 100
    assert judged(problem, segments).verified


def test_a_gpu_more_is_refused_however_many_are_held_at_other_times() -> None:
    """What is lost of the sum of all segments is rounding alone."""
    problem = lone_day(1e5, gpus=1.0 + 1e-5)
    segments = [[1.0 * second, second + 1.0, 0.0, 1.0 + 1e-5] for second in range(100_000)]
    assert judged(problem, segments).message == "more GPUs are held than there are"


def test_a_schedule_below_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks a rule, whatever the checks of rules tolerate."""
    problem, schedule, claim = scheduled()
    verdict = verify_hindsight.verify(problem, schedule, claim)
    monkeypatch.setattr(verify_hindsight, "BELOW", 1 - verdict.value / claim["bound"] - 1e-9)
    assert verify_hindsight.verify(problem, schedule, claim).message == (
        "the schedule is below the bound: it is none of this problem"
    )


def test_numbers_whose_products_underflow_are_bad_input_in_a_problem() -> None:
    """Prices and multipliers so small count as 0 instead."""
    for key in ("work", "gpus"):
        problem = lone_day(10.0)
        problem["trainings"][0][key] = [1e-120]
        with pytest.raises(ValueError, match=f"{key}: expected .* none between 0 and 1e-100"):
            judged(problem, [[0.0, 10.0, 0.0, 1.0]])
    problem = lone_day(10.0)
    problem["jobs"][0]["weight"] = 1e-120
    with pytest.raises(ValueError, match=r"weight: expected .* none between 0 and 1e-100"):
        judged(problem, [[0.0, 10.0, 0.0, 1.0]])


def test_multipliers_too_small_to_multiply_prove_nothing(files: tuple[Any, Any]) -> None:
    """They count as 0, and so do prices."""
    problem, claim = files
    none = {name: [[0.0] * len(rows[0])] for name, rows in claim["multipliers"].items()}
    tiny = {name: [[1e-120] * len(rows[0])] for name, rows in claim["multipliers"].items()}
    prices = [[0.0 for _ in row] for row in claim["prices"]]
    least = [[1e-120 for _ in row] for row in claim["prices"]]
    without = verify_hindsight.verify(
        problem, NONE, {**claim, "multipliers": none, "prices": prices}
    )
    small = verify_hindsight.verify(problem, NONE, {**claim, "multipliers": tiny, "prices": least})
    assert without.proved == small.proved


def test_a_key_that_stands_twice_is_bad_input(files: tuple[Any, Any], tmp_path: Path) -> None:
    """Of which a reader would take the last."""
    names = [tmp_path / f"{name}.json" for name in ("problem", "schedule", "bound")]
    for name, document in zip(names, (files[0], NONE, files[1]), strict=True):
        name.write_text(json.dumps(document))
    names[2].write_text('{"bound": 1e9, ' + json.dumps(files[1])[1:])
    command = [sys.executable, verify_hindsight.__file__, *map(str, names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "keys: expected each once" in done.stderr) == (2, True)


def test_the_file_runs_by_itself(files: tuple[Any, Any], tmp_path: Path) -> None:
    """With NumPy, and nothing else of goodalloc."""
    script = tmp_path / "verify_hindsight.py"
    script.write_text(Path(verify_hindsight.__file__).read_text("utf-8"))
    names = [tmp_path / f"{name}.json" for name in ("problem", "schedule", "bound")]
    for name, document in zip(names, (files[0], NONE, files[1]), strict=True):
        name.write_text(json.dumps(document))
    command = [sys.executable, "-I", str(script), *map(str, names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "verified: True" in done.stdout
    names[2].write_text(json.dumps({**files[1], "bound": 1e9}))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    names[2].write_text("{}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "error:" in done.stderr) == (2, True)


@pytest.fixture(scope="module")
def late() -> tuple[Any, Any, Any]:
    """Documents of a tiny trace, of a schedule, and of a bound on its late jobs."""
    problem = tiny_trace(2)
    due = np.array([job.begin + 1.5 * UNIT for job in problem.jobs])
    bound = late_jobs_bound(problem, due, interval=UNIT)
    assert bound.value > 0.1
    found = find_schedule(problem, clock=UNIT, stop=Stop(iterations=5))
    documents = problem_document(problem), schedule_document(found.segments)
    return *documents, late_document(problem, bound)


def test_late_jobs_of_a_schedule_are_counted_beside_their_bound(late: tuple[Any, Any, Any]) -> None:
    """By the weight of those that end after they are due."""
    problem, schedule, claim = late
    verdict = verify_hindsight.verify(problem, schedule, claim)
    assert verdict.verified
    assert 0.1 < verdict.proved <= verdict.value
    later = {name: 1e4 for name in claim["due"]}
    relaxed = verify_hindsight.verify(problem, schedule, {**claim, "due": later})
    assert (relaxed.value, relaxed.proved <= 0.0, relaxed.verified) == (0.0, True, False)


@pytest.mark.parametrize("seed", range(8))
def test_it_proves_what_the_search_of_late_jobs_found(seed: int) -> None:
    """To rounding."""
    problem = tiny_trace(seed, types=1 + seed % 2)
    due = np.array([job.begin + (1 + seed % 3) * UNIT for job in problem.jobs])
    found = late_jobs_bound(problem, due, interval=UNIT)
    claim = late_document(problem, found)
    assert claim["bound"] >= found.value - 1e-9
    assert verify_hindsight.verify(problem_document(problem), NONE, claim).verified


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("due",), {}, "due: expected seconds for every job"),
        (("due",), None, "due: expected seconds for every job"),
        (("due",), [1.0], "due: expected seconds for every job"),
        (("due", "job 0"), -1.0, "job 0: expected a finite number"),
        (("due", "job 0"), "soon", "job 0: expected a finite number"),
        (("format",), "goodalloc-hindsight-bound", "a goodalloc-late-bound, version 1"),
    ],
)
def test_malformed_deadlines_are_bad_input(
    late: tuple[Any, Any, Any], path: Any, value: Any, words: str
) -> None:
    """With a sentence."""
    problem, schedule, claim = late
    with pytest.raises(ValueError, match=words):
        verify_hindsight.verify(problem, schedule, tampered(claim, path, value))
