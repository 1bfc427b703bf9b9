"""Certificates with the number of jobs that starve: tighter, sound, and checked by themselves."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.files.allocation import allocation_to_dict
from goodalloc.data.files.instance import instance_to_dict
from goodalloc.data.library import load_round
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.verification.verify import verify
from goodalloc.formulations.certificates.certificate import Leaf, Measure, certify
from goodalloc.formulations.certificates.counted_bound import CountedBound
from goodalloc.formulations.certificates.counted_prices import Count, CountedPrices
from goodalloc.formulations.certificates.prices import Prices
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.solvers.certificates.certificate_file import certificate_to_dict
from goodalloc.solvers.certificates.certificate_search import bounds_of
from goodalloc.solvers.certificates.choice_relaxation import relaxation_of
from goodalloc.solvers.certificates.counted_search import (
    best_certified,
    certified_by_counts,
    count_up_to,
)
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from goodalloc.solvers.interface.result import Evidence
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from tests.support.random_instances import random_instance, random_mode_instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.verification.verify import Verdict
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.models.round.allocation import Allocation

#: Rounds of the library in which the relaxation starves a part of a job, and how many starve.
STARVING = {"equal-60x16-3-kinds-from-3-1": 39, "helios-33x26-first-come-9": 5}


def documents(certificate: Certificate, allocation: Allocation) -> list[Any]:
    """Return what the three files say."""
    instance = certificate.bounds.instance
    found = (
        instance_to_dict(instance),
        allocation_to_dict(allocation, instance),
        certificate_to_dict(certificate),
    )
    return [json.loads(json.dumps(one)) for one in found]


def verdict(certificate: Certificate, allocation: Allocation, *, exact: bool = False) -> Verdict:
    """Return what the stand-alone checker says."""
    return verify(*documents(certificate, allocation), exact=exact)


@pytest.mark.parametrize("name", STARVING)
def test_whole_jobs_starve(name: str) -> None:
    """Prices alone leave a gap, the count of starved jobs closes it, and the checker agrees."""
    instance = load_round(name)
    plain = solve(instance, certificate=True, stop=Stop(seconds=1.0))
    assert plain.bound > plain.fitness * 1.001
    found = certified_by_counts(instance, plain, Stop(seconds=60.0))
    assert found.bound <= found.fitness * (1 + 1e-9)
    assert found.evidence is Evidence.PRICES
    assert found.certificate is not None
    assert found.allocation is not None
    assert isinstance(found.certificate.bounds, CountedBound)
    assert [one.least for one in found.certificate.bounds.counts] == [STARVING[name]]
    assert (utilities(instance, found.allocation) < 0.01).sum() >= STARVING[name]
    alone = best_certified(instance, solve(instance), Stop(seconds=60.0))
    assert alone.bound == found.bound  # without a search in vain
    for exact in (False, True):
        checked = verdict(found.certificate, found.allocation, exact=exact)
        assert checked.verified, checked.reasons
        assert checked.bound <= found.bound


def short_of_gpus(make: Callable[[int], Instance], seed: int) -> Instance:
    """Return a random round at a power below 0, in which few or many jobs starve."""
    instance = make(seed)
    power = (-1.0, -3.0, -0.5)[seed % 3]
    return Instance(instance.cluster, instance.jobs, instance.rules.replace(power=power))


def check_random_counts(make: Callable[[int], Instance], seed: int) -> int:
    """Assert that random prices of counts prove nothing wrong; return how many counts there were.

    Each count is of all allocations, and no more than the least number among them.
    """
    instance, random = short_of_gpus(make, seed), np.random.default_rng(seed)
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    value = fitness(instance, best)
    plain, everything = bounds_of(instance), enumerate_allocations(instance)
    reached = np.array(
        [utilities(instance, everything.allocation(row)) for row in range(len(everything.row))]
    )
    relaxation = relaxation_of(plain, Watch(Stop(seconds=60.0)))
    every = np.ones(len(plain.choices), dtype=bool)
    levels = np.unique(plain.choices.utility)[:-1] * (1 + 1e-6)
    found = [
        count_up_to(float(level), plain, relaxation, every)
        for level in random.permutation(levels)[:4]
    ]
    counts = tuple(one for one in found if one is not None)
    for count in counts:
        assert count.least <= (reached <= count.level).sum(axis=1).min()
    bounds = CountedBound(plain.instance, plain.choices, plain.grid, counts)
    reference = value * float(10 ** random.uniform(-0.5, 0.5))
    measure = Measure(instance.rules.power, reference)
    relaxed = relaxation.solve(measure.cost(plain.choices.utility, 0.0, instance.num_jobs))
    duals = Prices() if relaxed is None else relaxed.prices
    worth = random.exponential(size=len(counts)) * float(10 ** random.uniform(-2, 1))
    prices = CountedPrices.of(duals.times(float(random.uniform(0, 2))), worth)
    claim = certify(bounds, Leaf(measure, prices), known=0.0)
    assert claim.bound >= value * (1 - 1e-12)
    for exact in (False, True) if math.isfinite(claim.bound) else ():
        checked = verdict(claim, best, exact=exact)
        assert checked.feasible
        assert checked.bound >= value * (1 - 1e-12)
        # choices that are dominated count, too, to the checker, which may then prove less
        assert checked.verified or any("is proved" in one for one in checked.reasons)
    return len(counts)


@pytest.mark.parametrize("make", [random_instance, random_mode_instance])
def test_no_prices_of_counts_prove_a_bound_below_the_optimum(
    make: Callable[[int], Instance],
) -> None:
    """Beside brute force."""
    assert sum(check_random_counts(make, seed) for seed in range(12)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_instance, random_mode_instance])
def test_no_prices_of_many_counts_prove_a_bound_below_the_optimum(
    make: Callable[[int], Instance],
) -> None:
    """As above, more of them."""
    assert sum(check_random_counts(make, seed) for seed in range(100, 400)) > 20


def check_starved(make: Callable[[int], Instance], seed: int) -> bool:
    """Assert that a certificate by counts is right; return whether there was one."""
    instance = short_of_gpus(make, seed)
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    result = solve(instance, "greedy" if seed % 2 else "highs")
    found = certified_by_counts(instance, result, Stop(seconds=20.0))
    assert found.bound >= fitness(instance, best) * (1 - 1e-12)
    if found.certificate is None:
        return False
    assert found.allocation is not None
    checked = verdict(found.certificate, found.allocation)
    assert checked.verified, checked.reasons
    return True


@pytest.mark.parametrize("make", [random_instance, random_mode_instance])
def test_certificates_by_counts_are_verified(make: Callable[[int], Instance]) -> None:
    """Also those of an allocation that is not the best."""
    assert sum(check_starved(make, seed) for seed in range(20)) >= 1


@pytest.fixture(scope="module")
def proved() -> list[Any]:
    """The documents of a certificate by counts."""
    instance = load_round("equal-60x16-3-kinds-from-3-1")
    found = certified_by_counts(instance, solve(instance), Stop(seconds=60.0))
    assert found.certificate is not None
    assert found.allocation is not None
    return documents(found.certificate, found.allocation)


def _more(claim: Any) -> None:
    claim["counts"][0]["least"] += 1


def _no_proof(claim: Any) -> None:
    claim["counts"][0]["prices"] = {}


def _higher(claim: Any) -> None:
    claim["tree"]["prices"]["counts"][0] *= 1.5


def _negative(claim: Any) -> None:
    claim["tree"]["prices"]["counts"][0] = -1.0


def _no_counts(claim: Any) -> None:
    claim["counts"] = []


def _free(claim: Any) -> None:
    del claim["tree"]["prices"]["counts"]


def _in_proof(claim: Any) -> None:
    claim["counts"][0]["prices"]["counts"] = [1.0]


def _level(claim: Any) -> None:
    claim["counts"][0]["level"] = 1e-9


def _zero(claim: Any) -> None:
    claim["counts"][0]["least"] = 0


def _unknown(claim: Any) -> None:
    claim["counts"][0]["most"] = 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_more, "Count: 40 jobs or more are said to stay at or below"),
        (_no_proof, "Count: 39 jobs or more are said to stay at or below"),
        (_higher, "is proved"),
        (_negative, "Prices: counts is -1.0; expected float from 0"),
        (_no_counts, "Prices: counts are 1, not 0."),
        (_free, "is proved"),
        (_in_proof, "Count: its prices have counts."),
        (_level, "Count: 39 jobs or more are said to stay at or below 1e-09; prices prove -"),
        (_zero, "Count: least is 0; expected int above 0"),
        (_unknown, "Count: key 'most' is unknown."),
    ],
)
def test_a_changed_count_is_refused(
    proved: list[Any], change: Callable[[Any], None], sentence: str
) -> None:
    """In one sentence."""
    instance, allocation, claim = proved
    assert verify(instance, allocation, claim).verified
    changed = copy.deepcopy(claim)
    change(changed)
    found = verify(instance, allocation, changed)
    assert not found.verified
    assert sentence in " ".join(found.reasons)


def test_counts_are_for_finite_powers(proved: list[Any]) -> None:
    """At p = -inf the least utility alone counts."""
    instance = load_round("equal-60x16-3-kinds-from-3-1")
    leximin = Instance(instance.cluster, instance.jobs, instance.rules.replace(power=-np.inf))
    result = solve(leximin, certificate=True)
    assert certified_by_counts(leximin, result, Stop()) is result
    assert result.certificate is not None
    assert result.allocation is not None
    document, allocation, claim = documents(result.certificate, result.allocation)
    found = verify(document, allocation, claim | {"counts": proved[2]["counts"]})
    assert "Certificate: counts are for finite powers." in found.reasons


def test_a_gap_that_prices_closed_is_left_alone() -> None:
    """As is a result without an allocation."""
    instance = load_round("tiny-cold")
    result = solve(instance, certificate=True)
    assert certified_by_counts(instance, result, Stop()) is result
    assert best_certified(instance, result, Stop()) is result
    nothing = solve(instance, lambda _: None)
    assert certified_by_counts(instance, nothing, Stop()) is nothing


def test_counts_that_are_none_change_no_bound() -> None:
    """A bound with counts and prices without is that of the prices."""
    instance = load_round("equal-60x16-3-kinds-from-3-1")
    plain = bounds_of(instance)
    relaxed = relaxation_of(plain, Watch(Stop(seconds=60.0))).solve(plain.choices.utility)
    assert relaxed is not None
    count = Count(0.01, 3, relaxed.prices)
    bounds = CountedBound(plain.instance, plain.choices, plain.grid, (count,))
    cost = plain.choices.utility
    assert bounds.least_cost(cost, relaxed.prices) == plain.least_cost(cost, relaxed.prices)
    free = CountedPrices.of(relaxed.prices, np.zeros(1))
    assert bounds.least_cost(cost, free) == plain.least_cost(cost, relaxed.prices)
    doubled = CountedPrices.of(relaxed.prices, np.ones(1)).times(2.0)
    assert doubled.counts == (2.0,)


def test_the_commands_write_and_verify_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve --certificate`, then `verify`."""
    names = ["best.json", "certificate.json"]
    best, claim = (str(tmp_path / name) for name in names)
    name = "equal-60x16-3-kinds-from-3-1"
    assert main(["library", "get", name, "--out", str(tmp_path / "round.json")]) == 0
    path = str(tmp_path / "round.json")
    solved = ["solve", path, "--out", best, "--certificate", claim, "--seconds", "5"]
    assert main(solved) == 0
    assert "optimal" in capsys.readouterr().out
    assert json.loads((tmp_path / "certificate.json").read_text())["counts"][0]["least"] == 39
    assert main(["verify", path, best, claim]) == 0
    assert "verified       True" in capsys.readouterr().out
