"""Certificates of all kinds of rounds, checked by the stand-alone checker, which shares no code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.files.allocation import allocation_to_dict
from goodalloc.data.files.instance import instance_to_dict
from goodalloc.data.rounds.benchmark_set import benchmark_names, load_benchmark
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replayed_rounds import replayed_rounds
from goodalloc.experiments.verification.verify import verify
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.certificates.certificate_file import certificate_to_dict
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.policies.pollux import Pollux
from tests.support.certification.certified_rounds import KINDS, certified, gap_left
from tests.support.few import few

if TYPE_CHECKING:
    from goodalloc.experiments.verification.verify import Verdict
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: A gap that counts as none.
CLOSED = 1e-9


def verdict(instance: Instance, result: Result) -> Verdict:
    """What the stand-alone checker says of a result, given what its files would say."""
    assert result.allocation is not None
    assert result.certificate is not None
    documents = (
        instance_to_dict(instance),
        allocation_to_dict(result.allocation, instance),
        certificate_to_dict(result.certificate),
    )
    return verify(*(json.loads(json.dumps(document)) for document in documents))


def check(instance: Instance, result: Result) -> None:
    """The checker verifies the result, and comes to the same fitness."""
    found = verdict(instance, result)
    assert found.verified, found.reasons
    assert found.fitness == pytest.approx(result.fitness, rel=1e-12)
    assert found.bound <= result.bound


@pytest.mark.parametrize("name", benchmark_names())
def test_the_benchmark_set_is_certified(name: str) -> None:
    """Every optimum of the set is proved by its certificate alone."""
    instance = load_benchmark(name)
    result = solve(instance, "highs", certificate=True)
    check(instance, result)
    assert gap_left(result) <= CLOSED


@pytest.mark.parametrize("solver", few(["greedy", "knapsack", "local_search", "genetic"], 3))
def test_the_bound_of_a_heuristic_is_certified_too(solver: str) -> None:
    """Whoever found the allocation, prices bound what is left to gain."""
    instance = load_benchmark("small-running")
    check(instance, solve(instance, solver, certificate=True))


def test_rounds_of_every_kind_are_certified() -> None:
    """Two rounds of every kind, of several powers: verified, and nearly all gaps closed."""
    _certify(range(2 * len(KINDS)), least=0.9)


@pytest.mark.slow
def test_a_thousand_rounds_of_every_kind_and_power_are_certified() -> None:
    """The gaps of at least 95 of 100 are closed by prices alone."""
    _certify(range(1008), least=0.95)


def _certify(seeds: range, least: float) -> None:
    open_: list[str] = []
    for kind, instance, result in certified(seeds):
        if result.allocation is None:
            open_.append(f"{kind.name}: {instance.name} has no allocation in time")
            continue
        check(instance, result)
        if gap_left(result) > CLOSED:
            open_.append(f"{kind.name}: {instance.name}, gap {gap_left(result):.1e}")
    print(f"{len(seeds) - len(open_)} of {len(seeds)} closed", *open_, sep="\n")  # noqa: T201
    assert len(open_) <= (1 - least) * len(seeds), open_


@pytest.mark.slow
def test_every_thirtieth_decision_of_a_replay_is_certified() -> None:
    """A day of forty jobs on four nodes under Pollux, decided exactly."""
    setting = Setting(Cluster.uniform(4, 4))
    rounds = replayed_rounds(
        draw_workload(1, jobs=40),
        profiled_applications(),
        Pollux(),
        setting,
        every=30,
        least_jobs=1,
    )
    count = 0
    for _, instance in rounds:
        result = solve(instance, "highs", certificate=True)
        check(instance, result)
        assert gap_left(result) <= CLOSED
        count += 1
    assert count >= 10
