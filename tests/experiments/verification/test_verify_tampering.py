"""Whatever is wrong with one of its files, the checker refuses it in a sentence."""

from __future__ import annotations

import copy
import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.instance import instance_from_dict
from goodalloc.experiments.verification.verify import verify
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.exact.brute_force import solve_brute_force
from tests.support.certification.certificate_programs import programs
from tests.support.certification.certificates import (
    allocation_document,
    certificate,
    digest,
    instance_document,
)
from tests.support.documents import changed

if TYPE_CHECKING:
    from goodalloc.experiments.verification.verify import Verdict
    from tests.support.documents import Place

HUGE = 10**400

INSTANCE: dict[str, Any] = {
    "format": "goodalloc-instance",
    "version": 1,
    "name": "guarded",
    "cluster": [
        {"name": "old", "nodes": 2, "gpus": 2, "gpu_type": "t4", "resources": {"cpu": 4}},
        {"name": "new", "nodes": 1, "gpus": 3, "gpu_type": "a100", "resources": {"cpu": 5}},
    ],
    "rules": {"power": -1, "floor": 0.01, "max_nodes_per_job": 2},
    "models": {
        "slow": {"one_node": [1, 1.8, 2.5], "several_nodes": [0, 1.5, 2.2, 2.8]},
        "fast": {"one_node": [2, 3.7, 5.1], "several_nodes": [0, 3.1]},
        "fitted": {
            "throughput": {
                "alpha_grad": 0.05,
                "beta_grad": 0.002,
                "alpha_local": 0.02,
                "beta_local": 0.001,
                "alpha_node": 0.1,
                "beta_node": 0.01,
                "gamma": 1.6,
            },
            "gradient": {"square": 0.01, "variance": 0.2},
            "batch": {
                "initial": 32,
                "maximum": 512,
                "atomic_minimum": 8,
                "atomic_maximum": 64,
                "accumulation": True,
            },
        },
    },
    "jobs": [
        {
            "name": "a",
            "age": 600,
            "placement": {"old-0": 1, "old-1": 1},
            "mode": "t4",
            "max_replicas": 4,
            "modes": {
                "t4": {"model": "slow", "gpu_type": "t4", "resources": {"cpu": 1}},
                "a100": {"model": "fast", "gpu_type": "a100", "resources": {"cpu": 2}},
            },
        },
        {"name": "b", "model": "fitted", "age": 900, "restarts": 1, "placement": {"new-0": 1}},
        {"name": "c", "model": None, "age": 60, "max_replicas": 2},
        {"name": "d", "model": "slow", "age": 900, "placement": {"old-1": 1}, "preemptible": False},
    ],
}


@cache
def good() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """An instance, its best allocation, and a certificate that claims just what it proves."""
    instance = instance_from_dict(INSTANCE)
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    value = fitness(instance, best)
    program, allowed = programs(instance, value, value)
    other = program.choices.job != 1
    here = ~other & (program.choices.kind == Kind.KEEP)
    inside, _ = program.tree(allowed & (here | other), 0, nodes=True)
    outside, _ = program.tree(allowed & ~here, 0, nodes=True)
    split = {"job": 1, "choices": [[0, "keep", 1]], "inside": inside, "outside": outside}
    claim = certificate(instance, split, 2 * value, value)
    documents = instance_document(instance), allocation_document(best, instance), claim
    verdict = verify(*documents)
    assert verdict.verified
    assert verdict.fitness == pytest.approx(fitness(instance, best), rel=1e-13)
    claim["bound"] = verdict.bound
    return documents


def leaf(tree: dict[str, Any]) -> Place:
    """Where some leaf is."""
    return () if "prices" in tree else ("outside", *leaf(tree["outside"]))


def within(place: Place) -> Place:
    """A place in the prices of a leaf; pieces are in its value function."""
    return ("values", 0, *place) if place[0] in ("pieces", "distributed") else place


def refused(verdict: Verdict, words: str) -> None:
    """Assert that a verdict says no in a sentence with these words."""
    assert not verdict.verified
    assert len(verdict.reasons) == 1
    assert words in verdict.reasons[0]
    assert len(verdict.reasons[0]) < 300
    assert "\n" not in verdict.reasons[0]


def test_what_was_not_changed_is_verified() -> None:
    """Also in exact arithmetic, from text, and with the result of a solver for an allocation."""
    instance, allocation, claim = good()
    assert verify(instance, allocation, claim).verified
    assert "inside" in claim["tree"]
    assert verify(
        instance, allocation, claim | {"bound": claim["bound"] * (1 + 1e-9)}, exact=True
    ).verified
    again = [json.loads(json.dumps(document)) for document in good()]
    assert verify(*again).verified
    result = allocation | {"format": "goodalloc-result", "solver": "highs", "bound": None}
    assert verify(instance, result, claim).verified


#: Changes of a certificate: where, to what, and words of the refusal.
CERTIFICATES: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-certificates", "expected goodalloc-certificate"),
    (("format",), ..., "'format' is missing"),
    (("version",), 2, "version is not 1"),
    (("version",), True, "version is True"),
    (("version",), "1", "version is '1'"),
    (("kind",), "shares", "kind is 'shares'; expected round"),
    (("kind",), None, "kind is None"),
    (("instance",), "other", "instance is 'other'"),
    (("instance",), 3, "instance is 3; expected str"),
    (("digest",), "0" * 64, "digest is not that of the instance"),
    (("digest",), ..., "'digest' is missing"),
    (("digest",), None, "digest is None"),
    (("bound",), ..., "'bound' is missing"),
    (("bound",), math.nan, "bound is nan"),
    (("bound",), math.inf, "bound is inf"),
    (("bound",), -1.0, "bound is -1.0"),
    (("bound",), "0.5", "bound is '0.5'"),
    (("bound",), True, "bound is True"),
    (("bound",), [1.0], "bound is [1.0]"),
    (("bound",), 0.0, "is claimed"),
    (("units",), ..., "'units' is missing"),
    (("units",), [], "not one for every resource"),
    (("units",), [1.0], "not one for every resource"),
    (("units",), [1.0, 0.5, 1.0], "not one for every resource"),
    (("units",), [1.0, 0.0], "units is 0.0"),
    (("units",), [1.0, -0.5], "units is -0.5"),
    (("units",), [1.0, math.nan], "units is nan"),
    (("units",), [1.0, "0.5"], "units is '0.5'"),
    (("units",), [1.0, 1e-80], "too small"),
    (("units",), [1e-10, 1.0], "too small"),
    (("grid",), ..., "'grid' is missing"),
    (("grid",), [1.0], "not one for every resource"),
    (("grid",), [1.0, 2.0], "is claimed"),
    (("units",), {"gpu": 1.0}, "units is {'gpu': 1.0}"),
    (("tree",), ..., "'tree' is missing"),
    (("tree",), None, "tree is None"),
    (("tree",), [], "tree is []"),
    (("tree",), {}, "'job' is missing"),
    (("tree",), {"reference": 1.0, "prices": {}}, "is claimed"),
    (("tree",), {"prices": None}, "prices is None"),
    (("tree",), {"prices": {}, "job": 0}, "'job' is unknown"),
    (("tree",), {"reference": 1.0, "prices": {"power": []}}, "'power' is unknown"),
    (("tree", "job"), 4, "job 4 does not exist"),
    (("tree", "job"), -1, "job is -1"),
    (("tree", "job"), 0.5, "job is 0.5"),
    (("tree", "job"), "a", "job is 'a'"),
    (("tree", "job"), HUGE, "expected int"),
    (("tree", "inside"), ..., "'inside' is missing"),
    (("tree", "outside"), ..., "'outside' is missing"),
    (("tree", "inside"), None, "inside is None"),
    (("tree", "outside"), {"reference": 1.0, "prices": {}}, "is claimed"),
    (("tree", "choices"), ..., "'choices' is missing"),
    (("tree", "choices"), {}, "choices is {}"),
    (("tree", "choices"), ["idle"], "choice is 'idle'"),
    (("tree", "choices"), [[0, "idle"]], "choice is [0, 'idle']"),
    (("tree", "choices"), [[0, "idle", 1]], "has no choice"),
    (("tree", "choices"), [[0, "sleep", 0]], "kind is 'sleep'"),
    (("tree", "choices"), [[0, ["idle"], 0]], "kind is ['idle']"),
    (("tree", "choices"), [[9, "one_node", 1]], "has no choice"),
    (("tree", "choices"), [[0, "one_node", 0]], "has no choice"),
    (("tree", "choices"), [[0, "one_node", 99]], "has no choice"),
    (("tree", "choices"), [[0, "one_node", 1.5]], "is 1.5; expected int"),
    (("tree", "choices"), [[-1, "one_node", 1]], "is -1; expected int"),
    (("tree", "choices"), [[0, "keep", 7]], "has no choice"),
    (("extra",), 1, "'extra' is unknown"),
]

#: Changes of the reference of a leaf.
REFERENCES: list[tuple[Any, str]] = [
    (None, "reference and power disagree"),
    (0.0, "reference is 0.0"),
    (-1.0, "reference is -1.0"),
    (math.nan, "reference is nan"),
    ("1", "reference is '1'"),
    (1e-90, "is claimed"),
    (1e90, "is claimed"),
]

#: Changes of the prices of a leaf.
PRICES: list[tuple[Place, Any, str]] = [
    (("resources",), [[0.0, 0.0]], "every group and resource"),
    (("resources",), [[0.0], [0.0]], "every group and resource"),
    (("resources", 0, 0), -1e-9, "resources is -1e-09"),
    (("resources", 1, 1), math.nan, "resources is nan"),
    (("resources", 1, 1), math.inf, "resources is inf"),
    (("resources", 0, 0), "0", "resources is '0'"),
    (("resources", 0), 0.0, "resources is 0.0; expected list"),
    (("resources", 0, 0), HUGE, "expected float"),
    (("resources", 0, 0), 1e9, "is claimed"),
    (("pieces",), [[]], "pieces are not a list for every group"),
    (("pieces",), [[], [], []], "pieces are not a list for every group"),
    (("pieces", 0), [[1, 1]], "takes [1]"),
    (("pieces", 0), [[0, 0, 1.0]], "takes [0, 0]"),
    (("pieces", 0), [[1, 1, -1.0]], "pieces is -1.0"),
    (("pieces", 0), [[1, 1, None]], "pieces is None"),
    (("pieces", 0), [[1.5, 1, 1.0]], "units of pieces is 1.5"),
    (("pieces", 0), [[-1, 1, 1.0]], "pieces is -1; expected float from 0"),
    (("pieces", 0), [[]], "takes []"),
    (("pieces", 0), 7, "pieces is 7; expected list"),
    (("pieces", 0), [[1, 1, 1e9]], "is claimed"),
    (("distributed",), [[], [], []], "distributed are not a list for every group"),
    (("distributed", 0), [[1, 1, math.nan]], "distributed is nan"),
    (("distributed", 0), [[1, 1, 1e9]], "is claimed"),
    (("stays",), [0.0], "stays are not one for every entry"),
    (("stays", 0), math.nan, "stays is nan"),
    (("stays", 0), "1", "stays is '1'"),
    (("stays", 0), 1e9, "is claimed"),
    (("stays", 0), -math.inf, "stays is -inf"),
    (("parts",), [[[1, 0.5]], []], "no replica takes a part of a GPU"),
    (("parts",), 0, "parts is 0"),
]

#: Changes of an allocation.
ALLOCATIONS: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-instance", "format is 'goodalloc-instance'"),
    (("version",), 2, "version is not 1"),
    (("instance",), "other", "instance is 'other'"),
    (("placements",), ..., "'placements' is missing"),
    (("placements",), [], "placements is []"),
    (("placements", "z"), {"old-0": 1}, "job 'z' is unknown"),
    (("placements", "b"), {"old-9": 1}, "node 'old-9' is unknown"),
    (("placements", "b"), {"old-01": 1}, "node 'old-01' is unknown"),
    (("placements", "b"), {"new-0": 0}, "is 0; expected int"),
    (("placements", "b"), {"new-0": 1.0}, "is 1.0; expected int"),
    (("placements", "b"), {"new-0": True}, "is True; expected int"),
    (("placements", "b"), {"new-0": "1"}, "is '1'; expected int"),
    (("placements", "b"), 1, "Job 'b' is 1; expected dict"),
    (("placements", "b"), {"new-0": 65}, "Job 'b' has 65 replicas"),
    (("placements", "d"), ..., "not preemptible"),
    (("placements", "d"), {"old-0": 1}, "not preemptible"),
    (("modes", "a"), ..., "mode '' is unknown"),
    (("modes", "a"), "v100", "mode 'v100' is unknown"),
    (("modes", "b"), "t4", "mode 't4' is unknown"),
    (("modes", "z"), "t4", "job 'z' is unknown"),
    (("modes",), None, "modes is None"),
    (("when",), 0, "'when' is unknown"),
]

#: Changes of an instance whose digest is put right.
INSTANCES: list[tuple[Place, Any, str]] = [
    (("format",), "goodalloc-round", "format is 'goodalloc-round'"),
    (("version",), 0, "version is 0"),
    (("cluster",), [], "expected GPUs"),
    (("cluster", 0, "nodes"), 0, "nodes is 0"),
    (("cluster", 0, "nodes"), 10**8, "at most 1e7 nodes"),
    (("cluster", 0, "gpus"), -2, "gpus is -2"),
    (("cluster", 0, "gpus"), 2.0, "gpus is 2.0"),
    (("cluster", 1, "name"), "old", "same name"),
    (("cluster", 0, "color"), "red", "'color' is unknown"),
    (("cluster", 0, "resources", "cpu"), "4", "'cpu' is '4'"),
    (("cluster", 0, "resources", "cpu"), 0, "'cpu' is 0"),
    (("rules",), "default", "expected dict"),
    (("rules", "power"), math.nan, "power is nan"),
    (("rules", "power"), 1e-12, "power is too near 0"),
    (("rules", "power"), "nan", "power is 'nan'"),
    (("rules", "floor"), -1.0, "floor is -1.0"),
    (("rules", "fair_share"), "half", "fair_share is 'half'"),
    (("rules", "interference_avoidance"), 1, "interference_avoidance is 1"),
    (("rules", "max_nodes_per_job"), 0, "max_nodes_per_job is 0"),
    (("rules", "penalty"), 1, "'penalty' is unknown"),
    (("rules", "grid_points"), ..., "'grid_points' is missing"),
    (("models",), [], "models is []"),
    (("models", "slow-0"), {"application": "cifar10", "progress": 0.5}, "is missing"),
    (("jobs",), [], "Instance"),
    (("jobs", 0, "name"), "b", "names"),
    (("jobs", 0, "modes"), {}, "expected a model or modes"),
    (("jobs", 0, "mode"), "v100", "mode 'v100' is unknown"),
    (("jobs", 1, "model"), "none", "model 'none' is unknown"),
    (("jobs", 1, "model"), ..., "expected a model or modes"),
    (("jobs", 1, "placement"), {"new-5": 1}, "node 'new-5' is unknown"),
    (("jobs", 1, "age"), math.inf, "age is inf"),
    (("jobs", 1, "age"), "900", "age is '900'"),
    (("jobs", 1, "weight"), 0.0, "weight is 0.0"),
    (("jobs", 1, "restarts"), 0.5, "restarts is 0.5"),
    (("jobs", 1, "preemptible"), 0, "preemptible is 0"),
    (("jobs", 1, "owner"), "x", "'owner' is unknown"),
    (("jobs", 3, "placement"), {"old-1": 3}, "overfill"),
    (("jobs", 0, "modes", "t4", "gpu_share"), 1.5, "takes no part of a GPU"),
    (("jobs", 0, "modes", "t4", "resources"), {"disk": 1}, "'disk' is unknown"),
]


@pytest.mark.parametrize(("place", "value", "words"), CERTIFICATES)
def test_a_certificate_that_was_changed_is_refused(place: Place, value: Any, words: str) -> None:
    """A sentence that says what is wrong, or that less is proved than is claimed."""
    instance, allocation, claim = good()
    refused(verify(instance, allocation, changed(claim, place, value)), words)


@pytest.mark.parametrize(("value", "words"), REFERENCES)
def test_a_reference_that_was_changed_is_refused(value: Any, words: str) -> None:
    """As above, of a leaf."""
    instance, allocation, claim = good()
    where = ("tree", *leaf(claim["tree"]), "reference")
    refused(verify(instance, allocation, changed(claim, where, value)), words)


@pytest.mark.parametrize(("place", "value", "words"), PRICES)
def test_prices_that_were_changed_are_refused(place: Place, value: Any, words: str) -> None:
    """As above, in a leaf."""
    instance, allocation, claim = good()
    where = ("tree", *leaf(claim["tree"]), "prices", *within(place))
    refused(verify(instance, allocation, changed(claim, where, value)), words)


@pytest.mark.parametrize(("place", "value", "words"), ALLOCATIONS)
def test_an_allocation_that_was_changed_is_refused(place: Place, value: Any, words: str) -> None:
    """What it names, what it breaks."""
    instance, allocation, claim = good()
    verdict = verify(instance, changed(allocation, place, value), claim)
    assert not verdict.verified
    assert words in verdict.reasons[0]


@pytest.mark.parametrize(("place", "value", "words"), INSTANCES)
def test_an_instance_that_was_changed_is_refused(place: Place, value: Any, words: str) -> None:
    """Even one whose digest the certificate has."""
    instance, allocation, claim = good()
    other = changed(instance, place, value)
    refused(verify(other, allocation, claim | {"digest": digest(other)}), words)
    assert not verify(other, allocation, claim).verified


@pytest.mark.parametrize("document", [None, 3, "x", [], [[]], {}, {"format": None}, math.nan])
def test_what_is_no_document_is_refused(document: Any) -> None:
    """In the place of any of the three."""
    for at in range(3):
        documents: list[Any] = [*good()]
        documents[at] = document
        refused(verify(*documents), "")


def test_deep_nesting_is_refused() -> None:
    """Lists in lists, and splits in splits that are no splits."""
    instance, allocation, claim = good()
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for at in range(3):
        documents: list[Any] = [copy.deepcopy(document) for document in good()]
        documents[at]["name"] = deep
        refused(verify(*documents), "")
        del documents[at]["name"]
    tree: dict[str, Any] = {"prices": {}}
    for _ in range(2_000):
        tree = {"job": 0, "choices": [], "inside": {"prices": {}}, "outside": tree}
    verdict = verify(instance, allocation, claim | {"tree": tree})
    assert not verdict.verified


def test_every_price_that_matters_is_used() -> None:
    """Without the prices of a leaf, or with twice as many, less is proved."""
    instance, allocation, claim = good()
    where = ("tree", *leaf(claim["tree"]), "prices")
    refused(verify(instance, allocation, changed(claim, where, {})), "is claimed")
    for key in ("pieces", "distributed", "stays"):
        without = changed(claim, (*where, *within((key,))), ...)
        assert verify(instance, allocation, without).bound >= claim["bound"]
