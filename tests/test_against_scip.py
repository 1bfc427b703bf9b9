"""Another solver agrees: SCIP on the shipped instances and on hundreds of rounds of every kind."""

from __future__ import annotations

import math

import pytest

from goodalloc.data.rounds.benchmark_set import benchmark_names, load_benchmark
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.scip_check import AGREE, Verdict, cross_check
from goodalloc.solvers.interface.result import Status
from tests.support.small_rounds import KINDS

pytest.importorskip("pyscipopt", reason="needs goodalloc[scip]")

#: Shipped instances that may take SCIP more than a minute.
HARD = ("even-settled", "medium-cold", "medium-disturbed", "large-disturbed", "large-settled")


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmark_names())
def test_scip_agrees_on_a_shipped_instance(name: str) -> None:
    """On the large ones, within a minute, its bound and its value lie on either side of ours."""
    instance = load_benchmark(name)
    result = solve(instance)
    check = cross_check(instance, result, seconds=60.0 if name in HARD else None)
    assert result.status is Status.OPTIMAL
    assert math.isnan(check.fitness) or check.fitness <= result.bound * (1 + AGREE)
    assert check.bound >= result.fitness * (1 - AGREE)
    if name in HARD and check.status == "timelimit":
        assert check.verdict is Verdict.UNDECIDED, check
    else:
        assert check.verdict is Verdict.AGREE, check
        assert check.fitness == pytest.approx(result.fitness, rel=AGREE)


@pytest.mark.parametrize("kind", KINDS)
def test_scip_agrees_on_a_few_small_rounds(kind: str) -> None:
    """A sample of those below, one at every other power, that SCIP decides quickly."""
    check_rounds(kind, range(4, 13, 2))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 25))
@pytest.mark.parametrize("kind", KINDS)
def test_scip_agrees_on_hundreds_of_small_rounds(kind: str, first: int) -> None:
    """200 with GPUs only, with modes, with parts of GPUs and by Sia's rules; at nine powers."""
    check_rounds(kind, range(first, first + 25))


def check_rounds(kind: str, seeds: range) -> None:
    """Both prove the same optimum of every round."""
    for seed in seeds:
        instance = KINDS[kind](seed)
        result = solve(instance, "pyomo" if instance.shares_gpus else "highs")
        check = cross_check(instance, result, seconds=600.0)
        what = f"{kind} {seed} ({instance.name}) at p = {instance.rules.power:g}: {check}"
        assert result.status is Status.OPTIMAL, what
        assert check.verdict is Verdict.AGREE, what
