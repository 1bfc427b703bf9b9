"""The checker of certificates: what it accepts, what it refuses, and that it stands alone."""

from __future__ import annotations

import ast
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.gavel.time_sharing_file import (
    ShareProblem,
    digest_of,
    time_shares_to_dict,
    time_sharing_to_dict,
)
from goodalloc.experiments import verify_certificate
from goodalloc.experiments.verification import verify_time_shares
from goodalloc.experiments.verification.verify_time_shares import verify
from goodalloc.models.gavel.share_goal import (
    Level,
    Worst,
    completion_time,
    finish_time,
    max_min,
    throughput,
)
from goodalloc.models.gavel.time_sharing import TimeSharing, equal_rates, rates
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.solvers.gavel import time_shares
from goodalloc.solvers.gavel.bisection import makespan_by_bisection
from goodalloc.solvers.gavel.share_certificate_file import share_certificate_to_dict
from goodalloc.solvers.gavel.time_shares import (
    ShareResult,
    best_shares,
    best_shares_with_pairs,
)
from tests.support.documents import Place, changed
from tests.support.policies.time_shares import by_linprog, drawn, goals, random_shares

if TYPE_CHECKING:
    from goodalloc.models.gavel.share_goal import Goal

CHECKER = Path(verify_time_shares.__file__)

Documents = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
Solve = Callable[..., ShareResult]

LINEAR = ("max-min", "makespan", "throughput")


def documents_of(problem: ShareProblem, result: ShareResult) -> Documents:
    """The problem, the shares and the certificate."""
    return (
        time_sharing_to_dict(problem),
        time_shares_to_dict(result.shares, problem.sharing),
        share_certificate_to_dict(problem, result),
    )


def solved(sharing: TimeSharing, promised: Any, seed: int) -> list[tuple[ShareProblem, Any]]:
    """Every goal by all ways that there are."""
    found = []
    for name, goal in goals(sharing, seed).items():
        problem = ShareProblem(sharing, goal, promised)
        found.append((problem, best_shares(*problem)))
        if name in LINEAR:
            found.append((problem, best_shares(*problem, solver="HIGHS")))
        if len(sharing.pairs):
            found.append((problem, best_shares_with_pairs(*problem)))
        if isinstance(goal, Worst) and promised is None:
            found.append((problem, makespan_by_bisection(sharing, goal)))
    return found


def accept(problem: ShareProblem, result: ShareResult) -> None:
    """The checker finds what the result says, and next to nothing more."""
    asked, answer, certificate = documents_of(problem, result)
    assert result.status != "unknown"
    for exact in (False, True):
        verdict = verify(asked, answer, certificate, exact)
        assert verdict.verified, verdict
        assert verdict.bound == result.bound
        if result.shares is None:
            assert verdict.status == result.status == "infeasible"
            continue
        assert verdict.value == pytest.approx(result.value, rel=1e-13, abs=0.0)
        assert verdict.gap == pytest.approx(result.gap, rel=1e-3, abs=1e-13)
    if math.isfinite(result.bound) and result.bound != 0.0:
        tighter = result.bound * (1.0 - (1e-12 if result.larger_is_better else -1e-12))
        assert not verify(asked, answer, changed(certificate, ("bound",), tighter), True).verified


def some_promises(sharing: TimeSharing, seed: int) -> Any:
    """None; some that can be kept, most of them tight; or too high ones."""
    random = np.random.default_rng(seed)
    part = random.choice([0.0, 0.9, 0.999, 2.0])
    return None if part == 0.0 else part * rates(sharing, random_shares(sharing, random))


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 8), st.booleans())
def test_all_that_is_proved_is_accepted_and_hardly_more(seed: int, jobs: int, pairs: bool) -> None:
    """Of every goal, by every way to solve it; a bound that is 1e-12 better is not proved."""
    sharing = drawn(seed, jobs, pairs=pairs)
    for problem, result in solved(sharing, some_promises(sharing, seed), seed):
        accept(problem, result)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_all_that_is_proved_is_accepted_on_hundreds_of_problems(seed: int) -> None:
    """Also of more jobs."""
    sharing = drawn(seed, 1 + seed % 24, pairs=seed % 2 > 0, crowded=1 + seed % 5)
    for problem, result in solved(sharing, some_promises(sharing, seed), seed):
        accept(problem, result)


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_nothing_better_than_the_optimum_of_another_solver_is_proved(
    seed: int, jobs: int, pairs: bool
) -> None:
    """A bound is no better than it, and a claim that is better by a millionth is refused."""
    sharing = drawn(seed, jobs, pairs=pairs)
    promised = some_promises(sharing, seed)
    for problem, result in solved(sharing, promised, seed):
        goal = problem.goal
        if not goal.larger_is_better and (not isinstance(goal, Worst) or goal.delay.any()):
            continue
        unit = goal.work.max() if isinstance(goal, Worst) else 1.0
        linear = Level(np.zeros(jobs), goal.work / unit) if isinstance(goal, Worst) else goal
        assert not isinstance(linear, Worst)
        other = by_linprog(sharing, linear, promised)  # type: ignore[arg-type]
        if other == -math.inf:
            assert result.status == "infeasible"
            continue
        best, sign = (unit / other, -1.0) if isinstance(goal, Worst) else (other, 1.0)
        assert sign * result.bound >= sign * best * (1.0 - sign * 1e-7)
        asked, answer, certificate = documents_of(problem, result)
        claim = changed(certificate, ("bound",), best * (1.0 - sign * 1e-6))
        assert verify(asked, answer, claim).message == "the prices break (2)"


@cache
def example(kind: str) -> Documents:
    """Six jobs, some of them pairs and in gangs, with promises of which some are tight."""
    drawn_sharing, random = drawn(7, 6, pairs=True), np.random.default_rng(7)
    sharing = TimeSharing(
        drawn_sharing.names,
        drawn_sharing.rate,
        [2, 1, 1],
        drawn_sharing.replicas,
        drawn_sharing.pairs,
        drawn_sharing.pair_rate,
        cluster_gpus=[2, 2, 2],
    )
    equal = best_shares(sharing, max_min(sharing), solver="HIGHS").shares
    assert equal is not None
    promised = (2.0 if kind == "infeasible" else 0.9) * rates(sharing, equal)
    steps = rates(sharing, equal) * random.uniform(50.0, 200.0, 6)
    known: dict[str, Goal] = {
        "level": max_min(sharing, random.uniform(0.5, 5.0, 6)),
        "worst": finish_time(steps, 10.0, 100.0),
        "total": completion_time(steps, 10.0),
        "gain": throughput(sharing, equal_rates(sharing)),
        "infeasible": max_min(sharing),
    }
    problem = ShareProblem(sharing, known[kind], promised)
    result = best_shares(*problem, solver="CLARABEL" if kind in ("worst", "total") else "HIGHS")
    assert (result.shares is None) == (kind == "infeasible")
    return documents_of(problem, result)


PROBLEM, SHARES, CERTIFICATE = range(3)
KINDS = ("level", "worst", "total", "gain", "infeasible")
FOUND = ("level", "worst", "total", "gain")
PRICED = ("level", "worst", "total")
SMALLER, LARGER = ("worst", "total"), ("level", "gain")


def by(factor: float) -> Callable[[Any], Any]:
    """All numbers times a factor."""
    return lambda value: (np.array(value) * factor).tolist()


def to(value: Any) -> Callable[[Any], Any]:
    """Another value; `...` for none."""
    return lambda _: value


#: Of which examples, where (of which document), what instead, and words of the refusal.
Tampering = tuple[tuple[str, ...], int, Place, Callable[[Any], Any], str]

#: What no certificate survives.
CLAIMS: list[Tampering] = [
    (LARGER, CERTIFICATE, ("bound",), by(1.0 - 1e-9), "the prices break .2."),
    (SMALLER, CERTIFICATE, ("bound",), by(1.0 + 1e-9), "the prices break .2."),
    (LARGER, CERTIFICATE, ("bound",), to("-inf"), "the prices break .2."),
    (SMALLER, CERTIFICATE, ("bound",), to("inf"), "the prices break .2."),
    (LARGER, CERTIFICATE, ("bound",), to("inf"), "bound: expected a number or '-inf'"),
    (SMALLER, CERTIFICATE, ("bound",), to("-inf"), "bound: expected a number or 'inf'"),
    (("infeasible",), CERTIFICATE, ("bound",), to(1.0), "there are no shares"),
    (KINDS, CERTIFICATE, ("bound",), to(None), "bound: expected a number"),
    (KINDS, CERTIFICATE, ("bound",), to("1.0"), "bound: expected a number"),
    (KINDS, CERTIFICATE, ("bound",), to(math.nan), "bound: expected a number"),
    (KINDS, CERTIFICATE, ("bound",), to(True), "bound: expected a number"),
    (KINDS, CERTIFICATE, ("prices", "gpus"), by(0.999999), "the prices break .1."),
    (KINDS, CERTIFICATE, ("prices", "gpus"), by(4.0), "the prices break .2."),
    (FOUND, CERTIFICATE, ("prices", "gpus"), by(1.000001), "the prices break .2."),
    (KINDS, CERTIFICATE, ("prices", "gpus", 1), to(-1e-9), "gpus: expected finite numbers of at"),
    (PRICED, CERTIFICATE, ("prices", "rates"), by(1.000001), "the prices break .1."),
    (PRICED, CERTIFICATE, ("prices", "rates"), by(0.999), "the prices break .2."),
    (PRICED, CERTIFICATE, ("prices", "rates"), by(0.0), "the prices break .2."),
    (PRICED, CERTIFICATE, ("prices", "rates"), by(-1.0), "rates: expected finite numbers of at"),
    (KINDS, CERTIFICATE, ("prices", "promises"), by(1.000001), "the prices break .1."),
    (FOUND, CERTIFICATE, ("prices", "promises"), by(0.9), "the prices break .2."),
    (("infeasible",), CERTIFICATE, ("prices", "promises"), by(0.49), "the prices break .2."),
    (KINDS, CERTIFICATE, ("prices", "promises"), by(0.0), "the prices break .2."),
    (KINDS, CERTIFICATE, ("prices", "time"), to([1e6] * 6), "the prices break .2."),
    (KINDS, CERTIFICATE, ("prices", "time", 0), to(math.nan), "time: expected finite numbers"),
    (KINDS, CERTIFICATE, ("prices", "time", 0), to(1e308), "the prices break .2.|too large"),
    (KINDS, CERTIFICATE, ("prices", "time", 0), to("0"), "time: expected finite numbers"),
    (KINDS, CERTIFICATE, ("prices", "time"), to([0.0] * 5), "time: expected .* shape .6,."),
    (KINDS, CERTIFICATE, ("prices", "time"), to(...), "certificate: expected prices rates, prom"),
    (KINDS, CERTIFICATE, ("prices",), to(None), "certificate: expected prices rates, promises"),
    (KINDS, CERTIFICATE, ("digest",), to("0" * 64), "the certificate is of another problem"),
    (KINDS, CERTIFICATE, ("digest",), to(...), "certificate, version 1: expected this and the"),
    (KINDS, CERTIFICATE, ("kind",), to("round"), "certificate: expected prices .* of time shares"),
    (KINDS, CERTIFICATE, ("version",), to(2), "goodalloc-certificate, version 1: expected this"),
    (KINDS, CERTIFICATE, ("more",), to(0), "goodalloc-certificate, version 1: expected this and"),
    (KINDS, SHARES, ("format",), to("goodalloc-allocation"), "time-shares, version 1: expected"),
    (FOUND, SHARES, ("shares",), by(1.000001), "more GPUs are taken than there are"),
    (FOUND, SHARES, ("shares",), by(0.99), "a promised rate is missed"),
    (KINDS, SHARES, ("shares",), to([[0.0] * 3] * 9), "a promised rate is missed"),
    (KINDS, SHARES, ("shares",), to([[0.4] * 3] * 9), "a job has more than all its time"),
    (KINDS, SHARES, ("shares",), to([[0.1] * 3] * 8), "shares: expected .* shape .9, 3."),
    (KINDS, SHARES, ("shares",), to([[0.1] * 2] * 9), "shares: expected .* shape .9, 3."),
    (KINDS, SHARES, ("shares",), to([[0.1] * 2, [0.1]]), "inhomogeneous"),
    (FOUND, SHARES, ("shares",), to(None), "there are no shares"),
    (FOUND, SHARES, ("shares", 0, 0), to(-1e-12), "shares: expected finite numbers of at least 0"),
    (FOUND, SHARES, ("shares", 0, 0), to(math.inf), "shares: expected finite numbers"),
    (FOUND, SHARES, ("shares", 0, 0), to(None), "shares: expected finite numbers"),
    (KINDS, SHARES, ("names",), lambda names: names[::-1], "shares: expected the names of the"),
    (FOUND, SHARES, ("shares",), lambda rows: rows[::-1], "more (GPUs|than all)|rate is missed"),
]

#: Problems for which the certificate was not made.
OTHERS: list[Tampering] = [
    (KINDS, PROBLEM, place, change, "the certificate is of another problem")
    for place, change in [
        (("gpus", 0), to(1)),
        (("gpus", 0), to(3)),
        (("cluster_gpus", 0), to(3)),
        (("rate",), by(1.0 + 1e-15)),
        (("pair_rate",), by(0.5)),
        (("replicas",), by(2)),
        (("promised",), to(None)),
        (("promised", 0), to(0.0)),
        (("pairs", 0), lambda p: p[::-1]),
    ]
]

#: The same with a digest of the problem that it is: the prices or the shares do not fit.
SIGNED: list[Tampering] = [
    (KINDS, PROBLEM, ("rate", 3), by(1.000001), "the prices break .1."),
    (FOUND, PROBLEM, ("rate", 3), by(0.999), "a promised rate is missed"),
    (KINDS, PROBLEM, ("pair_rate",), by(9.0), "the prices break .1."),
    (FOUND, PROBLEM, ("pair_rate",), by(0.0), "a promised rate is missed"),
    (FOUND, PROBLEM, ("gpus",), to([1, 1, 1]), "more GPUs are taken than there are"),
    (FOUND, PROBLEM, ("gpus",), to([3, 1, 1]), "the prices break .2."),
    (("infeasible",), PROBLEM, ("gpus",), by(4), "the prices break .2."),
    (FOUND, PROBLEM, ("replicas",), by(2), "more GPUs are taken than there are"),
    (FOUND, PROBLEM, ("cluster_gpus",), to([1, 1, 1]), "a promised rate is missed"),
    (FOUND, PROBLEM, ("promised",), by(1.00001), "a promised rate is missed"),
    (FOUND, PROBLEM, ("promised",), to(None), "the prices break .2."),
    (("infeasible",), PROBLEM, ("promised",), by(0.49), "the prices break .2."),
    (("gain",), PROBLEM, ("goal", "worth"), by(1.000001), "the prices break .1."),
    (("level",), PROBLEM, ("goal", "step"), by(0.999), "the prices break .2."),
    (SMALLER, PROBLEM, ("goal", "work"), by(0.999), "the prices break .2."),
    (SMALLER, PROBLEM, ("goal", "delay"), by(0.5), "the prices break .2."),
    (("total",), PROBLEM, ("goal", "kind"), to("worst"), "the prices break .2."),
    (KINDS, PROBLEM, ("goal", "kind"), to("best"), "goal: expected one of gain, level, total, wor"),
    (KINDS, PROBLEM, ("goal",), to("level"), "goal: expected one of gain, level, total, worst"),
    (KINDS, PROBLEM, ("pairs", 0, 0), to(0.5), "pairs: expected places of two jobs of as many"),
    (KINDS, PROBLEM, ("pairs", 0, 0), to(6), "pairs: expected places of two jobs of as many"),
    (KINDS, PROBLEM, ("pairs", 0), to([0, 0]), "pairs: expected places of two jobs of as many"),
    (KINDS, PROBLEM, ("pairs", 0), to([0, 1]), "pairs: expected places of two jobs of as many"),
    (KINDS, PROBLEM, ("pairs",), to([]), "pair_rate: expected finite numbers of at least 0, sha"),
    (KINDS, PROBLEM, ("rate", 0, 0), to(-1.0), "rate: expected finite numbers of at least 0"),
    (KINDS, PROBLEM, ("gpus",), to([]), "names and gpus: expected lists of at least one"),
    (KINDS, PROBLEM, ("names",), to([]), "names and gpus: expected lists of at least one"),
    (KINDS, PROBLEM, ("names", 0), to("else"), "shares: expected the names of the problem"),
    (KINDS, PROBLEM, ("price",), to(1), "time-sharing, version 1: expected this and the keys"),
]


def refusals(kind: str, tampering: Tampering, *, signed: bool) -> list[str]:
    """What the checker says of a tampered example, in floats and exactly."""
    documents: list[Any] = list(example(kind))
    _, which, place, change, _ = tampering
    value: Any = documents[which]
    for key in place:
        value = value.get(key) if isinstance(value, dict) else value[key]
    documents[which] = changed(documents[which], place, change(value))
    if signed:
        digest = digest_of(documents[PROBLEM])
        documents[CERTIFICATE] = changed(documents[CERTIFICATE], ("digest",), digest)
    found = []
    for exact in (False, True):
        try:
            verdict = verify(documents[0], documents[1], documents[2], exact)
        except ValueError as error:
            found.append(str(error))
        else:
            assert not verdict.verified, verdict
            assert verdict.status == "refused"
            assert math.isnan(verdict.bound)
            found.append(verdict.message)
    return found


def cases(tamperings: list[Tampering]) -> list[Any]:
    """One for each kind of example."""
    return [
        pytest.param(kind, one, id=f"{kind}-{number}")
        for number, one in enumerate(tamperings)
        for kind in one[0]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_are_verified(kind: str) -> None:
    """As they are, in floats and exactly; their promises have prices."""
    for exact in (False, True):
        verdict = verify(*example(kind), exact)
        assert verdict.verified
        assert verdict.status == ("infeasible" if kind == "infeasible" else "optimal")
    assert any(example(kind)[CERTIFICATE]["prices"]["promises"])


@pytest.mark.parametrize(("kind", "tampering"), cases(CLAIMS + OTHERS))
def test_what_was_tampered_with_is_refused(kind: str, tampering: Tampering) -> None:
    """Certificates, shares, and problems of which the digest tells."""
    for found in refusals(kind, tampering, signed=False):
        assert re.search(tampering[-1], found), found


@pytest.mark.parametrize(("kind", "tampering"), cases(SIGNED))
def test_another_problem_with_a_digest_that_fits_is_refused(
    kind: str, tampering: Tampering
) -> None:
    """What the prices prove there is another bound, and what shares keep are other limits."""
    for found in refusals(kind, tampering, signed=True):
        assert re.search(tampering[-1], found), found


def test_forty_kinds_of_tampering_are_known() -> None:
    """Of the certificate, of the shares and of the problem."""
    assert len(CLAIMS) + len(OTHERS) + len(SIGNED) >= 40


def test_limits_may_be_exceeded_by_their_tolerance_alone() -> None:
    """Of time, of GPUs and of promised rates; the tolerances are those of the library."""
    assert verify_time_shares.TOLERANCE == RESOURCE_TOLERANCE
    assert verify_time_shares.PROMISE_TOLERANCE == time_shares.PROMISE_TOLERANCE
    assert verify_time_shares.OPTIMAL_GAP == time_shares.OPTIMAL_GAP
    asked, answer, certificate = example("gain")
    for factor, holds in ((1.0 + 9e-10, True), (1.0 + 1.1e-9, False), (1.0 - 9e-7, True)):
        shares = changed(answer, ("shares",), by(factor)(answer["shares"]))
        for exact in (False, True):
            assert verify(asked, shares, certificate, exact).verified == holds


def test_numbers_that_underflow_are_refused_and_exactly_they_are_not() -> None:
    """A price of 1e-320 for a rate of 1e-3 loses its digits in floats."""
    sharing = TimeSharing("a", [[1e-3]], [1])
    problem = ShareProblem(sharing, throughput(sharing))
    result = best_shares(*problem)
    asked, answer, certificate = documents_of(problem, result)
    tiny = changed(certificate, ("prices", "promises"), [1e-320])
    assert verify(asked, answer, tiny).message == "a number is too large or too small"
    assert verify(asked, answer, tiny, exact=True).verified


def test_no_shares_are_not_optimal_where_levels_are_negative() -> None:
    """One GPU for two jobs, both far below their floors: a gap counts at negative values, too."""
    sharing = TimeSharing(["a", "b"], [[2.0], [2.0]], [1], [1, 1])
    problem = ShareProblem(sharing, Level(np.full(2, 3.0), np.ones(2)))
    best = best_shares(problem.sharing, problem.goal)
    asked, shares, claim = documents_of(problem, best)
    verdict = verify(asked, shares, claim)
    assert (verdict.verified, verdict.status) == (True, "optimal")
    none = {**shares, "shares": [[0.0], [0.0]]}
    verdict = verify(asked, none, claim)
    assert (verdict.verified, verdict.status) == (True, "feasible")
    assert verdict.gap == pytest.approx(1.0 / 3.0)


def test_a_job_without_a_rate_has_no_delay_that_counts() -> None:
    """A value that is infinite is refused."""
    asked, answer, certificate = example("total")
    asked = changed(asked, ("promised",), None)
    certificate = changed(certificate, ("digest",), digest_of(asked))
    nothing = changed(answer, ("shares",), [[0.0] * 3] * 9)
    assert verify(asked, nothing, certificate).message == "a number is too large or too small"


def test_the_checker_imports_nothing_of_the_library_and_stays_short() -> None:
    """The standard library and NumPy, in 250 lines."""
    text = CHECKER.read_text(encoding="utf-8")
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
    assert found - set(sys.stdlib_module_names) == {"numpy"}
    assert len(text.splitlines()) <= 250


def written(folder: Path, documents: Documents) -> list[str]:
    """Names of files with the documents in them."""
    names = [str(folder / f"{name}.json") for name in ("problem", "shares", "certificate")]
    for name, document in zip(names, documents, strict=True):
        Path(name).write_text(json.dumps(document), encoding="utf-8")
    return names


def test_the_checker_runs_alone_and_its_exit_code_tells(tmp_path: Path) -> None:
    """A copy of the file, where Python finds nothing but its own library and NumPy."""
    shutil.copy(CHECKER, tmp_path / "check.py")
    names = written(tmp_path, example("level"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", tmp_path / "check.py", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    for exact in ((), ("--exact",)):
        done = run(*names, *exact)
        assert (done.returncode, done.stderr) == (0, "")
        assert "verified: True\nstatus: optimal\n" in done.stdout
    certificate = changed(example("level")[CERTIFICATE], ("bound",), 0.0)
    Path(names[CERTIFICATE]).write_text(json.dumps(certificate), encoding="utf-8")
    done = run(*names)
    assert done.returncode == 1
    assert "the prices break (2)" in done.stdout
    for text in ("{", "[" * 99999, r'"\ud800"'):
        Path(names[SHARES]).write_text(text, encoding="utf-8")
        done = run(*names)
        assert done.returncode == 2, done
        assert re.fullmatch("error: .*\n", done.stderr)
    assert run(*names[:2], str(tmp_path / "none")).returncode == 2
    assert run(*names[:2]).returncode == 2


def test_the_command_tells_what_was_found(tmp_path: Path) -> None:
    """In words and numbers, with an exit code; bad files are refused in one sentence."""
    names = written(tmp_path, example("level"))
    found = verify_certificate(*names)
    assert found.verified
    assert found.data["verified"] is True
    assert re.search("^verdict      verified$", found.text, flags=re.MULTILINE)
    assert re.search("^bound        0.2607.* .proved.$", found.text, flags=re.MULTILINE)
    assert verify_certificate(*names, exact=True).data["gap"] <= 1e-12
    certificate = changed(example("level")[CERTIFICATE], ("bound",), 0.0)
    Path(names[CERTIFICATE]).write_text(json.dumps(certificate), encoding="utf-8")
    found = verify_certificate(*names)
    assert (found.verified, found.data["bound"], found.data["verified"]) == (False, None, False)
    assert "refused" in found.text
    Path(names[CERTIFICATE]).write_text(json.dumps(changed(certificate, ("bound",), math.nan)))
    with pytest.raises(ValueError, match=r"^File '.*certificate.json': .*NaN"):
        verify_certificate(*names)
    short = changed(example("level")[CERTIFICATE], ("prices", "time"), [0.0])
    Path(names[CERTIFICATE]).write_text(json.dumps(short), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^Certificate '.*': time: expected finite numbers"):
        verify_certificate(*names)
    found = verify_certificate(*written(tmp_path, example("infeasible")))
    assert found.verified
    assert (found.data["status"], found.data["bound"]) == ("infeasible", "-inf")
    assert "no shares keep the promises" in found.text
