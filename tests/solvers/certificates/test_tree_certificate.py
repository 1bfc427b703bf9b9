"""Certificates of rounds on trees: true, mostly tight, and checked by who knows nothing of them."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.verification.verify import verify
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.solvers.certificates.tree_certificate import certify_tree
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.topology.brute_force import topology_brute_force
from goodalloc.solvers.topology.exact_tree import solve_tree
from tests.support.certification.certificates import digest
from tests.support.certification.tree_certificates import tree_documents
from tests.support.few import few
from tests.support.small_rounds import tiny_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.certification.tree_certificates import Document

#: Seeds of a test, so that one test is not a process of its own for each.
BATCH = 25

#: Gap below which a bound is tight, and the share of tiny rounds in which it may not be.
TIGHT, LOOSE = 1e-8, 0.04


@pytest.mark.parametrize("first", few(range(0, 1000, BATCH), 2))
def test_the_checker_verifies_certificates_of_tiny_trees(first: int) -> None:
    """Of all powers, with pinned jobs, requirements and uplinks; few leave a gap."""
    loose = 0
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        allocation, best = topology_brute_force(round_)
        certificate = certify_tree(round_, best, Stop(seconds=20.0))
        documents = tree_documents(round_, allocation, certificate)
        verdict = verify(*documents)
        assert verdict.verified, (seed, verdict.reasons)
        assert verdict.fitness == pytest.approx(best, rel=1e-12)
        assert certificate.bound >= best
        assert verify(*documents, exact=True).verified, seed
        loose += certificate.bound > best * (1 + TIGHT)
    assert loose <= LOOSE * BATCH


@pytest.mark.parametrize(
    ("seed", "load", "uplink_jobs"),
    [(0, 0.25, None), (2, 0.5, None), (0, 0.75, None), (1, 0.75, 2), (1, 1.0, 1), (1, 1.5, None)],
)
def test_rounds_whose_domains_decide_are_proved(
    seed: int, load: float, uplink_jobs: int | None
) -> None:
    """Sixteen nodes under three levels, in which counting domains together proves too little."""
    round_ = generate_on_tree(seed, 16, load=load, uplink_jobs=uplink_jobs)
    result = solve_tree(round_)
    certificate = certify_tree(round_, result.fitness, Stop(seconds=60.0, gap=1e-9))
    assert result.allocation is not None
    verdict = verify(*tree_documents(round_, result.allocation, certificate))
    assert verdict.verified
    assert certificate.bound <= result.fitness * (1 + TIGHT)


@cache
def _proved() -> tuple[Document, Document, Document]:
    round_ = generate_on_tree(0, 16, load=0.75, uplink_jobs=2)
    result = solve_tree(round_)
    assert result.allocation is not None
    certificate = certify_tree(round_, result.fitness, Stop(seconds=60.0))
    return tree_documents(round_, result.allocation, certificate)


def _documents() -> tuple[Document, Document, Document]:
    """Return copies, to be changed, of a round, its optimum and a certificate, made once."""
    return copy.deepcopy(_proved())


def test_a_changed_file_is_refused() -> None:
    """Prices, claim, tree or allocation: each in a sentence, with the digest put right."""
    instance, allocation, certificate = _documents()
    assert verify(instance, allocation, certificate).verified

    def verdict(changed: Document) -> str:
        claim = copy.deepcopy(certificate) | {"digest": digest(changed)}
        found = verify(changed, allocation, claim)
        assert not found.verified
        return " ".join(found.reasons)

    lower = certificate | {"bound": certificate["bound"] * (1 - 1e-6)}
    assert "is proved" in " ".join(verify(instance, allocation, lower).reasons)
    changes: list[tuple[Callable[[Document], Any], str]] = [
        (lambda tree: tree.update(requires=[0] * len(tree["requires"])), "that it requires"),
        (lambda tree: tree["requires"].pop(), "requires is not a level for every job"),
        (lambda tree: tree["levels"][0]["domains"].pop(), "not one for every node"),
        (lambda tree: tree["levels"][0].update(domains=[0] * 16), "lies in two others"),
        (lambda tree: tree["levels"].pop(), "a mode of one GPU for every job and level"),
        (lambda tree: tree["levels"][0].update(domains=[-1] * 16), "domains is -1"),
        (lambda tree: tree.update(more=1), "key 'more' is unknown"),
        (lambda tree: tree["requires"].__setitem__(0, 5), "requires a level that does not exist"),
    ]
    for change, reason in changes:
        changed = copy.deepcopy(instance)
        change(changed["topology"])
        assert reason in verdict(changed)
    without = {key: value for key, value in instance.items() if key != "topology"}
    assert "there is no tree" in verdict(without) or "mode" in verdict(without)


@pytest.mark.parametrize(
    ("uplink_jobs", "requires", "reason"),
    [
        (0, "", "Level 'rack': 1 jobs share an uplink."),
        (1, "rack", "Job 'a' is not held by the level that it requires."),
        (1, "", ""),
    ],
)
def test_allocations_that_break_rules_of_the_tree_are_refused(
    uplink_jobs: int, requires: str, reason: str
) -> None:
    """A job in two racks: allowed if one may use the uplinks, and it requires nothing."""
    jobs = (Job("a", SpeedupTable((1.0, 1.9), (0.0, 1.8))),)
    instance = Instance(Cluster.uniform(nodes=2, gpus=1), jobs, Rules(restart_delay=0.0))
    topology = Topology.regular(2, [(Level("rack", uplink_jobs=uplink_jobs), 1)])
    round_ = TopologyRound(instance, topology, requires=(requires,))
    certificate = certify_tree(round_, solve_tree(round_).fitness)
    both = Allocation.from_matrix([[1, 1]])
    verdict = verify(*tree_documents(round_, both, certificate))
    assert " ".join(verdict.reasons) == reason
    assert verdict.verified == (not reason)


@pytest.mark.parametrize(
    ("prices", "reason"),
    [
        ({"domains": [[[2, -1.0]], [], []]}, "domains is -1.0"),
        ({"domains": [[]]}, "not one for every level"),
        ({"domains": [[[0, 1.0]], [], []]}, "size of domains is 0"),
        ({"uplinks": [1.0, 0.0, 0.0]}, "uplinks of 'island' have no limit"),
        ({"nested": [{"one_node": [], "levels": [], "above": 0.0}]}, "other levels or entries"),
        ({"nested": [{"one_node": [[1]], "levels": [[]], "above": 0.0}]}, "one_node is [1]"),
        ({"nested": [{"one_node": [], "levels": [[]]}]}, "key 'above' is missing"),
        ({"nested": [{"one_node": [], "levels": [[]], "above": 0.0, "stays": [1.0]}]}, "entries"),
        ({"nests": []}, "key 'nests' is unknown"),
    ],
)
def test_prices_that_make_no_sense_are_refused(prices: Document, reason: str) -> None:
    """In a sentence that names them."""
    instance, allocation, certificate = _documents()
    leaf = {"reference": 0.1, "prices": prices}
    verdict = verify(instance, allocation, certificate | {"tree": leaf})
    assert not verdict.verified
    assert reason in " ".join(verdict.reasons)


def test_a_certificate_bounds_any_allocation() -> None:
    """Nobody runs anything: the gap is that to the optimum."""
    round_ = generate_on_tree(1, 16, load=0.5)
    best = solve_tree(round_).fitness
    current = round_.instance.current
    nothing = Allocation.from_entries(
        current.job[:0], current.node[:0], current.replicas[:0], current.num_jobs, 16
    )
    certificate = certify_tree(round_, best)
    verdict = verify(*tree_documents(round_, nothing, certificate))
    assert verdict.verified
    assert verdict.gap > 0.5
    assert verdict.bound == pytest.approx(best, rel=1e-9)


def test_many_gpus_on_few_nodes_do_not_overflow() -> None:
    """Nested prices of a node of 256 GPUs, for jobs of one GPU, as whole numbers."""
    rules = Rules(
        power=1.0,
        floor=0.0,
        idle_utility=0.1,
        restart_delay=0.0,
        fair_share="one_gpu",
        speedup_scale="job",
    )
    jobs = tuple(Job(f"job-{i}", SpeedupTable((1.0,), ()), max_replicas=1) for i in range(512))
    instance = Instance(Cluster.uniform(nodes=2, gpus=256), jobs, rules)
    round_ = TopologyRound(instance, Topology((), ()))
    nothing = Allocation.from_placements([()] * 512, 2)
    instance_file, allocation, claim = tree_documents(
        round_, nothing, certify_tree(round_, 1.0, Stop(seconds=5.0), most_leaves=1)
    )
    nested = {"one_node": [[1, 1.0]], "levels": [[]], "above": 0.0}
    claim |= {"tree": {"reference": 1.0, "prices": {"nested": [nested]}}, "bound": 0.9}
    for exact in (False, True):
        assert "A bound of 1.1" in verify(instance_file, allocation, claim, exact=exact).reasons[0]


def test_the_order_of_the_modes_is_that_of_the_levels() -> None:
    """Which the digest, of sorted keys, does not tell."""
    instance, allocation, certificate = _documents()
    for job in instance["jobs"]:
        job["modes"] = dict(sorted(job["modes"].items()))
    verdict = verify(instance, allocation, certificate)
    assert "a mode of one GPU for every job and level" in " ".join(verdict.reasons)


def test_nested_prices_of_huge_domains_are_refused() -> None:
    """Their tables would take minutes."""
    instance = Instance(Cluster.uniform(nodes=4097, gpus=1), (Job("a"),), Rules(restart_delay=0.0))
    round_ = TopologyRound(instance, Topology((), ()))
    one_gpu = Allocation.from_placements([((0, 1),)], 4097)
    certificate = certify_tree(round_, 1e-3, most_leaves=1)
    documents = tree_documents(round_, one_gpu, certificate)
    nested = {"one_node": [], "levels": [[]], "above": 0.0}
    documents[2]["tree"] = {"reference": 0.1, "prices": {"nested": [nested]}}
    assert "of domains of 4097 GPUs are too many" in " ".join(verify(*documents).reasons)


def test_a_pinned_job_may_span_more_nodes_than_a_rack_has() -> None:
    """It is left out of the prices of pieces."""
    table = SpeedupTable((1.0, 1.9, 2.7), (0.0, 1.8, 2.5))
    jobs = (
        Job("pinned", table, placement=((0, 1), (1, 1), (2, 1)), preemptible=False, age=600.0),
        Job("other", table, age=600.0),
    )
    instance = Instance(Cluster.uniform(nodes=6, gpus=1), jobs, Rules())
    round_ = TopologyRound(instance, Topology.regular(6, [(Level("rack", 2.0), 2)]))
    result = solve_tree(round_)
    assert result.allocation is not None
    certificate = certify_tree(round_, result.fitness)
    assert verify(*tree_documents(round_, result.allocation, certificate)).verified
    assert certificate.bound == pytest.approx(result.fitness, rel=1e-9)
