"""The cross-check: SCIP, from a file, agrees with what is right and contradicts what is not."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.experiments.cli.main import main
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import certify, solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.exact.scip_check import AGREE, Verdict, cross_check
from goodalloc.solvers.exact.scip_file import run_scip
from goodalloc.solvers.interface.result import Answer, Status
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
    tight_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.solvers.exact.scip_file import FileAnswer

pytest.importorskip("pyscipopt", reason="needs goodalloc[scip]")

POWERS = [-math.inf, -10.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, math.inf]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("draw", [random_instance, random_mode_instance, random_share_instance])
def test_scip_finds_the_optimum_of_the_enumeration(
    draw: Callable[[int, float], Instance], power: float
) -> None:
    """Rounds with GPUs only, with modes and with shares of GPUs."""
    for seed in range(20, 23):
        instance = draw(seed, power)
        optimum = solve(instance, "brute_force")
        check = cross_check(instance, optimum)
        assert check.verdict is Verdict.AGREE, (instance.name, check)
        assert check.fitness == pytest.approx(optimum.fitness, rel=AGREE)
        assert check.bound == pytest.approx(optimum.fitness, rel=AGREE)
        assert abs(check.difference) <= AGREE


def test_rounds_at_the_edge_of_the_tolerance_are_no_contradiction() -> None:
    """What SCIP lets fit is what the checker lets fit."""
    for seed in range(20):
        instance = tight_instance(seed)
        check = cross_check(instance, solve(instance))
        assert check.verdict is Verdict.AGREE, (instance.name, check)


def test_an_optimum_that_is_none_is_contradicted() -> None:
    """Whether the bound is too low, or the fitness is more than any allocation has."""
    instance = load_benchmark("tiny-disturbed")
    current = instance.current
    claimed = Answer(current, fitness(instance, current), proven=True)
    low = certify(instance, claimed, "mine", trusted=True)
    assert low.status is Status.OPTIMAL
    check = cross_check(instance, low)
    assert check.verdict is Verdict.DISAGREE
    assert "above the bound" in check.message
    best = solve(instance)
    for factor in (1.01, 10.0):
        high = certify(instance, Answer(best.allocation, best.bound), "mine", trusted=True)
        object.__setattr__(high, "fitness", best.fitness * factor)
        assert cross_check(instance, high).verdict is Verdict.DISAGREE


def test_a_result_without_a_proof_is_consistent_with_the_optimum() -> None:
    """The difference says how far off it is; a limit of SCIP's is no contradiction either."""
    instance = load_benchmark("tiny-disturbed")
    stay = certify(instance, Answer(instance.current), "stay")
    check = cross_check(instance, stay)
    assert check.verdict is Verdict.CONSISTENT
    assert check.message == "stay proved no optimum"
    assert check.fitness == pytest.approx(solve(instance).fitness, rel=AGREE)
    assert check.difference == pytest.approx(check.fitness / stay.fitness - 1.0)
    hurried = cross_check(
        load_benchmark("even-settled"), solve(load_benchmark("even-settled")), seconds=0.01
    )
    assert hurried.verdict is Verdict.UNDECIDED
    assert "'timelimit'" in hurried.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"values": {}, "objective": math.inf, "status": "infeasible"}, "no allocation as good"),
        ({"objective": -1.0}, "its allocation is worth"),
        ({"bound": 3.0}, "is below an allocation that is worth"),
        ({"overfull": True}, "breaks a rule: Node 'node-0' holds 4 replicas"),
    ],
)
def test_answers_that_cannot_be_right_are_contradicted(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for SCIP whose objective, bound or allocation is wrong."""
    instance = Instance(
        Cluster.uniform(1, 2), (Job("one", age=1e4), Job("two", age=1e4)), name="two"
    )
    result = solve(instance)

    def wrong(path: Path, *, seconds: float | None = None) -> FileAnswer:
        answer = run_scip(path, seconds=seconds)
        if changes.get("overfull"):
            twice = {name: 2.0 * value for name, value in answer.values.items()}
            return answer._replace(values=twice)
        return answer._replace(**changes)

    monkeypatch.setattr("goodalloc.solvers.exact.scip_check.run_scip", wrong)
    check = cross_check(instance, result)
    assert check.verdict is Verdict.DISAGREE
    assert words in check.message


def test_what_one_program_cannot_tell_is_not_comparable() -> None:
    """Terms too far apart at a great power, or no allocation to compare with."""
    pinned = Job("pinned", SpeedupTable((1.0, 1.1), ()), placement=((0, 1),), preemptible=False)
    greedy = Job("greedy", SpeedupTable((1.0, 90.0), ()), age=1e4)
    instance = Instance(Cluster.uniform(1, 2), (pinned, greedy), Rules(power=10.0))
    check = cross_check(instance, solve(instance))
    assert check.verdict is Verdict.NOT_COMPARABLE
    assert "at power 10 the term of the greatest utility" in check.message
    moderate = instance.replace(rules=Rules(power=2.0))
    assert cross_check(moderate, solve(moderate)).verdict is Verdict.AGREE
    nothing = certify(instance, Answer(None), "mine")
    assert cross_check(instance, nothing).message == "mine found no allocation"


@pytest.mark.parametrize("power", [-1e6, -300.0, -1e-9, 1e-9, 30.0, 1e6])
def test_extreme_powers_are_compared_or_refused_but_never_contradicted(power: float) -> None:
    """Of tiny rounds, whose optimum is enumerated."""
    for seed in range(40, 45):
        instance = random_instance(seed, power)
        check = cross_check(instance, solve(instance, "brute_force"))
        assert check.verdict in (Verdict.AGREE, Verdict.NOT_COMPARABLE), (instance.name, check)
        assert power > 0 or check.verdict is Verdict.AGREE


def test_the_command_reports_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and as JSON; the written result is that of the solver alone."""
    out = tmp_path / "best.json"
    command = ["solve", "tiny-cold", "--cross-check", "scip"]
    assert main([*command, "--out", str(out)]) == 0
    assert "cross-check  scip: agree" in capsys.readouterr().out
    assert "cross_check" not in out.read_text(encoding="utf-8")
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["cross_check"]
    assert found["verdict"] == "agree"
    assert found["status"] == "optimal"
    optimum = solve_brute_force(load_benchmark("tiny-cold")).bound
    assert found["fitness"] == pytest.approx(optimum, rel=1e-9)
    assert (
        main(
            [
                "solve",
                "even-settled",
                "--cross-check",
                "scip",
                "--json",
                "--cross-check-seconds",
                "0.01",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)["cross_check"]
    assert (found["verdict"], found["status"]) == ("undecided", "timelimit")


def test_a_contradiction_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for SCIP that finds no allocation as good."""

    def nothing(path: Path, *, seconds: float | None = None) -> FileAnswer:
        answer = run_scip(path, seconds=seconds)
        return answer._replace(values={}, objective=math.inf, status="infeasible")

    command = ["solve", "tiny-cold", "--cross-check", "scip"]
    assert main(command) == 0
    monkeypatch.setattr("goodalloc.solvers.exact.scip_check.run_scip", nothing)
    assert main(command) == 1
    printed = capsys.readouterr().out
    assert "cross-check  scip: disagree (SCIP finds no allocation as good as" in printed


def test_without_scip_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, before anything is solved."""
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    assert main(["solve", "tiny-cold", "--cross-check", "scip"]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert "needs the module pyscipopt" in printed.err
    assert "'goodalloc[scip]'" in printed.err
