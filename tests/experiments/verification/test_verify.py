"""The stand-alone checker: it stands alone, and no prices prove a bound that is too low."""

from __future__ import annotations

import ast
import json
import math
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.rounds.benchmark_set import best_known_values, load_benchmark
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.verification.verify import verify
from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from tests.support.certification.certificate_programs import certify
from tests.support.certification.certificates import (
    allocation_document,
    certificate,
    instance_document,
    random_certificate,
)
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
    tight_instance,
)

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "verify.py",
    "verify_round.py",
    "verify_tree.py",
    "verify_utilities.py",
    "verify_prices.py",
    "verify_counts.py",
    "verify_domains.py",
)

FAMILIES = (random_instance, random_mode_instance, random_share_instance, random_pod_instance)

#: Relative error that the checker grants a utility.
ERROR = 1e-13


def sources(repository: Path) -> dict[str, str]:
    """The text of the files of the checker, by name."""
    folder = repository / "experiments" / "verification"
    return {name: (folder / name).read_text(encoding="utf-8") for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_the_checker_imports_numpy_and_its_own_files_only(repository: Path, name: str) -> None:
    """Nothing but the standard library, NumPy, and the files of the checker by their names."""
    tree = ast.parse(sources(repository)[name])
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or ".")
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            own = {f"importlib.import_module(f'{{PACKAGE}}{file[:-3]}')" for file in FILES}
            assert ast.unparse(node) in own
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | {"numpy"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_checker_can_be_read_at_one_sitting(repository: Path, name: str) -> None:
    """At most 250 lines of at most 100 columns."""
    lines = sources(repository)[name].splitlines()
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 100


def check_random_prices(family: Any, seed: int, count: int = 5) -> int:
    """Assert that no bound of random certificates is too low; return how many are finite."""
    instance, random, finite = family(seed), np.random.default_rng(seed), 0
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    everything, choices = (
        enumerate_allocations(instance),
        enumerate_mode_choices(instance, prune=False),
    )
    value, document = fitness(instance, best), instance_document(instance)
    for _ in range(count):
        other = everything.allocation(int(random.integers(len(everything.row))))
        allocation = best if random.random() < 0.2 else other
        claim = random_certificate(instance, choices, value, random)
        given = allocation_document(allocation, instance)
        verdict = verify(document, given, claim)
        assert verdict.feasible, verdict.reasons
        assert verdict.fitness == pytest.approx(fitness(instance, allocation), rel=ERROR)
        assert verdict.bound >= value * (1 - ERROR), claim
        assert verdict.verified == (verdict.bound <= claim["bound"])
        exactly = verify(document, given, claim, exact=True)
        assert exactly.bound >= value * (1 - ERROR), claim
        assert exactly.bound <= verdict.bound * (1 + 1e-9), claim
        finite += math.isfinite(verdict.bound)
    return finite


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("first", few([0, 5, 50, 90, 145], 3))
def test_no_prices_prove_a_bound_below_the_optimum(family: Any, first: int) -> None:
    """Random prices of all kinds, trees, units and allocations, beside brute force."""
    assert sum(check_random_prices(family, seed) for seed in range(first, first + 5)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("first", range(100, 600, 100))
def test_no_prices_of_many_prove_a_bound_below_the_optimum(family: Any, first: int) -> None:
    """As above, more of them."""
    for seed in range(first, first + 100):
        check_random_prices(family, seed)


@pytest.mark.parametrize("seed", few(range(12), 6))
def test_no_prices_prove_a_bound_below_the_optimum_of_tight_nodes(seed: int) -> None:
    """Nodes whose cores are what jobs take, but for rounding."""
    check_random_prices(tight_instance, seed)


def check_programs(family: Any, seed: int) -> list[bool]:
    """Assert what certificates from linear programs prove; whether they prove the optimum."""
    instance, closed = family(seed), []
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    everything, random = enumerate_allocations(instance), np.random.default_rng(seed)
    value, document = fitness(instance, best), instance_document(instance)
    for depth, nodes in ((0, True), (0, False), (3, True)):
        claim, bound = certify(instance, best, depth=depth, nodes=nodes, above=1e-6)
        verdict = verify(document, allocation_document(best, instance), claim)
        assert value * (1 - ERROR) <= verdict.bound
        assert verdict.bound <= bound * (1 + 1e-6)
        assert verdict.verified or math.isinf(bound)
        closed.append(verdict.bound <= value * (1 + 1e-6))
        # no bound is less than what is given, so that only a poor one lets a wrong bound show
        worse = everything.allocation(int(random.integers(len(everything.row))))
        alone = verify(document, allocation_document(worse, instance), claim)
        assert value * (1 - ERROR) <= alone.bound
    return closed


@pytest.mark.parametrize("family", FAMILIES[:3])
def test_prices_of_linear_programs_prove_what_the_programs_say(family: Any) -> None:
    """Prices of pieces, distributed pieces, stays and resources, and trees."""
    closed = np.array([check_programs(family, seed) for seed in range(12)])
    assert closed[:, 0].mean() > 0.6
    assert closed[:, 1].mean() > 0.6
    assert closed[:, 2].mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES[:3])
def test_prices_of_many_linear_programs_prove_what_the_programs_say(family: Any) -> None:
    """As above, more of them."""
    closed = np.array([check_programs(family, seed) for seed in range(100, 300)])
    assert closed[:, 2].mean() > 0.9


def by_hand(**prices: Any) -> float:
    """The cost that prices prove of a round of three jobs on two nodes of 3 GPUs, by hand.

    At p = 1 and reference 1 a utility costs 1 - u, and the bound is 1 - C / 3. The job `pinned` has
    a GPU of either node and u = 2, `kept` one of node 0 and u = 1.5, moved or not, and `free` may
    have K = 1 to 3, on one node or two, for u = K; a job that has nothing has 0.1.
    """
    table, rules = (
        SpeedupTable((1.0, 2.0, 3.0), (0.0, 2.0, 3.0)),
        Rules(
            power=1.0,
            floor=0.0,
            idle_utility=0.1,
            restart_delay=0.0,
            fair_share="one_gpu",
            speedup_scale="job",
            max_nodes_per_job=2,
        ),
    )
    jobs = (
        Job("pinned", table, placement=((0, 1), (1, 1)), preemptible=False),
        Job("kept", SpeedupTable((1.5,), ()), placement=((0, 1),), max_replicas=1),
        Job("free", table, max_replicas=3),
    )
    instance = Instance(Cluster.uniform(2, 3), jobs, rules, name="by-hand")
    claim = certificate(instance, {"prices": prices}, 100.0, 1.0)
    given = allocation_document(instance.current, instance)
    verdict = verify(instance_document(instance), given, claim)
    assert verdict.verified, verdict.reasons
    return 3.0 - 3.0 * verdict.bound


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        # what each job takes where nothing has a price: 2, 1.5 and 3
        ({}, (1 - 2) + (1 - 1.5) + (1 - 3)),
        # a GPU for 0.4: 4 are left by the pinned job, which pays nothing
        ({"resources": [[0.4]]}, -1 + (-0.5 + 0.4) + (-2 + 3 * 0.4) - 4 * 0.4),
        # pieces of 2 for 1: three replicas on a node pay 1, and both nodes have room for one piece
        ({"pieces": [[[2, 1.0]]]}, -1 - 0.5 + (-2 + 1) - 2 * 1.0),
        # pieces of 1 for 0.3: two nodes of 2; to move `kept` costs 0.3, to keep it nothing
        ({"pieces": [[[1, 0.3]]]}, -1 - 0.5 + (-2 + 0.9) - 4 * 0.3),
        # distributed pieces have a pinned one beside them: they may not be there, and cost nothing
        ({"distributed": [[[1, 5.0]]]}, -1 - 0.5 - 2),
        # to keep costs 0.7, to move nothing; node 0 gives as much
        ({"stays": [9.0, 9.0, 0.7]}, -1 - 0.5 - 2 - 0.7),
        # to keep pays 0.7 less than nothing, and node 0 need not give that
        ({"stays": [9.0, 9.0, -0.7]}, -1 + (-0.5 - 0.7) - 2),
        # the node gives to what stays and to pieces that fit beside it
        (
            {"pieces": [[[1, 0.3]]], "stays": [0.0, 0.0, 0.2]},
            -1 + (-0.5 + 0.2) + (-2 + 0.9) - (2 * 0.3 + 2 * 0.3),
        ),
        (
            {"pieces": [[[1, 0.3]]], "stays": [0.0, 0.0, 0.4]},
            -1 + (-0.5 + 0.3) + (-2 + 0.9) - (0.4 + 0.3 + 2 * 0.3),
        ),
    ],
)
def test_prices_prove_what_they_prove_by_hand(prices: dict[str, Any], cost: float) -> None:
    """Jobs pay, nodes give, pinned jobs do neither."""
    assert by_hand(**prices) == pytest.approx(cost, abs=1e-11)


def single_price(instance: Instance, reference: float) -> tuple[float, float]:
    """The price of a GPU by which totals alone bound the cost best, and that bound."""
    choices = enumerate_mode_choices(instance)
    costs = power_cost(choices.utility, instance.rules.power, reference)
    first = np.searchsorted(choices.job, np.arange(instance.num_jobs))

    def bound(price: float) -> float:
        least = np.minimum.reduceat(costs + price * choices.replicas, first)
        return math.fsum(least) - price * instance.cluster.num_gpus

    low, high = 0.0, 10.0 * float(instance.num_jobs)
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if bound(left) < bound(right) else (low, right)
    return low, bound(low)


@pytest.mark.parametrize(
    "name", ["tiny-disturbed", "even-geometric", "over-disturbed", "mixed-nodes"]
)
def test_a_price_of_gpus_proves_the_bound_of_totals(name: str) -> None:
    """The bound of a knapsack without nodes, and never less than the best allocation known."""
    instance, best = load_benchmark(name), best_known_values()[name].fitness
    price, total = single_price(instance, best)
    tree = {"prices": {"resources": [[price] for _ in instance.cluster.groups]}}
    claim = certificate(instance, tree, 2 * best, best)
    document, given = instance_document(instance), allocation_document(instance.current, instance)
    verdict = verify(document, given, claim)
    expected = fitness_from_cost(total, instance.num_jobs, instance.rules.power, best)
    assert verdict.verified
    assert verdict.bound == pytest.approx(expected, rel=1e-9)
    assert verdict.bound >= best
    assert verdict.gap == pytest.approx(1 - verdict.fitness / verdict.bound, rel=1e-9)


def large_round(jobs: int, nodes: int) -> tuple[Instance, dict[str, Any]]:
    """A round in which many jobs run, and a certificate of it with prices of all kinds."""
    instance = generate(1, jobs, nodes, 4, state="disturbed")
    stays = np.random.default_rng(0).uniform(0, 0.3, instance.current.job.size).tolist()
    sizes = [[k, 0.1 * k**0.5] for k in (1, 2, 3, 4)]
    prices = {"resources": [[0.3]], "pieces": [sizes], "distributed": [sizes[:2]], "stays": stays}
    value = fitness(instance, instance.current)
    return instance, certificate(instance, {"prices": prices}, 1e6, value)


@pytest.mark.parametrize(
    ("jobs", "nodes", "seconds"),
    [(160, 16, 5.0), pytest.param(10_000, 2_500, 60.0, marks=pytest.mark.slow)],
)
def test_a_round_is_checked_in_seconds(jobs: int, nodes: int, seconds: float) -> None:
    """Processor time, with ample room: 0.1 s and 1.5 s is what it takes."""
    instance, claim = large_round(jobs, nodes)
    document, given = instance_document(instance), allocation_document(instance.current, instance)
    start = time.process_time()
    verdict = verify(document, given, claim)
    assert time.process_time() - start < seconds
    assert verdict.feasible


def test_the_checker_runs_by_itself(repository: Path, tmp_path: Path) -> None:
    """Its seven files in a folder of their own; exit codes and both forms of the verdict."""
    instance = random_instance(3, power=-1.0)
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    claim, _ = certify(instance, best, above=1e-6)
    for name in FILES:
        shutil.copy(repository / "experiments" / "verification" / name, tmp_path / name)
    documents = (instance_document(instance), allocation_document(best, instance), claim)
    for name, content in zip("iac", documents, strict=True):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "low").write_text(
        json.dumps(claim | {"bound": claim["bound"] / 2}), encoding="utf-8"
    )
    (tmp_path / "twice").write_text('{"a": 1, "a": 2}', encoding="utf-8")
    (tmp_path / "nan").write_text('{"a": NaN}', encoding="utf-8")
    (tmp_path / "deep").write_text("[" * 200_000, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "verify.py", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("i", "a", "c")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("verified       True\n")
    verdict = json.loads(run("i", "a", "c", "--json", "--exact").stdout)
    assert verdict["verified"]
    assert verdict["reasons"] == []
    assert verdict["fitness"] == pytest.approx(fitness(instance, best), rel=ERROR)
    done = run("i", "a", "low")
    assert done.returncode == 1
    assert "is claimed." in done.stdout
    for bad, sentence in (
        ("gone", "No such file"),
        ("twice", "given twice"),
        ("nan", "NaN"),
        ("deep", "recursion"),
    ):
        done = run("i", "a", bad)
        assert done.returncode == 2
        assert f"File '{bad}' cannot be read" in done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    assert run("i", "a").returncode == 2
    assert run("i", "a", "c", "--fast").returncode == 2
