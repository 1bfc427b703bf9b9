"""A limit on the time holds for every solver on rounds far too large for it, or it refuses them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.pods.generator import arrivals, draw_machines, draw_pods
from goodalloc.data.pods.openb import pods_instance
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.base import SOLVERS
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.models.round.instance import Instance

SECONDS = 1.0
#: How much later than its limit a solver may come, compiling left out, its bound and check not.
LATE = 2.0
#: Refused in a sentence: what the solver is not for.
REFUSALS = ("modes", "whole GPUs", "packing pods", "allocation matrices")


def plain_round() -> Instance:
    """GPUs are all that counts."""
    return generate(0, 2_000, 512, 8)


def cores_round() -> Instance:
    """24,000 modes."""
    return equip(generate(0, 2_000, 512, 8), 0)


def memory_round() -> Instance:
    """Cores and memory, 29,000 modes, and most of it runs."""
    drawn = generate(1, 600, 64, 8, state="running", rules=Rules(power=1.0))
    return equip(drawn, 1, memory=512.0)


def pods_round() -> Instance:
    """Some 8,000 one-node pods, parts of GPUs among them, on 1,523 machines."""
    return pods_instance(draw_machines(), arrivals(draw_pods(0), 0, 6_000), "pods")


ROUNDS: Mapping[str, Callable[[], Instance]] = MappingProxyType(
    {"plain": plain_round, "cores": cores_round, "memory": memory_round, "pods": pods_round}
)


def check_in_time(instance: Instance, solver: str) -> None:
    """Little later than the limit there is a result, if only that time was up, or a refusal."""
    result, refusal = None, ""
    begin = time.perf_counter()
    try:
        result = solve(instance, solver, stop=Stop(seconds=SECONDS))
    except ValueError as error:
        refusal = str(error)
    took = time.perf_counter() - begin
    if result is None:
        assert any(word in refusal for word in REFUSALS), refusal
    else:
        took -= result.compile_seconds
        assert result.allocation is not None or result.limit is Limit.TIME
    assert took < SECONDS + LATE, result


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_keeps_its_limit_or_refuses(solver: str, kind: str) -> None:
    """A round drawn anew, so that the tables of utilities are in the time."""
    check_in_time(ROUNDS[kind](), solver)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["highs", "pyomo", "synergy_opt"])
@pytest.mark.parametrize("jobs", [40, 130, 2_000])
def test_limits_hold_in_other_threads(solver: str, jobs: int) -> None:
    """Where no alarm can ring, at sizes that are refused and at such that just are not."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(check_in_time, generate(0, jobs, 60, 4), solver).result()
    equipped = equip(generate(0, min(jobs, 60), 20, 4), 0)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(check_in_time, equipped, solver).result()
